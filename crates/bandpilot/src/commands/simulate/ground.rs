//! Cluster, bandwidths and options of a simulation.

use bandpilot_core::{Cluster, ClusterBuilder, Collective, MAX_GPUS_PER_HOST};
use bandpilot_model::model::BandwidthModel;
use bandpilot_readers::Diagnostic;
use bandpilot_readers::trace_file::Trace;
use bandpilot_sim::{Costs, FaultRates, Hosts, Mixed, Options, mix};

use crate::cli::{Conditions, PolicyNumbers, Simulate};
use crate::commands::ground::{self, Models, Remarks};
use crate::exit::{Code, Failure};

/// Most hosts of a cluster.
const MAX_HOSTS: usize = 100_000;
/// What `--hosts` are where bandwidths are asked of them.
const GPU_MODEL: &str = "H100";
const NIC_GBIT_PER_S: f64 = 400.0;

/// What the jobs of a trace are played on.
pub struct Ground {
    /// The cluster.
    pub cluster: Cluster,
    /// The same as scheduling sees it.
    pub hosts: Hosts,
    /// Bandwidths.
    pub model: BandwidthModel,
    /// Message size, bytes.
    pub bytes: u64,
    /// Numbers that units and the world take.
    pub options: Options,
}

impl Ground {
    /// Reads what the arguments name.
    ///
    /// # Errors
    /// If an argument or a file cannot be used.
    pub fn read(args: &Simulate, remarks: &mut Remarks) -> Result<Self, Failure> {
        let cluster = read_cluster(args, remarks)?;
        let named = args.cluster.is_some();
        Self::on(cluster, named, &args.conditions, &args.numbers, remarks)
    }

    /// On so many hosts of so many GPUs.
    ///
    /// # Errors
    /// If there are too many of them, or the model file cannot be used.
    pub fn alike(
        hosts: usize,
        gpus: usize,
        (conditions, numbers): (&Conditions, &PolicyNumbers),
        remarks: &mut Remarks,
    ) -> Result<Self, Failure> {
        let cluster = alike(&format!("{hosts}x{gpus}")).map_err(|message| {
            Failure::new(Code::BadInput, "--host-gpus", Diagnostic::error("", message))
        })?;
        Self::on(cluster, false, conditions, numbers, remarks)
    }

    fn on(
        cluster: Cluster,
        models_named: bool,
        conditions: &Conditions,
        numbers: &PolicyNumbers,
        remarks: &mut Remarks,
    ) -> Result<Self, Failure> {
        let hosts = Hosts::new(&cluster).map_err(|error| {
            Failure::new(Code::BadInput, "--cluster", Diagnostic::error("", error.to_string()))
        })?;
        // Nobody has said which model the GPUs are of.
        let hosts = if models_named { hosts } else { hosts.of_any_model() };
        let given: Vec<_> = conditions.model.iter().cloned().collect();
        let models = Models::read(&given, &cluster, remarks)?;
        let model = models.of(Collective::AllReduce, "--model", remarks);
        let mut options = options(conditions);
        numbers.fill(&mut options);
        Ok(Self { cluster, hosts, model, bytes: conditions.bytes, options })
    }

    /// Makes of a trace what the arguments ask for; says what the mix has changed.
    pub fn prepare(&self, trace: &mut Trace, conditions: &Conditions, seed: u64) -> Option<Mixed> {
        for job in &mut trace.jobs {
            job.comm_share.get_or_insert(conditions.comm_share);
        }
        conditions.mix.map(|share| mix(trace, share, seed, &self.hosts))
    }
}

fn options(conditions: &Conditions) -> Options {
    Options {
        costs: Costs {
            restart_s: conditions.preemption_cost,
            migration_s: conditions.migration_cost,
            checkpoint_s: conditions.checkpoint_every,
        },
        faults: FaultRates {
            host_mtbf_s: conditions.host_mtbf.unwrap_or(f64::INFINITY),
            host_mttr_s: conditions.host_mttr,
            link_mtbf_s: conditions.link_mtbf.unwrap_or(f64::INFINITY),
            link_mttr_s: conditions.link_mttr,
        },
        ..Options::default()
    }
}

fn read_cluster(args: &Simulate, remarks: &mut Remarks) -> Result<Cluster, Failure> {
    match (&args.cluster, &args.hosts) {
        (Some(path), _) => ground::cluster(path, remarks),
        (None, hosts) => alike(hosts.as_deref().unwrap_or("")).map_err(|message| {
            let help = "write for example 16x8 for 16 hosts of 8 GPUs, or 4x8,2x4";
            let reason = Diagnostic::error("", message).help(help);
            Failure::new(Code::BadInput, "--hosts", reason)
        }),
    }
}

/// Reads `16x8` or `4x8,2x4`: hosts whose GPUs are all alike.
fn alike(text: &str) -> Result<Cluster, String> {
    let mut builder = ClusterBuilder::new(text);
    let mut all = 0;
    for (at, part) in text.split(',').map(str::trim).enumerate() {
        let numbers = part.split_once(['x', 'X']).and_then(|(hosts, gpus)| {
            Some((hosts.trim().parse::<usize>().ok()?, gpus.trim().parse::<usize>().ok()?))
        });
        let (hosts, gpus) = numbers.ok_or_else(|| format!("'{part}' is not HOSTSxGPUS"))?;
        if !(1..=MAX_GPUS_PER_HOST).contains(&gpus) {
            return Err(format!("a host has 1 to {MAX_GPUS_PER_HOST} GPUs, not {gpus}"));
        }
        if hosts == 0 || hosts > MAX_HOSTS - all {
            return Err(format!("there can be 1 to {MAX_HOSTS} hosts"));
        }
        builder = builder.host_type(&format!("type{}", at + 1), GPU_MODEL, gpus).nvswitch();
        builder = builder.rails(NIC_GBIT_PER_S).hosts("h", all + 1, hosts);
        all += hosts;
    }
    Ok(builder.build())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_are_read() {
        let count = |text: &str| alike(text).map(|c| (c.hosts.len(), c.gpu_count()));
        assert_eq!(count("16x8"), Ok((16, 128)));
        assert_eq!(count("4x8, 2X4"), Ok((6, 40)));
        let wrong = [
            "",
            "16",
            "x8",
            "16x",
            "0x8",
            "16x0",
            "16x65",
            "100001x1",
            "99999x1,2x1",
            "-1x8",
            "1x8,",
        ];
        for text in wrong {
            assert!(alike(text).is_err(), "{text}");
        }
    }
}
