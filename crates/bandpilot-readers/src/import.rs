//! What importing one file of measurements takes and gives, and which reader a file is for.

use std::sync::Arc;

use bandpilot_core::{Cluster, Collective, GpuMask, Measurement};

use crate::{Diagnostic, Severity, csv_tables, encoding, hostlist, nccl_tests};

/// More than any GPU can move; a larger number is a slip of the pen.
pub(crate) const MAX_BUSBW_GBYTES_PER_S: f64 = 100_000.0;

/// Most host columns of a table.
const MAX_TABLE_HOSTS: usize = 1000;

/// What to do with rows of a table that does not record message sizes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum MissingBytes {
    /// Refuse them: nobody may guess a size.
    #[default]
    Refuse,
    /// The user says that the size is unknown.
    Unknown,
    /// The user knows the size, in bytes.
    Given(u64),
}

/// What the caller knows about a file and the file may not say.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ImportOptions {
    /// The collective that was run.
    pub op: Option<Collective>,
    /// The GPUs that took part, sorted by host name.
    pub placement: Option<Vec<(String, GpuMask)>>,
    /// Size for rows without one.
    pub bytes: MissingBytes,
    /// Names for the host columns of a table, or the one new name of a single-host table.
    pub hosts: Vec<String>,
    /// Host names to replace: old name, new name.
    pub renames: Vec<(String, String)>,
    /// The cluster that was measured: its host names, GPUs and PCI bus ids settle what logs leave open.
    pub cluster: Option<Arc<Cluster>>,
}

impl ImportOptions {
    /// Sets host names from a list such as `h[1-4]` or `old1=new1,old2=new2`.
    ///
    /// ```
    /// use bandpilot_readers::ImportOptions;
    /// let mut options = ImportOptions::default();
    /// options.set_hosts("h[1-2],H100_26=h3").unwrap();
    /// assert_eq!(options.hosts, ["h1", "h2"]);
    /// assert_eq!(options.renames, [("H100_26".to_owned(), "h3".to_owned())]);
    /// ```
    ///
    /// # Errors
    /// The first item that is neither a hostlist nor `OLD=NEW`.
    pub fn set_hosts(&mut self, text: &str) -> Result<(), Diagnostic> {
        for (_, item) in hostlist::split_items(text) {
            match item.split_once('=') {
                Some((old, new)) if hostlist::is_host_name(new.trim()) => {
                    self.renames.push((old.trim().to_owned(), new.trim().to_owned()));
                }
                Some((_, new)) => {
                    let message = format!("'{new}' is not a host name");
                    return Err(Diagnostic::error("hosts", message).help("write OLD=NEW"));
                }
                None => self.hosts.extend(hostlist::expand_up_to(item, MAX_TABLE_HOSTS)?),
            }
        }
        Ok(())
    }
}

/// What became of one file.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Import {
    /// The rows that may be used, in the order of the file.
    pub measurements: Vec<Measurement>,
    /// Rows without a measurement in them (single GPU, size 0, too slow to be printed).
    pub skipped_rows: usize,
    /// Rows that are wrong, each with its own error, or that the whole file's error is about.
    pub refused_rows: usize,
    /// True if the file as a whole or every single row was refused; then there are no measurements.
    pub refused: bool,
    /// Remarks in the order of the file.
    pub diagnostics: Vec<Diagnostic>,
}

impl Import {
    /// Nothing was imported, for one reason.
    pub(crate) fn refuse(reason: Diagnostic) -> Self {
        Self { refused: true, diagnostics: vec![reason], ..Self::default() }
    }

    /// Brings the remarks into order; a file of which only refused rows are left counts as refused.
    pub(crate) fn finish(mut self) -> Self {
        crate::diagnostic::sort(&mut self.diagnostics);
        self.refused |= self.measurements.is_empty() && self.refused_rows > 0;
        self
    }

    /// True if any remark is an error.
    pub fn has_errors(&self) -> bool {
        self.diagnostics.iter().any(|d| d.severity == Severity::Error)
    }
}

/// Imports a file of any known kind: a CSV table or the output of nccl-tests. `source` is the file's
/// name as the measurements are to carry it.
pub fn import(source: &str, text: &str, options: &ImportOptions) -> Import {
    let text = match encoding::ready(text) {
        Ok(text) => text,
        Err(reason) => return Import::refuse(reason),
    };
    let text = text.as_ref();
    if csv_tables::is_table(text) {
        csv_tables::read(source, text, options)
    } else {
        renamed(nccl_tests::read(source, text, options), options)
    }
}

/// What a host is called after renaming.
pub(crate) fn new_name<'a>(host: &'a str, renames: &'a [(String, String)]) -> &'a str {
    renames.iter().find(|(old, _)| old == host).map_or(host, |(_, new)| new)
}

/// Gives hosts their new names; refuses two hosts of one name.
fn renamed(mut import: Import, options: &ImportOptions) -> Import {
    for measurement in &mut import.measurements {
        for (host, _) in &mut measurement.placement {
            let new = new_name(host, &options.renames);
            if new != host {
                *host = new.to_owned();
            }
        }
        measurement.placement.sort_by(|a, b| a.0.cmp(&b.0));
        if measurement.placement.windows(2).any(|pair| pair[0].0 == pair[1].0) {
            let reason = Diagnostic::error("hosts", "two hosts would have the same name");
            return Import::refuse(reason.help("give every host a name of its own"));
        }
    }
    import
}
