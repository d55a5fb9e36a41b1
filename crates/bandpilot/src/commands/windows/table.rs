//! One row a run, as CSV.

use std::io::{self, Write};

use super::text::Studied;
use crate::commands::simulate::figures::figures;

/// Columns before the figures of `simulate`.
const COLUMNS: [&str; 6] = ["eta", "window", "from_s", "hosts", "policy", "seed"];

/// Writes a row a size of clusters, window, policy and seed. Numbers are written so that reading gives them back to the last bit;
/// a cell is empty where there is no figure.
///
/// # Errors
/// If writing fails.
pub fn csv(w: &mut dyn Write, result: &Studied, etas: &[f64]) -> io::Result<()> {
    let mut csv = csv::Writer::from_writer(w);
    let names = crate::commands::simulate::figures::FIGURES.iter().map(|figure| figure.key);
    csv.write_record(COLUMNS.into_iter().chain(names))?;
    for (eta, of) in etas.iter().zip(&result.etas) {
        for played in &of.played {
            let window = &result.cut.windows[played.window];
            for (policy, runs) in result.policies.iter().zip(&played.runs) {
                for run in runs {
                    let about = [
                        eta.to_string(),
                        window.number.to_string(),
                        window.from_s.to_string(),
                        run.hosts.to_string(),
                        policy.to_string(),
                        result.seeds[run.seed].to_string(),
                    ];
                    let values = figures(&run.metrics)
                        .map(|(_, value)| value.map(|value| value.to_string()).unwrap_or_default());
                    csv.write_record(about.into_iter().chain(values))?;
                }
            }
        }
    }
    csv.flush()
}
