//! From the published tables to a truth. Reads no file: the caller hands in the texts.

use bandpilot_core::Measurement;
use bandpilot_readers::{ImportOptions, MissingBytes, Severity, import};

use crate::truth::{Truth, TruthError};

/// The evaluation clusters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClusterName {
    /// Four hosts of eight H100.
    H100,
    /// One host each of 4090, V100, A6000 and A800.
    Het,
}

/// Why the tables could not be used.
#[derive(Debug)]
pub enum LoadError<E> {
    /// A file could not be had.
    File(E),
    /// A file was refused, or something is missing in the tables.
    Tables(TableError),
}

/// What is wrong with the tables.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TableError {
    /// A file was refused.
    #[error("{file}: {reason}")]
    Refused {
        /// The file's name.
        file: String,
        /// The first error in it.
        reason: String,
    },
    /// Something is missing.
    #[error(transparent)]
    Truth(#[from] TruthError),
}

const CROSS: &str = "cross_H100_32gpu.csv";

impl ClusterName {
    /// Name on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::H100 => "h100-32",
            Self::Het => "het-4mix",
        }
    }

    /// The cluster of that name.
    pub fn parse(name: &str) -> Option<Self> {
        [Self::H100, Self::Het].into_iter().find(|cluster| cluster.name() == name)
    }

    const fn local_files(self) -> [&'static str; 4] {
        match self {
            Self::H100 => {
                ["host_H100_26.csv", "host_H100_27.csv", "host_H100_28.csv", "host_H100_29.csv"]
            }
            Self::Het => ["host_4090.csv", "host_V100.csv", "host_A6000.csv", "host_A800.csv"],
        }
    }

    /// The truth from the published tables; `text_of` gives the text of a file of that folder.
    ///
    /// # Errors
    /// If a file cannot be had, is refused by the reader, or lacks a reading.
    pub fn truth<E>(
        self,
        text_of: &mut dyn FnMut(&str) -> Result<String, E>,
    ) -> Result<Truth, LoadError<E>> {
        let cross = measurements(CROSS, text_of)?;
        let mut local: [Vec<Measurement>; 4] = Default::default();
        for (file, of_host) in self.local_files().into_iter().zip(&mut local) {
            *of_host = measurements(file, text_of)?;
        }
        let truth = match self {
            Self::H100 => Truth::h100(&cross, &local),
            Self::Het => Truth::het(&cross, &local),
        };
        truth.map_err(|error| LoadError::Tables(error.into()))
    }

    /// The truth for use without data.
    pub fn synthetic(self) -> Truth {
        Truth::synthetic(match self {
            Self::H100 => crate::clusters::h100_32(),
            Self::Het => crate::clusters::het_4mix(),
        })
    }
}

fn measurements<E>(
    file: &str,
    text_of: &mut dyn FnMut(&str) -> Result<String, E>,
) -> Result<Vec<Measurement>, LoadError<E>> {
    let text = text_of(file).map_err(LoadError::File)?;
    // Four of the tables do not record their message size; the protocol takes them as they are.
    let options = ImportOptions { bytes: MissingBytes::Unknown, ..ImportOptions::default() };
    let read = import(file, &text, &options);
    if read.refused || read.has_errors() {
        let errors = read.diagnostics.iter().filter(|d| d.severity == Severity::Error);
        let reason = errors
            .map(|d| format!("line {}: {}", d.line, d.message))
            .next()
            .unwrap_or_else(|| "nothing in it can be used".to_owned());
        return Err(LoadError::Tables(TableError::Refused { file: file.to_owned(), reason }));
    }
    Ok(read.measurements)
}
