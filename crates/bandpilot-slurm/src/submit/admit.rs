//! How many GPUs each host could give to a job, and if not all that it has free, why.

use std::collections::{BTreeMap, BTreeSet};

use bandpilot_core::{Cluster, GpuMask, HostId, counted};
use bandpilot_readers::hostlist;

use super::ask::{Ask, Features};
use super::clock::{Clock, Left, limit_s};
use super::need::{Load, Need};
use super::shape::Shape;
use crate::site::{Cores, Partition, Sharing, Site};
use crate::{Host, Reservation, Snapshot};

/// What one host could give.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Admission {
    /// Slurm's name of it.
    pub host: String,
    /// GPUs that are idle and healthy.
    pub free: GpuMask,
    /// Those of them that the job may use.
    pub usable: GpuMask,
    /// So many of these it can give.
    pub gives: usize,
    /// Why not all that are free; `None` if it gives all.
    pub why: Option<String>,
}

/// When a job is to start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct When {
    /// Seconds since 1970.
    pub from: i64,
    /// It keeps off GPUs that others wait for, also where it would be over before they start.
    pub yields: bool,
}

/// What a host has for a job at some time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Room {
    /// GPUs that may be used.
    pub usable: GpuMask,
    /// So many of them at most.
    pub most: usize,
}

/// What other parts of the same plan take of a host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Taken {
    pub gpus: GpuMask,
    pub cpus: usize,
    pub memory_mib: u64,
}

/// Where a job is to be admitted: one partition and one set of features.
pub(super) struct Gate<'a> {
    pub snapshot: &'a Snapshot,
    pub cluster: &'a Cluster,
    pub site: &'a Site,
    pub ask: &'a Ask,
    pub partition: &'a Partition,
    pub features: Option<&'a Features>,
    pub clock: &'a Clock,
    pub need: Need,
    /// The job has its hosts to itself.
    pub whole_hosts: bool,
    /// How long the job may run, seconds, if anybody knows.
    pub limit: Option<i64>,
    /// By host of the snapshot: its place in the cluster, or why it can never be used.
    pub hosts: Vec<Result<HostId, String>>,
}

impl<'a> Gate<'a> {
    pub(super) fn new(
        snapshot: &'a Snapshot,
        cluster: &'a Cluster,
        site: &'a Site,
        ask: &'a Ask,
        partition: &'a Partition,
        features: Option<&'a Features>,
        clock: &'a Clock,
    ) -> Self {
        let mut gate = Self {
            need: Need::new(ask, site, partition),
            whole_hosts: ask.exclusive
                || partition.sharing == Sharing::Exclusive
                || site.config.consumable.whole_hosts,
            limit: limit_s(ask.time_limit, Some(partition)),
            hosts: Vec::new(),
            snapshot,
            cluster,
            site,
            ask,
            partition,
            features,
            clock,
        };
        let ids = cluster.host_ids();
        let places: BTreeMap<&str, HostId> =
            ids.map(|id| (cluster.host(id).name.as_str(), id)).collect();
        let in_partition: BTreeSet<&str> = partition.hosts.iter().map(String::as_str).collect();
        let named: BTreeSet<&str> = ask.named_hosts.iter().map(String::as_str).collect();
        let excluded: BTreeSet<&str> = ask.excluded_hosts.iter().map(String::as_str).collect();
        let of_host = |host: &Host| {
            let name = host.name.as_str();
            let places = places.get(name).copied();
            let id = places.ok_or("not in the cluster file")?;
            if !in_partition.contains(name) && !host.partitions.contains(&partition.name) {
                return Err(format!("not in partition {}", partition.name));
            }
            if excluded.contains(name) {
                return Err("excluded by -x".to_owned());
            }
            if !named.is_empty() && !named.contains(name) {
                return Err("not named by -w".to_owned());
            }
            gate.never(host).map_or(Ok(id), Err)
        };
        gate.hosts = snapshot.hosts.iter().map(of_host).collect();
        gate
    }

    /// Why a host of the partition can never be used by the job.
    fn never(&self, host: &Host) -> Option<String> {
        if let Some(lacking) = self.features.and_then(|features| lacking(features, host)) {
            return Some(format!("lacks feature {lacking}"));
        }
        let name = &self.ask.reservation;
        let asked = self.own_reservation();
        if asked.is_some_and(|reservation| !reservation.hosts.contains(&host.name)) {
            return Some(format!("not in reservation {name}"));
        }
        if let Some(closed) = self.closed(host) {
            return Some(closed);
        }
        if host.gpus.is_empty() {
            return Some("no GPUs in Slurm".to_owned());
        }
        if !host.names_gpus() {
            return Some(
                "its GPUs have no gres type of their own, so a job cannot name them \
                 (`bandpilot slurm config` writes what is needed)"
                    .to_owned(),
            );
        }
        None
    }

    /// Drained, down and the like. What a known reservation closes is asked for at each time.
    fn closed(&self, host: &Host) -> Option<String> {
        let reserved = self.snapshot.reservations.iter();
        let reserved = reserved.filter(|r| r.active).any(|r| r.hosts.contains(&host.name));
        let open = |flag: &str| reserved && matches!(flag, "RESERVED" | "MAINT" | "MAINTENANCE");
        let mut without = host.clone();
        without.flags.retain(|flag| !open(flag));
        let flag = without.closed_by()?;
        let word = match flag {
            "DRAIN" | "DRAINING" | "DRAINED" => "drained".to_owned(),
            "NOT_RESPONDING" => "does not respond".to_owned(),
            other => other.to_lowercase().replace('_', " "),
        };
        let reason =
            if host.reason.is_empty() { String::new() } else { format!(": {}", host.reason) };
        Some(format!("{word}{reason}"))
    }

    fn own_reservation(&self) -> Option<&'a Reservation> {
        let name = self.ask.reservation.as_str();
        self.snapshot.reservations.iter().find(|r| !name.is_empty() && r.name == name)
    }

    /// When a job that starts `from` then is over.
    pub(super) fn end(&self, from: i64) -> i64 {
        self.limit.map_or(i64::MAX, |limit| from.saturating_add(limit))
    }

    /// Why a reservation keeps the job off a host from then on.
    fn reserved(&self, host: &Host, from: i64) -> Option<String> {
        let to = self.end(from);
        let own = &self.ask.reservation;
        for reservation in &self.snapshot.reservations {
            let name = &reservation.name;
            let begin = reservation.start_s.unwrap_or(i64::MIN);
            let end = reservation.end_s.unwrap_or(i64::MAX);
            if name == own {
                if begin > from {
                    return Some(format!("reservation {name} has not begun"));
                }
                if end <= from {
                    return Some(format!("reservation {name} is over"));
                }
                // Slurm starts a job without a limit in a reservation that ends.
                if end < to && end < i64::MAX && self.limit.is_some() {
                    let over = "is over before the job's limit ends";
                    return Some(format!("reservation {name} {over}"));
                }
                continue;
            }
            if begin >= to || end <= from || !reservation.hosts.contains(&host.name) {
                continue;
            }
            if begin <= from || (reservation.active && from == self.clock.now) {
                return Some(format!("reserved by {name}"));
            }
            let begins = format!("reservation {name} begins in {}", span(begin - from));
            return Some(match self.limit {
                Some(limit) => format!("{begins}, before the job's limit of {} ends", span(limit)),
                None => format!("{begins}, and the job has no time limit that is known"),
            });
        }
        None
    }

    fn left(&self, at: usize, when: When) -> Left {
        let When { from, yields } = when;
        self.clock.left(at, &self.snapshot.hosts[at], from, self.end(from), yields)
    }

    /// What a host has for the job if it starts then.
    pub(super) fn room(&self, at: usize, shape: &Shape, when: When) -> Room {
        self.room_beside(at, shape, when, &Taken::default())
    }

    /// The same beside what other parts of the plan take.
    pub(super) fn room_beside(&self, at: usize, shape: &Shape, when: When, taken: &Taken) -> Room {
        let none = Room { usable: GpuMask::EMPTY, most: 0 };
        let host = &self.snapshot.hosts[at];
        let Ok(id) = &self.hosts[at] else { return none };
        if self.reserved(host, when.from).is_some() {
            return none;
        }
        let mut left = self.left(at, when);
        if self.whole_hosts && !(left.idle && taken.gpus.is_empty()) {
            return none;
        }
        left.gpus = left.gpus.without(taken.gpus);
        left.cpus = left.cpus.saturating_sub(taken.cpus);
        left.memory_mib = left.memory_mib.saturating_sub(taken.memory_mib);
        let usable = left.gpus.intersection(self.cluster.healthy_gpus(*id));
        Room { usable, most: self.most(host, shape, usable.count(), &left) }
    }

    /// The same on the host when nobody is on it.
    pub(super) fn room_alone(&self, at: usize, shape: &Shape) -> Room {
        let host = &self.snapshot.hosts[at];
        let Ok(id) = &self.hosts[at] else { return Room { usable: GpuMask::EMPTY, most: 0 } };
        let usable = host.all_gpus().intersection(self.cluster.healthy_gpus(*id));
        Room { usable, most: self.most(host, shape, usable.count(), &whole(host)) }
    }

    /// The most GPUs, in units of the shape, for which cores and memory are left.
    fn most(&self, host: &Host, shape: &Shape, gpus: usize, left: &Left) -> usize {
        let most = gpus.min(shape.most_on_host) / shape.unit;
        let fits = |units: &usize| self.short(host, shape, units * shape.unit, left).is_none();
        (1..=most).rev().find(fits).unwrap_or(0) * shape.unit
    }

    /// What keeps a host from giving so many GPUs.
    fn short(&self, host: &Host, shape: &Shape, gpus: usize, left: &Left) -> Option<String> {
        let load = self.need.on(host, gpus, shape.tasks.on(gpus));
        let (limit, needed) = self.few_cores(host, &load, left).or_else(|| {
            let limit = self.little_memory(host, &load, left)?;
            Some((limit, format!("{} MiB", load.memory_mib)))
        })?;
        if load.all_memory {
            return Some(limit);
        }
        let need = if gpus == 1 { "needs" } else { "need" };
        Some(format!("{limit}: {} {need} {needed}", counted(gpus, "GPU")))
    }

    fn few_cores(&self, host: &Host, load: &Load, left: &Left) -> Option<(String, String)> {
        let shared = self.site.config.consumable.cores != Cores::Uncounted && !self.whole_hosts;
        let all = host.cpus as usize;
        let free = if shared { left.cpus.min(all) } else { all };
        let limit = if load.cpus > all {
            format!("{all} cores in all")
        } else if load.cpus > free {
            format!("{free} cores free of {all}")
        } else {
            let most = self.partition.most_cpus_per_host.filter(|most| load.cpus > *most)?;
            format!("partition {} gives {most} cores of a host", self.partition.name)
        };
        Some((limit, load.cpus.to_string()))
    }

    fn little_memory(&self, host: &Host, load: &Load, left: &Left) -> Option<String> {
        let shared = self.site.config.consumable.memory && !self.whole_hosts;
        let all = host.memory_mib;
        let free = if shared { left.memory_mib.min(all) } else { all };
        if load.all_memory && load.memory_mib > free {
            let why = if self.need.memory_asked {
                "the job wants all memory"
            } else {
                "a job that names no memory gets all of it"
            };
            return Some(format!("{free} MiB of memory free of {all}, and {why}"));
        }
        if load.memory_mib > all {
            return Some(format!("{all} MiB of memory in all"));
        }
        if load.memory_mib > free {
            return Some(format!("{free} MiB of memory free of {all}"));
        }
        let defaults = self.partition.defaults.or(self.site.config.defaults);
        let most = defaults.most_memory_mib_per_host.filter(|most| load.memory_mib > *most)?;
        Some(format!("partition {} gives {most} MiB of a host", self.partition.name))
    }

    /// In words.
    pub(super) fn admission(&self, at: usize, shape: &Shape, when: When) -> Admission {
        let host = &self.snapshot.hosts[at];
        let healthy = self.cluster.find_host(&host.name).map_or(GpuMask::EMPTY, |id| {
            self.cluster.healthy_gpus(id).intersection(host.all_gpus())
        });
        let free = healthy.without(host.gpus_in_use());
        let room = self.room(at, shape, when);
        Admission {
            host: host.name.clone(),
            free,
            usable: room.usable,
            gives: room.most,
            why: self.why(at, shape, when, free, room),
        }
    }

    fn why(
        &self,
        at: usize,
        shape: &Shape,
        when: When,
        free: GpuMask,
        room: Room,
    ) -> Option<String> {
        let host = &self.snapshot.hosts[at];
        if let Err(never) = &self.hosts[at] {
            return Some(never.clone());
        }
        if let Some(reserved) = self.reserved(host, when.from) {
            return Some(reserved);
        }
        let left = self.left(at, when);
        if self.whole_hosts && !left.idle {
            let jobs = self.clock.stays(at).iter().filter(|stay| stay.to > when.from);
            let jobs: Vec<String> = jobs.map(|stay| stay.job.to_string()).collect();
            return Some(if jobs.is_empty() {
                "not idle, and the job wants whole hosts".to_owned()
            } else {
                format!("not idle, and the job wants whole hosts: jobs {}", jobs.join(", "))
            });
        }
        if free.is_empty() {
            return Some("all GPUs are taken".to_owned());
        }
        if room.most >= free.count() {
            return None;
        }
        if let Some(next) = room.most.checked_add(shape.unit)
            && next <= room.usable.count().min(shape.most_on_host)
            && let Some(short) = self.short(host, shape, next, &left)
        {
            return Some(short);
        }
        let claims = self.clock.stays(at).iter().filter(|stay| stay.claim);
        let claims: Vec<String> = claims
            .filter(|stay| !stay.gpus.intersection(free.without(room.usable)).is_empty())
            .map(|stay| stay.job.to_string())
            .collect();
        if !claims.is_empty() {
            let waiting = free.without(room.usable);
            return Some(format!("job {} waits for GPUs {waiting}", claims.join(", ")));
        }
        if shape.most_on_host < free.count() && room.most + shape.unit > shape.most_on_host {
            let most = counted(shape.most_on_host, "GPU");
            return Some(format!("{most} of a host are asked for"));
        }
        Some(format!("hosts give a multiple of {}", counted(shape.unit, "GPU")))
    }
}

fn whole(host: &Host) -> Left {
    Left {
        gpus: host.all_gpus(),
        cpus: host.cpus as usize,
        memory_mib: host.memory_mib,
        idle: true,
    }
}

/// The first feature of the list that the host lacks.
fn lacking(features: &Features, host: &Host) -> Option<String> {
    let any = features.0.iter();
    let mut unmet = any.filter(|any| !any.iter().any(|feature| host.features.contains(feature)));
    unmet.next().map(|any| any.join(" or "))
}

/// `2 h`, `90 min`, `45 s`: rounded down to what a person would say.
pub(super) fn span(seconds: i64) -> String {
    match seconds {
        172_800.. => format!("{} days", seconds / 86_400),
        7_200.. => format!("{} h", seconds / 3_600),
        120.. => format!("{} min", seconds / 60),
        _ => format!("{seconds} s"),
    }
}

/// Hosts that give less than they have, by reason, in the order in which the reasons come up.
pub fn by_reason(admissions: &[Admission]) -> Vec<(String, String)> {
    let mut groups: Vec<(&str, Vec<&str>)> = Vec::new();
    for admission in admissions {
        let Some(why) = &admission.why else { continue };
        match groups.iter_mut().find(|(reason, _)| reason == why) {
            Some((_, hosts)) => hosts.push(&admission.host),
            None => groups.push((why, vec![&admission.host])),
        }
    }
    let named = |(why, hosts): (&str, Vec<&str>)| (hostlist::compress(hosts), why.to_owned());
    groups.into_iter().map(named).collect()
}

#[cfg(test)]
#[path = "../tests/admit.rs"]
mod tests;
