//! What a request may use at all, and what to say when that is not enough.

use std::borrow::Cow;

use bandpilot_core::{Cluster, ClusterState, GpuMask, HostId, Request, counted};

/// The GPUs that a request may use, one mask a host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Scope {
    /// Usable GPUs by host.
    pub usable: Vec<GpuMask>,
    /// A host gives a multiple of so many GPUs.
    pub unit: usize,
    /// By host, it gives at most so many; empty if no host is limited.
    pub most: Vec<usize>,
}

/// A request that cannot be met, the constraint that binds, and what would be possible.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Impossible {
    /// Which constraint binds: `gpus`, `gpu-model`, `include`, `exclude`, `hosts`, `max-hosts`, `uniform`,
    /// `most-on-host`,
    /// `gpus-per-instance`, `protect`, `spare-hosts`, `min-busbw`, `parallel`.
    pub constraint: &'static str,
    /// What is wrong.
    pub message: String,
    /// What would be possible.
    pub possible: String,
}

impl Scope {
    /// Applies include, exclude and GPU model to the free GPUs.
    pub fn new(cluster: &Cluster, state: &ClusterState, request: &Request) -> Self {
        let usable = cluster
            .host_ids()
            .map(|host| {
                let mut mask = state.free.get(host.index()).copied().unwrap_or_default();
                if !model_matches(cluster, host, request) {
                    return GpuMask::EMPTY;
                }
                if !request.include.is_empty() {
                    mask = mask.intersection(united(&request.include, host));
                }
                mask.without(united(&request.exclude, host))
            })
            .collect();
        let scope = Self::of(usable, request.multiple_of.max(1));
        Self { most: limits(cluster, request), ..scope }
    }

    /// These GPUs, a multiple of `unit` (at least 1) from each host.
    pub const fn of(usable: Vec<GpuMask>, unit: usize) -> Self {
        Self { usable, unit, most: Vec::new() }
    }

    /// So many of the host's usable GPUs can be part of a set, whole units or not.
    pub fn most(&self, host: HostId) -> usize {
        let usable = self.usable[host.index()].count();
        self.most.get(host.index()).map_or(usable, |most| usable.min(*most))
    }

    /// So many of the host's usable GPUs can be part of a set.
    pub fn capacity(&self, host: HostId) -> usize {
        self.most(host) / self.unit * self.unit
    }

    /// For rules that know of no limits: of limited hosts only so many GPUs are left, the lowest.
    pub fn cut(&self) -> Cow<'_, [GpuMask]> {
        if self.most.is_empty() {
            return Cow::Borrowed(&self.usable);
        }
        let hosts = self.usable.iter().enumerate();
        hosts.map(|(host, mask)| mask.lowest(self.most(HostId(host as u32)))).collect()
    }

    /// Usable counts of the hosts that have any, largest first.
    pub fn counts(&self) -> Vec<usize> {
        let hosts = (0..self.usable.len() as u32).map(HostId);
        let mut counts: Vec<usize> =
            hosts.map(|host| self.capacity(host)).filter(|&count| count > 0).collect();
        counts.sort_unstable_by(|a, b| b.cmp(a));
        counts
    }

    /// The numbers of hosts that the request may be spread over, given these usable GPUs.
    pub fn host_counts(&self, request: &Request) -> Vec<usize> {
        let counts = self.counts();
        let most =
            request.max_hosts.unwrap_or(usize::MAX).min(counts.len()).min(request.gpus / self.unit);
        if !request.gpus.is_multiple_of(self.unit) {
            return Vec::new();
        }
        (1..=most)
            .filter(|&k| request.hosts.is_none_or(|hosts| hosts == k))
            .filter(|&k| {
                if request.uniform {
                    request.gpus.is_multiple_of(k * self.unit) && counts[k - 1] >= request.gpus / k
                } else {
                    counts[..k].iter().sum::<usize>() >= request.gpus
                }
            })
            .collect()
    }
}

/// Checks that some set meets the request.
///
/// # Errors
/// The constraint that binds, and what would be possible.
pub fn check(
    cluster: &Cluster,
    state: &ClusterState,
    request: &Request,
) -> Result<Scope, Impossible> {
    let scope = Scope::new(cluster, state, request);
    if request.gpus == 0 {
        return Err(impossible("gpus", "0 GPUs were asked for", "ask for at least 1 GPU"));
    }
    if !scope.host_counts(request).is_empty() {
        return Ok(scope);
    }
    Err(not_enough(cluster, state, request).unwrap_or_else(|| wrong_shape(&scope, request)))
}

fn impossible(
    constraint: &'static str,
    message: impl Into<String>,
    possible: impl Into<String>,
) -> Impossible {
    Impossible { constraint, message: message.into(), possible: possible.into() }
}

/// Too few GPUs at all: adds the constraints one by one and names the first under which they no longer suffice.
fn not_enough(cluster: &Cluster, state: &ClusterState, request: &Request) -> Option<Impossible> {
    let stages: [(&'static str, &str); 6] = [
        ("gpus", "are free"),
        ("gpu-model", "are free and of the model"),
        ("include", "are free among those included"),
        ("exclude", "are free and not excluded"),
        ("most-on-host", "can be had of hosts that give only some of theirs"),
        ("gpus-per-instance", "are free on hosts in whole instances"),
    ];
    let mut relaxed = Request::gpus(request.gpus);
    let mut before = 0;
    for (constraint, what) in stages {
        match constraint {
            "gpu-model" => relaxed.gpu_model.clone_from(&request.gpu_model),
            "include" => relaxed.include.clone_from(&request.include),
            "exclude" => relaxed.exclude.clone_from(&request.exclude),
            "most-on-host" => relaxed.most_on_host.clone_from(&request.most_on_host),
            "gpus-per-instance" => relaxed.multiple_of = request.multiple_of,
            _ => {}
        }
        let available: usize = Scope::new(cluster, state, &relaxed).counts().iter().sum();
        if available < request.gpus {
            let model = match (&request.gpu_model, constraint) {
                (Some(model), "gpu-model") => {
                    format!(" '{model}' (the cluster has {})", models(cluster))
                }
                _ => String::new(),
            };
            let mut possible = if available == 0 {
                let exists = cluster.host_ids().any(|host| model_matches(cluster, host, request));
                let waiting = constraint == "gpus" || (constraint == "gpu-model" && exists);
                if waiting { "wait until GPUs are released" } else { "no GPU at all" }.to_owned()
            } else {
                format!("at most {}", counted(available, "GPU"))
            };
            if constraint == "gpus-per-instance" {
                let unit = request.multiple_of;
                let largest = before_unit(cluster, state, request);
                possible = match available / unit {
                    0 => format!("no host has more than {} to give", counted(largest, "GPU")),
                    instances => {
                        let instances = counted(instances, "instance");
                        format!("at most {instances} of {}", counted(unit, "GPU"))
                    }
                };
            } else if constraint == "most-on-host" {
                possible = format!("{possible}; {before} if hosts gave all that they have free");
            } else if constraint != "gpus" {
                possible = format!("{possible}; {before} without --{constraint}");
            }
            return Some(impossible(
                constraint,
                format!(
                    "{} were asked for, but only {available} {what}{model}",
                    counted(request.gpus, "GPU")
                ),
                possible,
            ));
        }
        before = available;
    }
    None
}

/// GPUs of the host with the most that the request may use, whole instances or not.
fn before_unit(cluster: &Cluster, state: &ClusterState, request: &Request) -> usize {
    let single = Request { multiple_of: 1, ..request.clone() };
    Scope::new(cluster, state, &single).counts().first().copied().unwrap_or(0)
}

/// Enough GPUs, but not in the shape that was asked for.
fn wrong_shape(scope: &Scope, request: &Request) -> Impossible {
    let counts = scope.counts();
    let n = request.gpus;
    let total: usize = counts.iter().sum();
    let with = |change: &dyn Fn(&mut Request)| {
        let mut other = request.clone();
        change(&mut other);
        scope.host_counts(&other)
    };
    let list = |ks: &[usize]| ks.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
    if request.uniform && !with(&|r| r.uniform = false).is_empty() {
        let other = |k: &&usize| request.hosts.is_none_or(|hosts| hosts == **k);
        let mut near: Vec<usize> = (1..=total)
            .filter(|&gpus| {
                let ks = with(&|r| r.gpus = gpus);
                ks.iter().any(|k| other(&k))
            })
            .collect();
        near.sort_by_key(|&gpus| gpus.abs_diff(n));
        near.truncate(3);
        near.sort_unstable();
        let elsewhere = with(&|r| (r.hosts, r.max_hosts) = (None, None));
        let mut possible =
            format!("--uniform is possible with {} GPUs; uneven sets of {n} are", list(&near));
        if !elsewhere.is_empty() {
            possible =
                format!("{n} GPUs --uniform on {} hosts; uneven sets of {n}", list(&elsewhere));
        }
        return impossible(
            "uniform",
            format!("no number of hosts gives {n} GPUs with the same count on each"),
            possible,
        );
    }
    let free = with(&|r| (r.hosts, r.max_hosts) = (None, None));
    if let Some(hosts) = request.hosts
        && request.max_hosts.is_none_or(|most| hosts <= most)
    {
        let most: usize = counts.iter().take(hosts).sum();
        return impossible(
            "hosts",
            format!("{} on exactly {} cannot be had", counted(n, "GPU"), counted(hosts, "host")),
            if hosts > n || hosts > counts.len() {
                format!(
                    "{} at most for {}",
                    counted(counts.len().min(n), "host"),
                    counted(n, "GPU")
                )
            } else {
                format!(
                    "at most {} on {}; {n} GPUs on {} hosts",
                    counted(most, "GPU"),
                    counted(hosts, "host"),
                    list(&free)
                )
            },
        );
    }
    let limit = request.max_hosts.unwrap_or(0);
    let most: usize = counts.iter().take(limit).sum();
    impossible(
        "max-hosts",
        format!("{} on at most {} cannot be had", counted(n, "GPU"), counted(limit, "host")),
        format!(
            "at most {} on {}; {n} GPUs need {} hosts",
            counted(most, "GPU"),
            counted(limit, "host"),
            free.first().copied().unwrap_or(0).max(request.hosts.unwrap_or(0))
        ),
    )
}

/// The most that each host gives; empty if none is limited.
fn limits(cluster: &Cluster, request: &Request) -> Vec<usize> {
    if request.most_on_host.is_empty() {
        return Vec::new();
    }
    let mut most = vec![usize::MAX; cluster.hosts.len()];
    for (host, limit) in &request.most_on_host {
        if let Some(most) = most.get_mut(host.index()) {
            *most = (*most).min(*limit);
        }
    }
    most
}

fn models(cluster: &Cluster) -> String {
    let mut names: Vec<&str> =
        cluster.host_types.iter().map(|kind| kind.gpu_model.as_str()).collect();
    names.sort_unstable();
    names.dedup();
    names.join(", ")
}

fn model_matches(cluster: &Cluster, host: HostId, request: &Request) -> bool {
    request
        .gpu_model
        .as_ref()
        .is_none_or(|model| cluster.type_of(host).gpu_model.eq_ignore_ascii_case(model))
}

fn united(list: &[(HostId, GpuMask)], host: HostId) -> GpuMask {
    list.iter()
        .filter(|(h, _)| *h == host)
        .fold(GpuMask::EMPTY, |mask, (_, more)| mask.union(*more))
}
