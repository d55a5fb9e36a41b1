//! Evaluations on the published measurements, against the bars that the project sets itself.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]
#![expect(clippy::print_stdout, reason = "the figures are the result; shown with --nocapture")]

mod gates;
mod oracle;
mod prediction;

use std::path::Path;

use bandpilot_eval::{ClusterName, Truth};

/// The measured truth of a cluster; `None`, said aloud, without the data.
fn truth(test: &str, cluster: ClusterName) -> Option<Truth> {
    let data = bandpilot_testdata::require_data(test)?.join("nccl-bandpilot");
    Some(cluster.truth(&mut |file| text(&data, file)).unwrap())
}

fn text(folder: &Path, file: &str) -> std::io::Result<String> {
    std::fs::read_to_string(folder.join(file))
}

/// Median of an even or odd number of values.
fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    f64::midpoint(values[(values.len() - 1) / 2], values[values.len() / 2])
}
