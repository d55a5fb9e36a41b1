//! Numbers of queue orders and placements.

use bandpilot_sim::Options;
use clap::Args;

use super::conditions::{long_seconds, seconds};
use super::request::{per_cent, share};

/// What queue orders and placements take.
#[derive(Debug, Args)]
pub struct PolicyNumbers {
    /// las: GPU-seconds at which a job sinks to the next level, ascending
    #[arg(
        long,
        value_name = "GPU_S,..",
        default_value = "3250,7200",
        allow_hyphen_values = true,
        value_parser = thresholds,
        help_heading = "Queue orders"
    )]
    pub las_thresholds: Thresholds,
    /// priority: waiting so long raises a job by one level, for example 12h; never: it does not
    #[arg(
        long,
        value_name = "TIME",
        default_value = "1day",
        allow_hyphen_values = true,
        value_parser = aging,
        help_heading = "Queue orders"
    )]
    pub aging: f64,
    /// two-stage: a job that has run so long gives way to those that have not; without it chosen by the durations in the trace
    #[arg(
        long,
        value_name = "TIME",
        allow_hyphen_values = true,
        value_parser = long_seconds,
        help_heading = "Queue orders"
    )]
    pub two_stage_theta: Option<f64>,
    /// bandpilot: a job that may be split waits rather than run at less than this share of the best rate on GPUs of the same models
    #[arg(
        long,
        value_name = "SHARE",
        default_value = "0.9",
        allow_hyphen_values = true,
        value_parser = share,
        help_heading = "Placements"
    )]
    pub least_rate: f64,
    /// bandpilot-tradeoff: so much of the best effective bandwidth is given up for less fragmentation
    #[arg(
        long,
        value_name = "PERCENT",
        default_value = "3%",
        allow_hyphen_values = true,
        value_parser = per_cent,
        help_heading = "Placements"
    )]
    pub tradeoff: f64,
    /// repack: time from one round to the next
    #[arg(
        long,
        value_name = "TIME",
        default_value = "6m",
        allow_hyphen_values = true,
        value_parser = long_seconds,
        help_heading = "Placements"
    )]
    pub round: f64,
    /// compass: while jobs wait, jobs are moved if more hosts than this are partial that need not be
    #[arg(long, value_name = "N", default_value_t = 0, help_heading = "Placements")]
    pub compass_tau: usize,
    /// compass: what moves cost may be so many times what the job that they let start would lose by waiting, both in GPU-seconds; any: moves may cost anything
    #[arg(
        long,
        value_name = "X",
        default_value = "1",
        allow_hyphen_values = true,
        value_parser = factor,
        help_heading = "Placements"
    )]
    pub compass_beta: f64,
    /// bandpilot: steps of the search for one job at most
    #[arg(
        long,
        value_name = "N",
        default_value_t = 20_000,
        value_parser = clap::value_parser!(u64).range(1..),
        help_heading = "Placements"
    )]
    pub search_steps: u64,
}

/// Ascending numbers above 0.
#[derive(Debug, Clone, PartialEq)]
pub struct Thresholds(Vec<f64>);

impl PolicyNumbers {
    /// Puts them into options.
    pub fn fill(&self, options: &mut Options) {
        options.las_thresholds_gpu_s.clone_from(&self.las_thresholds.0);
        options.aging_s = self.aging;
        options.two_stage_theta_s = self.two_stage_theta;
        options.least_rate = self.least_rate;
        options.tradeoff = self.tradeoff;
        options.round_s = self.round;
        options.compass_tau = self.compass_tau;
        options.compass_beta = self.compass_beta;
        options.search_steps = self.search_steps;
    }
}

fn thresholds(text: &str) -> Result<Thresholds, String> {
    let form = "write ascending GPU-seconds such as 3250,7200";
    let number = |part: &str| {
        let value = part.trim().parse::<f64>().ok();
        let valid = value.filter(|value| value.is_finite() && *value > 0.0);
        valid.ok_or_else(|| format!("'{part}' is not a number above 0; {form}"))
    };
    let values: Vec<f64> = text.split(',').map(number).collect::<Result<_, String>>()?;
    match values.array_windows().find(|[before, after]| before >= after) {
        Some([before, after]) => Err(format!("{after} is not above {before}; {form}")),
        None => Ok(Thresholds(values)),
    }
}

/// A time above 0, or never.
fn aging(text: &str) -> Result<f64, String> {
    if text.trim() == "never" {
        return Ok(f64::INFINITY);
    }
    match seconds(text) {
        Ok(value) if value > 0.0 => Ok(value),
        Ok(_) => Err(format!("'{text}' is no time above 0; write never for priority alone")),
        Err(message) => Err(message + ", nor never"),
    }
}

/// A number of at least 0, or any.
fn factor(text: &str) -> Result<f64, String> {
    if text.trim() == "any" {
        return Ok(f64::INFINITY);
    }
    let value = text.trim().parse::<f64>().ok();
    let valid = value.filter(|value| value.is_finite() && *value >= 0.0);
    valid.ok_or_else(|| format!("'{text}' is not a number of at least 0, nor any"))
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Numbers {
        #[command(flatten)]
        numbers: PolicyNumbers,
    }

    fn options(args: &[&str]) -> Result<Options, String> {
        let args = [&["simulate"], args].concat();
        let parsed = Numbers::try_parse_from(args).map_err(|error| error.to_string())?;
        let mut options = Options::default();
        parsed.numbers.fill(&mut options);
        Ok(options)
    }

    #[test]
    fn the_defaults_are_those_of_the_simulator() {
        assert_eq!(options(&[]), Ok(Options::default()));
    }

    #[test]
    fn numbers_are_read() {
        let args = ["--las-thresholds", "10, 20.5,1e3", "--aging", "2h", "--two-stage-theta", "90"];
        let given = options(&args).unwrap();
        assert_eq!(given.las_thresholds_gpu_s, [10.0, 20.5, 1_000.0]);
        assert_eq!((given.aging_s, given.two_stage_theta_s), (7_200.0, Some(90.0)));
        assert_eq!(options(&["--tradeoff", "0.5"]).unwrap().tradeoff, 0.005);
        assert_eq!(options(&["--aging", "never"]).unwrap().aging_s, f64::INFINITY);
        let given = options(&["--compass-tau", "0", "--compass-beta", "any"]).unwrap();
        assert_eq!((given.compass_tau, given.compass_beta), (0, f64::INFINITY));
        for (name, value, part) in [
            ("--compass-beta", "-1", "is not a number of at least 0"),
            ("--compass-beta", "nan", "nor any"),
            ("--las-thresholds", "", "'' is not a number above 0"),
            ("--las-thresholds", "7200,3250", "3250 is not above 7200"),
            ("--las-thresholds", "5,5", "5 is not above 5"),
            ("--las-thresholds", "5,inf", "'inf' is not a number above 0"),
            ("--las-thresholds", "-5", "'-5' is not a number above 0"),
            ("--las-thresholds", "5,nan", "write ascending GPU-seconds"),
            ("--aging", "0", "write never for priority alone"),
            ("--aging", "-1", "is not a time"),
            ("--aging", "soon", "nor never"),
            ("--two-stage-theta", "0", "shorter than a second"),
            ("--two-stage-theta", "inf", "is not a time"),
            ("--tradeoff", "101%", "between 0% and 100%"),
            ("--tradeoff", "some", "per cent such as 3%"),
        ] {
            let error = options(&[name, value]).unwrap_err();
            assert!(error.contains(part) && error.contains(name), "{name} {value}: {error}");
        }
    }
}
