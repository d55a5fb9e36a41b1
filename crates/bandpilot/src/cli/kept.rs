//! What is kept of a simulation.

use std::path::PathBuf;

use clap::Args;

/// Where results go beside stdout.
#[derive(Debug, Args)]
pub struct Kept {
    /// Folder for everything: jobs.csv, jobs.parquet, summary.json, report.html, and each run as soon as it is done
    #[arg(long, value_name = "DIR", help_heading = "What is kept")]
    pub out: Option<PathBuf>,
    /// Go on where the same command was interrupted: runs that are in the folder are not run again
    #[arg(long, requires = "out", conflicts_with = "force", help_heading = "What is kept")]
    pub resume: bool,
    /// Write a report with plots, one HTML file
    #[arg(long, value_name = "FILE", help_heading = "What is kept")]
    pub report: Option<PathBuf>,
    /// Overwrite results that are there
    #[arg(long, help_heading = "What is kept")]
    pub force: bool,
}
