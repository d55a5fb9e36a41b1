//! A site in a few lines: hosts `h1`, `h2`, ... of 8 GPUs, 32 cores and 64,000 MiB each, all in partition `gpu`.

use bandpilot_core::{Cluster, ClusterBuilder, GpuMask, Request};
use bandpilot_model::{BandwidthModel, Predictor};

use crate::site::{Config, Consumable, Cores, Defaults, Partition, Site};
use crate::submit::ask::{Ask, GpuCount, Memory};
use crate::submit::{Given, Planned, Refused, plan, plan_array};
use crate::{Gpu, Host, Job, JobState, Limit, Reservation, Snapshot};

/// The time of all snapshots.
pub const NOW: i64 = 1_000_000;

/// Everything that a plan stands on.
#[derive(Clone)]
pub struct World {
    pub snapshot: Snapshot,
    pub site: Site,
    pub cluster: Cluster,
    pub wishes: Request,
}

pub fn mask(text: &str) -> GpuMask {
    if text.is_empty() { GpuMask::EMPTY } else { GpuMask::parse(text).unwrap() }
}

/// `h1:0-3 h2:0-3`.
pub fn placed(text: &str) -> Vec<(String, GpuMask)> {
    let parts = text.split_whitespace().map(|part| part.split_once(':').unwrap());
    parts.map(|(host, gpus)| (host.to_owned(), mask(gpus))).collect()
}

pub fn ask(gpus: GpuCount) -> Ask {
    Ask {
        gpus,
        gpu_model: None,
        hosts: None,
        tasks: None,
        tasks_per_host: None,
        tasks_per_gpu: None,
        cpus_per_task: None,
        cpus_per_gpu: None,
        memory: Memory::Unset,
        named_hosts: Vec::new(),
        excluded_hosts: Vec::new(),
        features: Vec::new(),
        partitions: Vec::new(),
        reservation: String::new(),
        exclusive: false,
        time_limit: Limit::Unset,
        account: String::new(),
        begin: String::new(),
        dependency: String::new(),
        array: None,
    }
}

pub fn total(gpus: usize) -> Ask {
    ask(GpuCount::Total(gpus))
}

impl World {
    /// So many NVSwitch hosts.
    pub fn new(hosts: usize) -> Self {
        let cluster = ClusterBuilder::new("c").host_type("dgx", "H100", 8).nvswitch().rails(400.0);
        Self::of(cluster.hosts("h", 1, hosts).build())
    }

    pub fn of(cluster: Cluster) -> Self {
        let host = |host: &bandpilot_core::Host| Host {
            name: host.name.clone(),
            state: "IDLE".into(),
            cpus: 32,
            threads_per_core: 1,
            memory_mib: 64_000,
            features: vec!["h100".into(), "ib".into()],
            partitions: vec!["gpu".into()],
            gpus: (0..cluster.host_types[host.host_type.0 as usize].gpus)
                .map(|gpu| Gpu { kind: Some(format!("g{gpu}")), ..Gpu::default() })
                .collect(),
            ..Host::default()
        };
        let hosts: Vec<Host> = cluster.hosts.iter().map(host).collect();
        let partition = Partition {
            name: "gpu".into(),
            default: true,
            hosts: hosts.iter().map(|host| host.name.clone()).collect(),
            state: "UP".into(),
            max_time: Limit::Unlimited,
            ..Partition::default()
        };
        let config = Config {
            version: "22.05.8".into(),
            select: "select/cons_tres".into(),
            consumable: Consumable { whole_hosts: false, cores: Cores::Whole, memory: true },
            defaults: Defaults { memory_mib_per_cpu: Some(100), ..Defaults::default() },
            ..Config::default()
        };
        Self {
            snapshot: Snapshot { taken_at_s: NOW, hosts, ..Snapshot::default() },
            site: Site { config, partitions: vec![partition] },
            cluster,
            wishes: Request::gpus(1),
        }
    }

    pub fn host(&mut self, name: &str) -> &mut Host {
        self.snapshot.hosts.iter_mut().find(|host| host.name == name).unwrap()
    }

    pub fn partition(&mut self, at: usize) -> &mut Partition {
        &mut self.site.partitions[at]
    }

    /// A running job of one CPU for each GPU that ends so many seconds from now; `None`: it has no limit.
    pub fn runs(&mut self, id: u32, gpus: &str, ends_in: Option<i64>) -> &mut Self {
        let gpus = placed(gpus);
        let mut cpus = 0;
        for (host, mask) in &gpus {
            let host = self.host(host);
            for gpu in mask.iter() {
                host.gpus[gpu].in_use = true;
                host.gpus[gpu].job = Some(id);
            }
            host.cpus_in_use += mask.count() as u32;
            host.memory_in_use_mib += 100 * mask.count() as u64;
            "MIXED".clone_into(&mut host.state);
            cpus += mask.count() as u32;
        }
        let request = crate::Request {
            cpus,
            memory_mib_per_cpu: Some(100),
            time_limit: ends_in.map_or(Limit::Unlimited, |s| Limit::Seconds(s.unsigned_abs())),
            ..crate::Request::default()
        };
        self.snapshot.jobs.push(Job {
            id,
            state: JobState::Running,
            partition: "gpu".into(),
            hosts: gpus.iter().map(|(host, _)| host.clone()).collect(),
            gpus,
            request,
            start_s: Some(NOW - i64::from(id)),
            end_s: ends_in.map(|seconds| NOW + seconds),
            ..Job::default()
        });
        self
    }

    /// A job of CPUs and memory alone on one host.
    pub fn computes(
        &mut self,
        id: u32,
        host: &str,
        cpus: u32,
        mib: u64,
        ends_in: i64,
    ) -> &mut Self {
        let known = self.host(host);
        known.cpus_in_use += cpus;
        known.memory_in_use_mib += mib;
        let request = crate::Request {
            cpus,
            memory_mib_per_host: Some(mib),
            time_limit: Limit::Seconds(ends_in.unsigned_abs()),
            ..crate::Request::default()
        };
        self.snapshot.jobs.push(Job {
            id,
            state: JobState::Running,
            hosts: vec![host.into()],
            request,
            end_s: Some(NOW + ends_in),
            ..Job::default()
        });
        self
    }

    /// A waiting job that names these GPUs, the same on each host.
    pub fn waits(&mut self, id: u32, hosts: &str, gpus: &str, limit: Limit) -> &mut Self {
        let kinds: Vec<String> =
            mask(gpus).iter().map(|gpu| format!("gres:gpu:g{gpu}:1")).collect();
        let count = bandpilot_readers::hostlist::expand(hosts).unwrap().len() as u32;
        self.snapshot.jobs.push(Job {
            id,
            priority: 1_000 - u64::from(id),
            partition: "gpu".into(),
            request: crate::Request {
                hosts: count,
                cpus: count,
                named_hosts: hosts.into(),
                tres_per_host: kinds.join(","),
                time_limit: limit,
                ..crate::Request::default()
            },
            ..Job::default()
        });
        self
    }

    pub fn reserve(&mut self, name: &str, hosts: &[&str], from: i64, to: i64) -> &mut Self {
        let active = from <= 0 && to > 0;
        for host in hosts.iter().filter(|_| active) {
            self.host(host).flags.push("RESERVED".into());
        }
        self.snapshot.reservations.push(Reservation {
            name: name.into(),
            hosts: hosts.iter().map(|host| (*host).to_owned()).collect(),
            start_s: Some(NOW + from),
            end_s: Some(NOW + to),
            active,
            ..Reservation::default()
        });
        self
    }

    pub fn with<T>(&self, act: impl FnOnce(&Given<'_>) -> T) -> T {
        let model = BandwidthModel::closed_form();
        let predictor = Predictor::new(&model, &self.cluster, self.wishes.bytes);
        act(&Given {
            snapshot: &self.snapshot,
            site: &self.site,
            predictor: &predictor,
            wishes: &self.wishes,
            plan_id: "p",
            should_stop: None,
        })
    }

    pub fn plan(&self, ask: &Ask) -> Result<Planned, Refused> {
        self.with(|given| plan(given, ask))
    }

    pub fn plan_array(&self, ask: &Ask) -> Result<Vec<(u32, Planned)>, Refused> {
        self.with(|given| plan_array(given, ask))
    }
}

/// `h1:0-3 h2:0-3` of a plan, in its order.
pub fn shown(planned: &Planned) -> String {
    let gpus = &planned.layout.plan.gpus;
    gpus.iter().map(|(host, mask)| format!("{host}:{mask}")).collect::<Vec<_>>().join(" ")
}
