//! What holds in a simulation.

use std::path::PathBuf;

use clap::Args;

use super::request::share;

/// What jobs meet: bandwidths, costs, faults.
#[derive(Debug, Args)]
pub struct Conditions {
    /// Share of a step that is communication, for jobs of which the trace does not say it, for example 30% or 0.3
    #[arg(
        long,
        value_name = "SHARE",
        default_value = "0",
        hide_default_value = true,
        allow_hyphen_values = true,
        value_parser = share,
        help_heading = "Speed of jobs"
    )]
    pub comm_share: f64,
    /// Model file of `bandpilot fit`; without it the built-in closed form
    #[arg(long, value_name = "MODEL", help_heading = "Speed of jobs")]
    pub model: Option<PathBuf>,
    /// Message size of the jobs' `all_reduce`
    #[arg(
        long,
        value_name = "SIZE",
        default_value = "2GiB",
        value_parser = bandpilot_core::parse_bytes,
        help_heading = "Speed of jobs"
    )]
    pub bytes: u64,
    /// Give the instances of this share of the jobs 3, 5, 6 or 7 GPUs each, drawn from the seed
    #[arg(
        long,
        value_name = "SHARE",
        allow_hyphen_values = true,
        value_parser = share,
        help_heading = "Jobs"
    )]
    pub mix: Option<f64>,
    /// Time that a job loses when it starts again after a preemption or a fault, for example 30s or 5m
    #[arg(
        long,
        value_name = "TIME",
        default_value = "0s",
        value_parser = seconds,
        help_heading = "Costs and faults"
    )]
    pub preemption_cost: f64,
    /// Time that a job loses when it moves to other GPUs
    #[arg(
        long,
        value_name = "TIME",
        default_value = "0s",
        value_parser = seconds,
        help_heading = "Costs and faults"
    )]
    pub migration_cost: f64,
    /// Jobs save their state after so much work; a fault undoes what was done since. 0s: nothing is undone
    #[arg(
        long,
        value_name = "TIME",
        default_value = "0s",
        value_parser = seconds,
        help_heading = "Costs and faults"
    )]
    pub checkpoint_every: f64,
    /// Mean time between faults of one host, for example 60days; without it hosts never fail
    #[arg(long, value_name = "TIME", value_parser = long_seconds, help_heading = "Costs and faults")]
    pub host_mtbf: Option<f64>,
    /// Mean time until a host is back
    #[arg(
        long,
        value_name = "TIME",
        default_value = "1h",
        value_parser = long_seconds,
        help_heading = "Costs and faults"
    )]
    pub host_mttr: f64,
    /// Mean time between faults of one NIC; without it NICs never fail
    #[arg(long, value_name = "TIME", value_parser = long_seconds, help_heading = "Costs and faults")]
    pub link_mtbf: Option<f64>,
    /// Mean time until a NIC is back
    #[arg(
        long,
        value_name = "TIME",
        default_value = "1h",
        value_parser = long_seconds,
        help_heading = "Costs and faults"
    )]
    pub link_mttr: f64,
}

/// Longest time that is read, seconds (more than 300 years).
const MAX_SECONDS: f64 = 1e10;

/// A time as `90`, `90s`, `5m`, `12h`, `1h 30m` or `30days`, in seconds.
pub fn seconds(text: &str) -> Result<f64, String> {
    let wrong = || format!("'{text}' is not a time such as 90s, 5m, 12h or 30days");
    let value = match text.trim().parse::<f64>() {
        Ok(seconds) => seconds,
        Err(_) => humantime::parse_duration(text.trim()).map_err(|_| wrong())?.as_secs_f64(),
    };
    if (0.0..=MAX_SECONDS).contains(&value) { Ok(value + 0.0) } else { Err(wrong()) }
}

/// A time of at least a second.
pub fn long_seconds(text: &str) -> Result<f64, String> {
    match seconds(text)? {
        value if value >= 1.0 => Ok(value),
        _ => Err(format!("'{text}' is shorter than a second")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read() {
        for (text, expected) in [
            ("0", 0.0),
            ("90", 90.0),
            ("1.5", 1.5),
            ("90s", 90.0),
            ("1h 30m", 5_400.0),
            ("30days", 2_592_000.0),
        ] {
            assert_eq!(seconds(text), Ok(expected), "{text}");
        }
        for text in ["", "-1", "inf", "nan", "1e11", "5 parsecs", "400years"] {
            assert!(seconds(text).is_err(), "{text}");
        }
        assert!(long_seconds("0.5").is_err() && long_seconds("1") == Ok(1.0));
    }
}
