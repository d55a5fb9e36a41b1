//! Readers of the outside world: text in, values and diagnostics out.
//!
//! Nothing here opens a file or knows a clock. A reader never fails as a whole: it gives what it could
//! read and a list of [`Diagnostic`]s that point at the rest ([`Parsed`], [`Import`]). What is ambiguous
//! is refused with the reason, never guessed.

mod csv_cells;
mod csv_lines;
mod diagnostic;
mod encoding;
mod import;
mod links;
mod near;
mod toml_walk;

pub mod cluster_file;
pub mod cluster_import;
pub mod coverage;
pub mod csv_tables;
pub mod hostlist;
pub mod leaf_map;
pub mod nccl_tests;
pub mod openb;
pub mod placement;
pub mod slurm;
pub mod state_file;
pub mod store;
pub mod topo;
pub mod trace_file;

pub use diagnostic::{Diagnostic, Parsed, Severity};
pub use import::{Import, ImportOptions, MissingBytes, import};
