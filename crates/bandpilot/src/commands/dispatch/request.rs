//! From arguments to a request, and from a refusal back to the argument that is in the way.

use bandpilot_core::{Cluster, ClusterState, GpuMask, HostId, Request};
use bandpilot_dispatch::{Impossible, Parallel, Scope};
use bandpilot_readers::{Diagnostic, placement};

use crate::cli::Dispatch;
use crate::commands::ground::{self, Remarks};
use crate::exit::{Code, Failure};
use crate::output::counted;

/// How the number of GPUs was said, and what of it must stay inside one host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Size {
    /// `--gpus`, or `--hosts` with `--per-host`.
    Gpus(usize),
    /// `--instances` with `--gpus-per-instance`.
    Instances {
        /// How many.
        count: usize,
        /// GPUs of each.
        gpus: usize,
    },
    /// `--parallel`: all ranks, and those of a tensor group.
    Parallel {
        /// All ranks.
        gpus: usize,
        /// Ranks of a tensor group.
        tensor: usize,
    },
}

impl Size {
    /// Reads it.
    ///
    /// # Errors
    /// If the arguments contradict each other or do not say it.
    pub fn read(args: &Dispatch, parallel: Option<&Parallel>) -> Result<Self, Failure> {
        let too_many = |argument: &str, a: usize, b: usize| {
            let message = format!("{a} x {b} GPUs are more than any cluster has");
            Failure::usage(argument, message, "ask for fewer")
        };
        let size = match (parallel, args.instances, args.gpus_per_instance) {
            (Some(parallel), ..) => {
                Self::Parallel { gpus: parallel.gpus(), tensor: parallel.tensor }
            }
            (None, Some(count), Some(gpus)) => {
                count.checked_mul(gpus).ok_or_else(|| too_many("--instances", count, gpus))?;
                Self::Instances { count, gpus }
            }
            // clap asks for no option that another one excludes, such as --gpus.
            (None, None, Some(_)) => {
                let message = "it does not say how many instances there are";
                let help = "give --instances in place of --gpus";
                return Err(Failure::usage("--gpus-per-instance", message, help));
            }
            _ => match (args.gpus, args.hosts, args.per_host) {
                (Some(gpus), ..) => Self::Gpus(gpus),
                (None, Some(hosts), Some(each)) => Self::Gpus(
                    hosts.checked_mul(each).ok_or_else(|| too_many("--per-host", hosts, each))?,
                ),
                _ => {
                    let message = "it does not say how many GPUs there are in all";
                    return Err(Failure::usage("--per-host", message, "add --gpus or --hosts"));
                }
            },
        };
        if let Some(each) = args.per_host {
            size.fits_per_host(each, args)?;
        }
        Ok(size)
    }

    /// Number of GPUs.
    pub fn gpus(self) -> usize {
        match self {
            Self::Gpus(gpus) | Self::Parallel { gpus, .. } => gpus,
            Self::Instances { count, gpus } => count * gpus,
        }
    }

    /// GPUs that stay together in a host.
    fn unit(self) -> usize {
        match self {
            Self::Gpus(_) => 1,
            Self::Instances { gpus, .. } => gpus,
            Self::Parallel { tensor, .. } => tensor,
        }
    }

    fn fits_per_host(self, each: usize, args: &Dispatch) -> Result<(), Failure> {
        let (gpus, unit) = (self.gpus(), self.unit());
        let wrong = |message: String, help: String| Failure::usage("--per-host", message, help);
        if !gpus.is_multiple_of(each) {
            let (less, more) = (gpus / each * each, (gpus / each + 1).saturating_mul(each));
            let help = if less > 0 {
                format!("ask for {less} or {more} GPUs")
            } else {
                format!("ask for {more} GPUs, or for fewer on every host")
            };
            return Err(wrong(
                format!("{} cannot be {each} on every host", counted(gpus, "GPU")),
                help,
            ));
        }
        if !each.is_multiple_of(unit) {
            let what =
                if matches!(self, Self::Parallel { .. }) { "tensor group" } else { "instance" };
            return Err(wrong(
                format!(
                    "{} on every host hold no whole number of {what}s of {unit}",
                    counted(each, "GPU")
                ),
                format!("give a multiple of {unit}"),
            ));
        }
        let hosts = gpus / each;
        let leave = "leave out one of the options that say the number of hosts";
        if let Some(other) = args.hosts.filter(|other| *other != hosts) {
            return Err(wrong(
                format!(
                    "{} with {each} on every host are on {}, not on --hosts {other}",
                    counted(gpus, "GPU"),
                    counted(hosts, "host")
                ),
                leave.to_owned(),
            ));
        }
        if let Some(most) = args.max_hosts.filter(|most| *most < hosts) {
            return Err(wrong(
                format!(
                    "{} with {each} on every host are on {}, above --max-hosts {most}",
                    counted(gpus, "GPU"),
                    counted(hosts, "host")
                ),
                leave.to_owned(),
            ));
        }
        Ok(())
    }
}

/// A request as the user put it.
pub struct Asked {
    /// What to search for.
    pub request: Request,
    /// How the number of GPUs was said.
    pub size: Size,
    per_host: Option<usize>,
    /// `--hosts` was given.
    hosts_given: bool,
}

impl Asked {
    /// Reads the rest of the request.
    ///
    /// # Errors
    /// If a list of GPUs is wrong.
    pub fn read(
        args: &Dispatch,
        size: Size,
        cluster: &Cluster,
        remarks: &mut Remarks,
    ) -> Result<Self, Failure> {
        if let (Some(hosts), Some(most)) = (args.hosts, args.max_hosts)
            && hosts > most
        {
            let message = format!("{hosts} hosts, but --max-hosts is {most}");
            return Err(Failure::usage("--hosts", message, "leave out one of the two"));
        }
        let mut list = |argument: &str, text: &Option<String>| -> Result<_, Failure> {
            let Some(text) = text else { return Ok(Vec::new()) };
            let read = placement::on_cluster(text, cluster);
            let set = ground::settle(read, argument, Code::BadInput, remarks)?;
            Ok(set.shares().to_vec())
        };
        let include: Vec<(HostId, GpuMask)> = list("--include", &args.include)?;
        let exclude = list("--exclude", &args.exclude)?;
        let request = Request {
            gpus: size.gpus(),
            uniform: args.uniform || args.per_host.is_some(),
            hosts: args.hosts.or(args.per_host.map(|each| size.gpus() / each)),
            max_hosts: args.max_hosts,
            multiple_of: size.unit(),
            protect: args.protect,
            spare_hosts: args.spare_hosts,
            gpu_model: args.gpu_model.clone(),
            include,
            exclude,
            most_on_host: Vec::new(),
            min_busbw_gbytes_per_s: args.min_busbw,
            bytes: args.bytes,
        };
        Ok(Self { request, size, per_host: args.per_host, hosts_given: args.hosts.is_some() })
    }

    /// Why it cannot be met, with the option that the user gave.
    pub fn refuse(
        &self,
        impossible: &Impossible,
        cluster: &Cluster,
        state: &ClusterState,
    ) -> Failure {
        let scope = Scope::new(cluster, state, &self.request);
        let shape = matches!(impossible.constraint, "uniform" | "hosts" | "max-hosts");
        let (constraint, message, possible) = match self.per_host {
            Some(each) if shape => {
                let (message, possible) = self.too_few_hosts(&scope, each);
                ("per-host", message, possible)
            }
            _ => {
                let possible = self.possible(impossible, &scope);
                (self.constraint(impossible.constraint), impossible.message.clone(), possible)
            }
        };
        let reason = Diagnostic::error(format!("--{constraint}"), message);
        Failure::new(Code::Impossible, "", reason.help(format!("possible: {possible}")))
    }

    /// The option that said what cannot be.
    fn constraint(&self, constraint: &'static str) -> &'static str {
        match (constraint, self.size) {
            ("gpus", Size::Gpus(_)) if self.per_host.is_some() && self.hosts_given => "per-host",
            ("gpus" | "gpus-per-instance", Size::Parallel { .. }) => "parallel",
            ("gpus", Size::Instances { .. }) => "instances",
            _ => constraint,
        }
    }

    fn possible(&self, impossible: &Impossible, scope: &Scope) -> String {
        match self.size {
            Size::Instances { gpus, .. } if impossible.constraint == "gpus" => {
                let most = scope.counts().iter().sum::<usize>() / gpus;
                if most == 0 {
                    return impossible.possible.clone();
                }
                format!("at most {} of {gpus}", counted(most, "instance"))
            }
            _ => impossible.possible.clone(),
        }
    }

    fn too_few_hosts(&self, scope: &Scope, each: usize) -> (String, String) {
        let (gpus, unit) = (self.request.gpus, self.size.unit());
        let with = |each: usize| scope.counts().iter().filter(|count| **count >= each).count();
        let message = format!(
            "{} with {} each were asked for, but {} so many usable",
            counted(gpus / each, "host"),
            counted(each, "GPU"),
            match with(each) {
                0 => "none has".to_owned(),
                1 => "only 1 has".to_owned(),
                many => format!("only {many} have"),
            }
        );
        let widest = scope.counts().first().copied().unwrap_or(0);
        let other = (1..=widest)
            .rev()
            .filter(|other| gpus.is_multiple_of(*other) && other.is_multiple_of(unit))
            .find(|other| gpus / other <= with(*other));
        let mut possible = Vec::new();
        if with(each) > 0 {
            possible.push(format!(
                "at most {} with --per-host {each}",
                counted(with(each) * each, "GPU")
            ));
        }
        if let Some(other) = other {
            possible.push(format!("{} with --per-host {other}", counted(gpus, "GPU")));
        }
        if possible.is_empty() {
            possible.push(format!("{gpus} GPUs without --per-host"));
        }
        (message, possible.join("; "))
    }
}
