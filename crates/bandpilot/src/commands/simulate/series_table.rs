//! How the first run of each policy goes over time, as CSV.

use std::io::{self, Write};

use bandpilot_sim::series::Series;

use super::judge::Judged;

/// Means over a bin, by column.
type Means = fn(&Series) -> &[f64];

/// The columns after policy, seed and the ends of the bin.
const COLUMNS: [(&str, Means); 6] = [
    ("gpus_held", |series| &series.held),
    ("jobs_waiting", |series| &series.waiting),
    ("gpus_waited_for", |series| &series.waited_for),
    ("hosts_full", |series| &series.full),
    ("hosts_partial", |series| &series.partial),
    ("hosts_avoidable", |series| &series.avoidable),
];

/// Writes a row a policy and bin. Numbers are written so that reading gives them back to the last bit; a cell is empty where GPUs are
/// only counted.
///
/// # Errors
/// If writing fails.
pub fn csv(w: &mut dyn Write, judged: &[Judged]) -> io::Result<()> {
    let mut csv = csv::Writer::from_writer(w);
    let names = COLUMNS.iter().map(|(name, _)| *name);
    csv.write_record(["policy", "seed", "from_s", "to_s"].into_iter().chain(names))?;
    let runs = judged.iter().filter_map(|row| row.runs.first().map(|run| (row, run)));
    for (row, run) in runs {
        let Some(series) = &run.series else { continue };
        for bin in 0..series.held.len() {
            let from_s = bin as f64 * series.bin_s;
            let to_s = (from_s + series.bin_s).min(series.span_s);
            csv.write_field(row.policy.to_string())?;
            csv.write_field(run.seed.to_string())?;
            csv.write_field((series.start_s + from_s).to_string())?;
            csv.write_field((series.start_s + to_s).to_string())?;
            for (_, means) in &COLUMNS {
                let mean = means(series).get(bin).map(ToString::to_string);
                csv.write_field(mean.unwrap_or_default())?;
            }
            csv.write_record(None::<&[u8]>)?;
        }
    }
    csv.flush()
}
