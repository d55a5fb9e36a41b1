//! Small random clusters, states, models and requests, all from one seed.

use bandpilot_core::{
    Cluster, ClusterState, Collective, Demand, GpuMask, Host, HostId, HostType, HostTypeId,
    LinkClass, Links, Nic, Placement, Request, RunningJob,
};
use bandpilot_model::Predictor;
use bandpilot_model::model::{BandwidthModel, CrossEntry, CrossShare, LocalEntry};
use bandpilot_model::residual::{Features, Hyperparameters, Residual};
use rand::RngExt;
use rand_pcg::Pcg64;
use rand_pcg::rand_core::SeedableRng;

/// Everything a dispatch needs.
pub struct Scenario {
    /// The cluster.
    pub cluster: Cluster,
    /// What is free and runs.
    pub state: ClusterState,
    /// The model.
    pub model: BandwidthModel,
    /// The request.
    pub request: Request,
}

impl Scenario {
    /// The scenario of a seed.
    pub fn new(seed: u64) -> Self {
        let mut rng = Pcg64::seed_from_u64(seed);
        let cluster = cluster(&mut rng);
        let state = state(&cluster, &mut rng);
        let model = model(&cluster, &mut rng);
        let request = request(&state, &mut rng);
        Self { cluster, state, model, request }
    }

    /// The same with another collective, instances, and limits.
    pub fn varied(seed: u64) -> Self {
        let mut scenario = Self::new(seed);
        let rng = &mut Pcg64::seed_from_u64(seed ^ 0x5eed);
        scenario.model.collective = Collective::ALL[rng.random_range(0..Collective::ALL.len())];
        let request = &mut scenario.request;
        if rng.random_bool(0.4) {
            request.multiple_of = rng.random_range(2..=3);
            request.gpus = request.gpus.div_ceil(request.multiple_of) * request.multiple_of;
        }
        if rng.random_bool(0.4) {
            request.most_on_host = limits(&scenario.cluster, rng);
        }
        request.protect = rng.random_bool(0.5).then(|| rng.random_range(0.0..0.4));
        request.spare_hosts = if rng.random_bool(0.3) { rng.random_range(1..=2) } else { 0 };
        scenario
    }

    /// Two to five hosts of 4 to 8 GPUs, most of which are held, some by jobs of one host.
    pub fn crowded(seed: u64) -> Self {
        let rng = &mut Pcg64::seed_from_u64(seed ^ 0xc0de);
        let size = rng.random_range(4..=8);
        let types = rng.random_range(1..=2);
        let host_types: Vec<HostType> =
            (0..types).map(|index| host_type(index, Some(size), rng)).collect();
        let hosts = (0..rng.random_range(2..=5)).map(|index| Host {
            name: format!("h{index}"),
            host_type: HostTypeId(rng.random_range(0..types) as u16),
            leaf: None,
            unhealthy_gpus: GpuMask(u64::from(rng.random_bool(0.1))),
            unhealthy_nics: Vec::new(),
            gpu_ids: Vec::new(),
        });
        let hosts = hosts.collect();
        let cluster = Cluster { name: "crowded".to_owned(), host_types, hosts };
        let mut state = state(&cluster, rng);
        while state.free_gpus() > 11 {
            let host = HostId(rng.random_range(0..cluster.hosts.len()) as u32);
            let free = &mut state.free[host.index()];
            let mask = free.lowest(rng.random_range(1..=size));
            *free = free.without(mask);
            if !mask.is_empty() {
                let (name, demand) = (format!("inside{}", state.jobs.len()), Demand::Fraction(1.0));
                let placement = Placement::new([(host, mask)]);
                state.jobs.push(RunningJob::new(name, placement, demand));
            }
        }
        let model = model(&cluster, rng);
        let mut request = request(&state, rng);
        if rng.random_bool(0.3) {
            request.multiple_of = rng.random_range(2..=4);
            request.gpus = request.gpus.div_ceil(request.multiple_of) * request.multiple_of;
        }
        Self { cluster, state, model, request }
    }

    /// With hosts and GPUs that the request may not use, or the only ones that it may.
    pub fn restricted(mut self, seed: u64) -> Self {
        let rng = &mut Pcg64::seed_from_u64(seed ^ 0x1e55);
        let hosts: Vec<HostId> = self.cluster.host_ids().filter(|_| rng.random_bool(0.5)).collect();
        let mut some = |host| (host, GpuMask(0b1011_0110 >> rng.random_range(0..3)));
        let some: Vec<(HostId, GpuMask)> = hosts.into_iter().map(&mut some).collect();
        match seed % 4 {
            0 => self.request.exclude = some,
            1 => self.request.include = some,
            2 => self.request.gpu_model = Some("h100".to_owned()),
            _ => {}
        }
        self
    }

    /// The predictor of the scenario.
    pub fn predictor(&self) -> Predictor<'_> {
        Predictor::new(&self.model, &self.cluster, self.request.bytes)
    }
}

fn cluster(rng: &mut Pcg64) -> Cluster {
    let types = rng.random_range(1..=2);
    // Sometimes hosts of one size, so that the search's shortcut for them is used, sometimes not.
    let one_size = rng.random_bool(0.6).then(|| rng.random_range(2..=4));
    let host_types: Vec<HostType> =
        (0..types).map(|index| host_type(index, one_size, rng)).collect();
    let mut hosts = Vec::new();
    let mut gpus = 0;
    for index in 0..rng.random_range(1..=5) {
        let host_type = rng.random_range(0..types);
        gpus += host_types[host_type].gpus;
        if gpus > 13 {
            break;
        }
        let kind = &host_types[host_type];
        let unhealthy_gpus = if rng.random_bool(0.1) { GpuMask::single(0) } else { GpuMask::EMPTY };
        let unhealthy_nics =
            if rng.random_bool(0.15) && !kind.nics.is_empty() { vec![0] } else { Vec::new() };
        hosts.push(Host {
            name: format!("h{index}"),
            host_type: HostTypeId(host_type as u16),
            leaf: None,
            unhealthy_gpus,
            unhealthy_nics,
            gpu_ids: Vec::new(),
        });
    }
    Cluster { name: "random".to_owned(), host_types, hosts }
}

fn host_type(index: usize, size: Option<usize>, rng: &mut Pcg64) -> HostType {
    let gpus = size.unwrap_or_else(|| rng.random_range(1..=5));
    let links = if rng.random_bool(0.4) {
        Links::NvSwitch
    } else {
        let classes = [LinkClass::Nv(2), LinkClass::Nv(1), LinkClass::Pix, LinkClass::Sys];
        let mut cells = vec![LinkClass::Sys; gpus * gpus];
        for a in 0..gpus {
            for b in 0..a {
                let class = classes[rng.random_range(0..classes.len())];
                cells[a * gpus + b] = class;
                cells[b * gpus + a] = class;
            }
        }
        Links::Matrix(cells)
    };
    let nic =
        |i: usize, gbit_per_s: f64, gpus: GpuMask| Nic { name: format!("n{i}"), gbit_per_s, gpus };
    let nics = match rng.random_range(0..4) {
        0 => Vec::new(),
        1 => (0..gpus.div_ceil(2)).map(|i| nic(i, 200.0, pair(i, gpus))).collect(),
        2 => (0..gpus)
            .map(|i| nic(i, if i == 0 { 100.0 } else { 400.0 }, GpuMask::single(i)))
            .collect(),
        _ => (0..gpus).map(|i| nic(i, 400.0, GpuMask::single(i))).collect(),
    };
    HostType {
        name: format!("t{index}"),
        gpu_model: ["H100", "V100"][index % 2].to_owned(),
        gpus,
        links,
        nics,
        cores: None,
        memory_bytes: None,
    }
}

fn pair(i: usize, gpus: usize) -> GpuMask {
    GpuMask(0b11 << (2 * i)).intersection(GpuMask::first(gpus))
}

fn state(cluster: &Cluster, rng: &mut Pcg64) -> ClusterState {
    let mut state = ClusterState::idle(cluster);
    for job in 0..rng.random_range(0..=3) {
        let mut shares = Vec::new();
        for host in cluster.host_ids() {
            let free = &mut state.free[host.index()];
            let mine = GpuMask(free.0 & rng.random::<u64>() & rng.random::<u64>());
            if rng.random_bool(0.6) {
                *free = free.without(mine);
                shares.push((host, mine));
            }
        }
        let placement = Placement::new(shares);
        if placement.gpus() > 0 {
            let demand = if rng.random_bool(0.7) {
                Demand::Fraction(rng.random_range(0.0..=1.0))
            } else {
                Demand::GBytesPerS(rng.random_range(0.0..100.0))
            };
            state.jobs.push(RunningJob::new(format!("j{job}"), placement, demand));
        }
    }
    state
}

fn model(cluster: &Cluster, rng: &mut Pcg64) -> BandwidthModel {
    let mut model = BandwidthModel::closed_form();
    if rng.random_bool(0.7) {
        let points: Vec<Features> = (0..6)
            .map(|_| Features {
                hosts: rng.random_range(2..=5),
                rails: rng.random_range(1..=4),
                levels: rng.random_range(1..=255),
                bytes: 2 << 30,
            })
            .collect();
        let weights = points.iter().map(|_| rng.random_range(-15.0..15.0)).collect();
        model.residual = Residual { hyperparameters: Hyperparameters::default(), points, weights };
    }
    for host in cluster.host_ids() {
        let kind = cluster.type_of(host);
        if rng.random_bool(0.3) {
            for mask in (1..1_u64 << kind.gpus).map(GpuMask).filter(|mask| mask.count() > 1) {
                model.local.push(LocalEntry {
                    host: cluster.host(host).name.clone(),
                    host_type: kind.name.clone(),
                    gpus: mask,
                    bytes: Some(2 << 30),
                    busbw_gbytes_per_s: rng.random_range(2.0..200.0),
                    readings: 1,
                });
            }
        }
    }
    for _ in 0..rng.random_range(0..12) {
        if let Some(entry) = measured(cluster, rng) {
            model.cross.push(entry);
        }
    }
    model
}

fn measured(cluster: &Cluster, rng: &mut Pcg64) -> Option<CrossEntry> {
    let mut shares: Vec<CrossShare> = Vec::new();
    for host in cluster.host_ids() {
        let kind = cluster.type_of(host);
        let mask = GpuMask(rng.random::<u64>()).intersection(GpuMask::first(kind.gpus));
        if rng.random_bool(0.6) && !mask.is_empty() {
            shares.push(CrossShare {
                host_type: kind.name.clone(),
                count: mask.count() as u8,
                gpus: matches!(kind.links, Links::Matrix(_)).then_some(mask),
            });
        }
    }
    shares.sort();
    (shares.len() > 1).then(|| CrossEntry {
        shares,
        bytes: 2 << 30,
        busbw_gbytes_per_s: rng.random_range(1.0..400.0),
        readings: 1,
    })
}

/// Limits of some hosts, 0 among them, sometimes two for one.
pub fn limits(cluster: &Cluster, rng: &mut Pcg64) -> Vec<(HostId, usize)> {
    let hosts: Vec<HostId> = cluster.host_ids().filter(|_| rng.random_bool(0.6)).collect();
    let again = hosts.first().copied().filter(|_| rng.random_bool(0.2));
    hosts.into_iter().chain(again).map(|host| (host, rng.random_range(0..=3))).collect()
}

fn request(state: &ClusterState, rng: &mut Pcg64) -> Request {
    let mut request = Request::gpus(rng.random_range(1..=state.free_gpus().max(1)));
    request.uniform = rng.random_bool(0.2);
    request.hosts = rng.random_bool(0.15).then(|| rng.random_range(1..=4));
    request.max_hosts = rng.random_bool(0.15).then(|| rng.random_range(1..=4));
    request
}
