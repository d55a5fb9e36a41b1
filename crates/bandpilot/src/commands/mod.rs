//! One module a command: arguments to files and values, values to an [`Output`](crate::output::Output).

pub mod audit;
pub mod cluster;
pub mod cluster_import;
pub mod completions;
pub mod dispatch;
pub mod evaluate;
pub mod explain;
pub mod fill;
pub mod fit;
mod ground;
pub mod man;
pub mod measure;
mod parts;
pub mod simulate;
pub mod slurm;
pub mod submit;
pub mod windows;
