//! CSV tables of measured bandwidths, link matrices and GPU sets.
//!
//! Four kinds, told apart by their header:
//!
//! * **host tables** with `host, gpus, message_bytes, busbw_GBps` (and `num_gpus`, `bitmask`): one row a
//!   GPU set of one host; `gpus` are local indexes separated by blanks;
//! * **cross tables** with `n0.., gpus_h0.., message_bytes, busbw_GBps` (and `num_gpus`, `num_hosts`,
//!   `sorted_counts`): one row a GPU set over several hosts, one pair of columns a host;
//! * **link matrices** with `gpu, GPU0, GPU1, ...` in the words of `nvidia-smi topo -m`;
//! * **mask tables** with `m0, m1, ...`: one bit mask a host.
//!
//! Both bandwidth tables hold `all_reduce` bus bandwidths in GB/s by the definition of the format, and
//! record a single GPU, where nothing is communicated, as 0. What a row says twice (count, mask, list)
//! must agree, else the row is refused.

mod bandwidth;
mod matrices;

use crate::{Diagnostic, Import, ImportOptions};

pub use matrices::{read_links, read_masks};

use crate::csv_lines::Lines;

/// Column that both kinds of bandwidth table have.
const BUSBW: &str = "busbw_GBps";

/// True if the text begins with the header of a bandwidth table, link matrix or mask table.
pub fn is_table(text: &str) -> bool {
    let Some(lines) = Lines::new(text) else { return false };
    lines.has(BUSBW) || lines.has("GPU0") || lines.has("m0")
}

/// Reads a host or cross table. `source` is the name that the measurements carry.
///
/// ```
/// use bandpilot_readers::{ImportOptions, csv_tables};
/// let text = "host,num_gpus,bitmask,gpus,message_bytes,busbw_GBps\nh1,2,5,0 2,1024,9.5\n";
/// let import = csv_tables::read("t.csv", text, &ImportOptions::default());
/// assert_eq!(import.measurements[0].busbw_gbytes_per_s, 9.5);
/// ```
pub fn read(source: &str, text: &str, options: &ImportOptions) -> Import {
    let Some(lines) = Lines::new(text) else {
        return Import::refuse(Diagnostic::error("", "the file is empty"));
    };
    if !lines.has(BUSBW) {
        let help =
            "link matrices belong into a cluster file; bandwidth tables have a column busbw_GBps";
        let reason = Diagnostic::error(BUSBW, "the table has no such column");
        return Import::refuse(reason.at(lines.header_line(), 0).help(help));
    }
    bandwidth::read(source, &lines, options)
}

#[cfg(test)]
#[path = "../tests/csv_tables.rs"]
mod tests;
