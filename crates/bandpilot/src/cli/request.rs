//! Arguments of the commands that ask about GPUs: `dispatch` and `explain`.

use std::path::PathBuf;

use bandpilot_core::Collective;
use bandpilot_dispatch::Policy;
use clap::{ArgGroup, Args};

/// Examples in the help of `dispatch`.
pub const DISPATCH_EXAMPLES: &str = "Examples:
  bandpilot dispatch --gpus 12                      # the built-in example cluster
  bandpilot dispatch --gpus 16 --uniform --max-hosts 4
  bandpilot dispatch --gpus 9 --free 'h1:0-6,h2:0-7,h3:0-7,h4:0-6'
  bandpilot dispatch --gpus 8 --cluster cluster.toml --model model.json --state state.toml --json
  bandpilot dispatch --gpus 16 --op alltoall --bytes 256MiB --compare topo,balanced
  bandpilot dispatch --instances 2 --gpus-per-instance 4 --protect 5% --spare-hosts 1
  bandpilot dispatch --gpus 12 --state state.toml --tradeoff 3%
  bandpilot dispatch --parallel tp=4,pp=2,dp=2 --traffic tp=96x64MiB,pp=0

An answer gives the GPUs, what they will reach alone and beside the running jobs, what holds them
back, how much better any other set could be, what running jobs lose, and lines to start the job.

A job with --parallel runs tp x pp x dp ranks. In each step every tensor group, inside one host,
does its all_reduces, neighbouring pipeline stages send to each other, and the replicas of each rank
do their all_reduces; bandpilot makes the sum of the three times least. tp=64x128MiB in --traffic
is 64 all_reduces of 128 MiB in each step.";

/// Examples in the help of `explain`.
pub const EXPLAIN_EXAMPLES: &str = "Examples:
  bandpilot explain --placement 'h1:0-3,h2:0-3'     # the built-in example cluster
  bandpilot explain --job train-a --cluster cluster.toml --model model.json --state state.toml

Tells what a set of GPUs reaches alone and beside the running jobs, what holds it back, what each
host adds, and what would be better. With --job the set is that of a running job: why is it slow?";

/// Cluster, model and state, as several commands take them.
#[derive(Debug, Args)]
#[command(next_help_heading = "Files")]
pub struct Files {
    /// Cluster file; without it the built-in example cluster
    #[arg(long, value_name = "FILE")]
    pub cluster: Option<PathBuf>,
    /// Model file of `bandpilot fit`, again for each further collective; without it the closed form
    #[arg(long, value_name = "FILE")]
    pub model: Vec<PathBuf>,
    /// State file: what is free and what runs; without it all healthy GPUs are free
    #[arg(long, value_name = "FILE", conflicts_with = "free")]
    pub state: Option<PathBuf>,
    /// Short form of a state: just these GPUs are free, nothing runs
    #[arg(long, value_name = "LIST")]
    pub free: Option<String>,
}

/// `bandpilot dispatch`
#[derive(Debug, Args)]
pub struct Dispatch {
    /// Number of GPUs; needed unless --instances, --parallel or --per-host with --hosts says it
    #[arg(
        long,
        value_name = "N",
        allow_negative_numbers = true,
        required_unless_present_any = ["instances", "gpus_per_instance", "per_host", "parallel"],
        conflicts_with_all = ["instances", "parallel"]
    )]
    pub gpus: Option<usize>,
    /// So many instances of --gpus-per-instance GPUs, each inside one host
    #[arg(long, value_name = "W", requires = "gpus_per_instance", value_parser = positive)]
    pub instances: Option<usize>,
    /// GPUs of an instance
    #[arg(
        long,
        value_name = "G",
        requires = "instances",
        conflicts_with = "parallel",
        value_parser = positive
    )]
    pub gpus_per_instance: Option<usize>,
    /// Exactly so many GPUs on every host of the set: N/G hosts with --gpus N, H*G GPUs with --hosts H
    #[arg(long, value_name = "G", value_parser = positive)]
    pub per_host: Option<usize>,
    /// The same number of GPUs on every host (what torchrun needs)
    #[arg(long)]
    pub uniform: bool,
    /// Exactly this many hosts
    #[arg(long, value_name = "H", value_parser = positive)]
    pub hosts: Option<usize>,
    /// At most this many hosts
    #[arg(long, value_name = "H", value_parser = positive)]
    pub max_hosts: Option<usize>,
    /// Only GPUs of this model, for example H100
    #[arg(long, value_name = "MODEL")]
    pub gpu_model: Option<String>,
    /// Only these hosts and GPUs, for example h1,h2:0-3
    #[arg(long, value_name = "LIST")]
    pub include: Option<String>,
    /// None of these hosts and GPUs
    #[arg(long, value_name = "LIST")]
    pub exclude: Option<String>,
    /// The low end of the effective bandwidth must reach this, GB/s
    #[arg(
        long,
        value_name = "GB/S",
        allow_negative_numbers = true,
        conflicts_with = "parallel",
        value_parser = bandwidth
    )]
    pub min_busbw: Option<f64>,
    /// No running job may lose more than this share of its bandwidth, for example 5% or 0.05
    #[arg(long, value_name = "SHARE", allow_hyphen_values = true, value_parser = share)]
    pub protect: Option<f64>,
    /// Give up so much of the best effective bandwidth, for example 3%, for less fragmentation: fewer hosts that are neither full nor empty
    #[arg(long, value_name = "PERCENT", allow_hyphen_values = true, value_parser = per_cent)]
    pub tradeoff: Option<f64>,
    /// Leave so many further hosts that could each take over the largest share; the answer names them
    #[arg(long, value_name = "K", default_value_t = 0, hide_default_value = true)]
    pub spare_hosts: usize,
    /// Collective to optimise for: `all_reduce`, `all_gather`, `reduce_scatter`, `alltoall`, `broadcast`, `reduce` or `sendrecv`
    #[arg(long, default_value = "all_reduce", conflicts_with = "parallel", value_parser = collective)]
    pub op: Collective,
    /// Message size to optimise for
    #[arg(
        long,
        value_name = "SIZE",
        default_value = "2GiB",
        conflicts_with = "parallel",
        value_parser = bandpilot_core::parse_bytes
    )]
    pub bytes: u64,
    /// A job with groups: ranks of a tensor group (inside one host), pipeline stages, replicas; what is left out is 1
    #[arg(long, value_name = "tp=T,pp=P,dp=D")]
    pub parallel: Option<String>,
    /// What its groups exchange in a step, messages x size each, 0 for none; what is left out is tp=64x128MiB,pp=16x64MiB,dp=1x2GiB
    #[arg(long, value_name = "tp=MxSIZE,...", requires = "parallel")]
    pub traffic: Option<String>,
    /// Show what these rules would choose: topo, default, balanced, most-compact
    #[arg(
        long,
        value_name = "RULE,...",
        value_delimiter = ',',
        conflicts_with = "parallel",
        value_parser = policy
    )]
    pub compare: Vec<Policy>,
    /// Answer after this many milliseconds with the best set so far and its remaining gap; without it
    /// the search has a budget of steps that lasts some tens of milliseconds
    #[arg(long, value_name = "MS")]
    pub deadline_ms: Option<u64>,
    #[command(flatten)]
    pub files: Files,
}

/// `bandpilot explain`
#[derive(Debug, Args)]
#[command(group = ArgGroup::new("set").required(true).args(["placement", "job"]))]
pub struct Explain {
    /// The GPUs to explain, for example h1:0-3,h2:0-3
    #[arg(long, value_name = "LIST")]
    pub placement: Option<String>,
    /// A running job of the state: explains its GPUs as if it came anew
    #[arg(long, value_name = "NAME", conflicts_with = "free")]
    pub job: Option<String>,
    /// Collective: `all_reduce`, `all_gather`, `reduce_scatter`, `alltoall`, `broadcast`, `reduce` or `sendrecv`
    #[arg(long, default_value = "all_reduce", value_parser = collective)]
    pub op: Collective,
    /// Message size
    #[arg(
        long,
        value_name = "SIZE",
        default_value = "2GiB",
        value_parser = bandpilot_core::parse_bytes
    )]
    pub bytes: u64,
    /// Look for a better set for this many milliseconds at most; without it the search has a budget of steps
    #[arg(long, value_name = "MS")]
    pub deadline_ms: Option<u64>,
    #[command(flatten)]
    pub files: Files,
}

/// A collective by its name.
pub fn collective(text: &str) -> Result<Collective, String> {
    text.parse().map_err(|error: bandpilot_core::UnknownCollective| error.to_string())
}

fn positive(text: &str) -> Result<usize, String> {
    match text.parse::<usize>() {
        Ok(0) => Err("it must be at least 1".to_owned()),
        Ok(number) => Ok(number),
        Err(error) => Err(error.to_string()),
    }
}

pub fn bandwidth(text: &str) -> Result<f64, String> {
    let value = text.parse::<f64>().ok().filter(|value| value.is_finite() && *value >= 0.0);
    value.ok_or_else(|| "it is not a bandwidth; give GB/s, for example 100".to_owned())
}

/// `5%` or `0.05`.
pub fn share(text: &str) -> Result<f64, String> {
    const FORM: &str = "write a share such as 5% or 0.05";
    let number = |text: &str| {
        let value = text.trim().parse::<f64>().ok();
        value.filter(|value| value.is_finite()).ok_or_else(|| FORM.to_owned())
    };
    let value = match text.trim().strip_suffix('%') {
        Some(per_cent) => number(per_cent)? / 100.0,
        None => number(text)?,
    };
    if (0.0..=1.0).contains(&value) {
        Ok(value)
    } else if text.contains('%') || value < 0.0 {
        Err("it must be between 0% and 100%".to_owned())
    } else {
        Err(format!("as a share it must be between 0 and 1; did you mean {text}%?"))
    }
}

/// `3%` or `3`, as a share.
pub fn per_cent(text: &str) -> Result<f64, String> {
    let number = text.trim().strip_suffix('%').unwrap_or(text).trim().parse::<f64>();
    let number = number.ok().filter(|number| number.is_finite());
    let number = number.ok_or_else(|| "write per cent such as 3% or 0.5".to_owned())?;
    if (0.0..=100.0).contains(&number) {
        Ok(number / 100.0)
    } else {
        Err("it must be between 0% and 100%".to_owned())
    }
}

fn policy(text: &str) -> Result<Policy, String> {
    Policy::ALL
        .into_iter()
        .find(|policy| policy.name() == text.trim())
        .ok_or_else(|| format!("the rules are {}", Policy::ALL.map(Policy::name).join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_read_as_people_write_them() {
        for (text, value) in
            [("5%", 0.05), ("0.05", 0.05), (" 12.5 %", 0.125), ("0", 0.0), ("1", 1.0)]
        {
            assert_eq!(share(text), Ok(value), "{text}");
        }
        for text in ["", "%", "5", "101%", "-1%", "-0.1", "NaN", "inf", "5%%", "five"] {
            assert!(share(text).is_err(), "{text}");
        }
        assert!(share("5").unwrap_err().contains("5%"));
    }

    #[test]
    fn per_cent_are_read_with_and_without_their_sign() {
        for (text, value) in [
            ("3%", 0.03),
            ("3", 0.03),
            ("0.5%", 0.005),
            (" 12.5 % ", 0.125),
            ("0", 0.0),
            ("100", 1.0),
        ] {
            assert_eq!(per_cent(text), Ok(value), "{text}");
        }
        for text in ["", "%", "three", "3%%", "NaN", "inf", "1e400"] {
            assert!(per_cent(text).unwrap_err().contains("such as 3%"), "{text}");
        }
        for text in ["-1", "-0.1%", "101%", "100.5"] {
            assert!(per_cent(text).unwrap_err().contains("between 0% and 100%"), "{text}");
        }
    }
}
