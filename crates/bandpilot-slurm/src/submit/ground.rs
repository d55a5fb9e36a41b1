//! What all searches for one job have in common: partitions that it may go to, and time.

use std::collections::BTreeMap;

use bandpilot_core::{ClusterState, HostId, Request, counted};
use bandpilot_dispatch::{Answer, AnswerOptions, Impossible, Scope, dispatch, scope};

use super::admit::{Admission, Gate, Room, When, by_reason, span};
use super::ask::Ask;
use super::clock::Clock;
use super::plan::Given;
use super::refused::{Refused, RefusedKind};
use super::shape::{Shape, Span, shapes};
use crate::cluster_state::cluster_state;
use crate::site::Partition;
use crate::{Job, Limit};

/// A partition with one set of features, and how the job could be spread there.
pub(super) struct Variant<'a> {
    pub gate: Gate<'a>,
    pub shapes: Vec<Shape>,
}

/// Everything that the searches for one job stand on.
pub(super) struct Ground<'a> {
    pub given: &'a Given<'a>,
    pub ask: &'a Ask,
    pub clock: &'a Clock,
    /// The running jobs; nothing is free.
    pub running: ClusterState,
    /// By name of a running job, when it is over.
    ends: BTreeMap<String, i64>,
    pub variants: Vec<Variant<'a>>,
}

/// A set that was found.
pub(super) struct Candidate {
    pub variant: usize,
    pub shape: Shape,
    pub answer: Answer,
}

impl<'a> Ground<'a> {
    /// # Errors
    /// If the options contradict one another or the site, whatever is free.
    pub(super) fn new(
        given: &'a Given<'a>,
        ask: &'a Ask,
        clock: &'a Clock,
    ) -> Result<Self, Refused> {
        check_names(given, ask)?;
        let partitions = partitions(given, ask)?;
        let mut variants = Vec::new();
        let mut refusals = Vec::new();
        for partition in partitions {
            let ways = host_span(given, ask, partition)
                .and_then(|span| Ok(shapes(ask, span)?))
                .and_then(|shapes| may_enter(ask, partition).map(|()| shapes));
            let shapes = match ways {
                Ok(shapes) => shapes,
                Err(refusal) => {
                    refusals.push(refusal);
                    continue;
                }
            };
            let features: Vec<_> = if ask.features.is_empty() {
                vec![None]
            } else {
                ask.features.iter().map(Some).collect()
            };
            for features in features {
                let (snapshot, cluster) = (given.snapshot, given.predictor.cluster());
                let gate =
                    Gate::new(snapshot, cluster, given.site, ask, partition, features, clock);
                variants.push(Variant { gate, shapes: shapes.clone() });
            }
        }
        if variants.is_empty() {
            return Err(refusals.swap_remove(0));
        }
        let running = cluster_state(given.snapshot, given.predictor.cluster()).value;
        let mut ends: BTreeMap<String, i64> = BTreeMap::new();
        let names: BTreeMap<u32, u32> =
            given.snapshot.jobs.iter().map(|job| (job.id, leader(job))).collect();
        for stay in (0..given.snapshot.hosts.len()).flat_map(|at| clock.stays(at)) {
            let name = names.get(&stay.job).copied().unwrap_or(stay.job).to_string();
            let end = ends.entry(name).or_insert(i64::MIN);
            *end = (*end).max(stay.to);
        }
        Ok(Self { given, ask, clock, running, ends, variants })
    }

    /// The best set of all variants if the job starts then; the first refusal if there is none.
    pub(super) fn best_at(&self, when: When) -> Result<Candidate, Impossible> {
        let mut best: Option<Candidate> = None;
        let mut refusal: Option<Impossible> = None;
        for (variant, way) in self.variants.iter().enumerate() {
            match self.best_of(way, &|at, shape| way.gate.room(at, shape, when), when.from) {
                Ok((shape, answer)) => {
                    let better = best.as_ref().is_none_or(|best| {
                        answer.chosen.effective > best.answer.chosen.effective * (1.0 + 1e-9)
                    });
                    if better {
                        best = Some(Candidate { variant, shape, answer });
                    }
                }
                Err(why) => refusal = refusal.or(Some(why)),
            }
        }
        best.ok_or_else(|| refusal.unwrap_or_else(no_way))
    }

    /// The first shape of a variant that can be had, with its best set.
    fn best_of(
        &self,
        way: &Variant<'_>,
        room: &dyn Fn(usize, &Shape) -> Room,
        from: i64,
    ) -> Result<(Shape, Answer), Impossible> {
        let mut refusal: Option<Impossible> = None;
        let mut last: Option<(Shape, Vec<Room>)> = None;
        for shape in &way.shapes {
            let alike = |other: &Shape| {
                (other.unit, other.most_on_host, other.tasks)
                    == (shape.unit, shape.most_on_host, shape.tasks)
            };
            let rooms = match last.take() {
                Some((other, rooms)) if alike(&other) => rooms,
                _ => (0..way.gate.hosts.len()).map(|at| room(at, shape)).collect(),
            };
            let answer = self.search(way, shape, &rooms, from);
            last = Some((*shape, rooms));
            match answer {
                Ok(answer) => return Ok((*shape, answer)),
                Err(why) => refusal = refusal.or(Some(why)),
            }
        }
        Err(refusal.unwrap_or_else(no_way))
    }

    fn search(
        &self,
        way: &Variant<'_>,
        shape: &Shape,
        rooms: &[Room],
        from: i64,
    ) -> Result<Answer, Impossible> {
        let cluster = self.given.predictor.cluster();
        let (mut state, request) = self.request(way, shape, rooms);
        let try_with = |request: &Request, state: &ClusterState| {
            let options =
                AnswerOptions { should_stop: self.given.should_stop, ..AnswerOptions::default() };
            dispatch(self.given.predictor, state, request, options)
        };
        // Most moments are not worth more than a look at the counts.
        if Scope::new(cluster, &state, &request).host_counts(&request).is_empty() {
            // Later, nobody reads why.
            let why = (from == self.clock.now).then(|| scope::check(cluster, &state, &request));
            return Err(why.and_then(Result::err).unwrap_or_else(no_way));
        }
        state.jobs = self.jobs_at(from);
        let first = try_with(&request, &state);
        if shape.least_hosts == 1 || request.hosts.is_some() {
            return first;
        }
        if let Ok(answer) = &first
            && answer.chosen.placement.hosts() >= shape.least_hosts
        {
            return first;
        }
        let most = request.max_hosts.unwrap_or(usize::MAX).min(cluster.hosts.len());
        let mut best: Option<Answer> = None;
        for hosts in shape.least_hosts..=most.min(shape.most_hosts) {
            let request = Request { hosts: Some(hosts), ..request.clone() };
            let Ok(answer) = try_with(&request, &state) else { continue };
            let worth = answer.chosen.effective;
            if best.as_ref().is_none_or(|best| worth > best.chosen.effective * (1.0 + 1e-9)) {
                best = Some(answer);
            }
        }
        best.ok_or_else(|| {
            let (gpus, least) = (counted(shape.gpus, "GPU"), counted(shape.least_hosts, "host"));
            Impossible {
                constraint: "hosts",
                message: format!("{gpus} on at least {least} cannot be had"),
                possible: "fewer hosts (-N)".to_owned(),
            }
        })
    }

    /// The jobs that still run then.
    pub(super) fn jobs_at(&self, from: i64) -> Vec<bandpilot_core::RunningJob> {
        let runs = |name: &str| self.ends.get(name).is_none_or(|end| *end > from);
        self.running.jobs.iter().filter(|job| runs(&job.name)).cloned().collect()
    }

    /// What is free and what is asked for, in the words of dispatch.
    pub(super) fn request(
        &self,
        way: &Variant<'_>,
        shape: &Shape,
        rooms: &[Room],
    ) -> (ClusterState, Request) {
        let cluster = self.given.predictor.cluster();
        let wishes = self.given.wishes;
        let mut state = ClusterState {
            free: vec![bandpilot_core::GpuMask::EMPTY; cluster.hosts.len()],
            jobs: Vec::new(),
        };
        let mut most_on_host: Vec<(HostId, usize)> = wishes.most_on_host.clone();
        for (room, id) in rooms.iter().zip(&way.gate.hosts) {
            let Ok(id) = id else { continue };
            state.free[id.index()] = room.usable;
            if room.most < room.usable.count() {
                most_on_host.push((*id, room.most));
            }
        }
        let exact = (shape.least_hosts == shape.most_hosts).then_some(shape.least_hosts);
        let most = wishes.max_hosts.unwrap_or(usize::MAX).min(shape.most_hosts);
        let request = Request {
            gpus: shape.gpus,
            uniform: wishes.uniform || shape.uniform,
            hosts: exact.or(wishes.hosts),
            max_hosts: (exact.is_none() && most < shape.gpus).then_some(most),
            multiple_of: lcm(shape.unit, wishes.multiple_of.max(1)),
            gpu_model: self.ask.gpu_model.clone().or_else(|| wishes.gpu_model.clone()),
            most_on_host,
            ..wishes.clone()
        };
        (state, request)
    }

    /// Why there is no set even if nobody else were on the cluster; `None` if there would be one.
    pub(super) fn never(&self) -> Option<Impossible> {
        let mut refusal = None;
        for way in &self.variants {
            for shape in &way.shapes {
                let hosts = 0..way.gate.hosts.len();
                let rooms: Vec<Room> = hosts.map(|at| way.gate.room_alone(at, shape)).collect();
                let (state, mut request) = self.request(way, shape, &rooms);
                let exact = request.hosts;
                request.hosts = None;
                let scope = Scope::new(self.given.predictor.cluster(), &state, &request);
                let fits = |hosts: &usize| {
                    let in_span = (shape.least_hosts..=shape.most_hosts).contains(hosts);
                    in_span && exact.is_none_or(|exact| exact == *hosts)
                };
                if scope.host_counts(&request).iter().any(fits) {
                    return None;
                }
                request.hosts = exact;
                let why = scope::check(self.given.predictor.cluster(), &state, &request).err();
                refusal = refusal.or(why);
            }
        }
        let mut refusal = refusal.unwrap_or_else(no_way);
        // The texts are about what is free; here everything is.
        refusal.message = refusal.message.replace("are free", "are on hosts that the job can use");
        if refusal.possible.starts_with("wait until GPUs are released") {
            "no GPU at all".clone_into(&mut refusal.possible);
        }
        Some(refusal)
    }

    /// What each host could give, for every variant's first shape.
    pub(super) fn admissions(&self, variant: usize, when: When) -> Vec<Admission> {
        let way = &self.variants[variant];
        let Some(shape) = way.shapes.first() else { return Vec::new() };
        (0..way.gate.hosts.len()).map(|at| way.gate.admission(at, shape, when)).collect()
    }

    /// A refusal with the hosts that were left out of the first variant.
    pub(super) fn refuse(&self, why: Impossible, when: When) -> Refused {
        Refused { hosts: by_reason(&self.admissions(0, when)), ..Refused::from(why) }
    }
}

fn no_way() -> Impossible {
    Impossible {
        constraint: "gpus",
        message: "no host can give a GPU to the job".to_owned(),
        possible: "no GPU at all".to_owned(),
    }
}

fn leader(job: &Job) -> u32 {
    job.het.map_or(job.id, |het| het.leader)
}

fn lcm(a: usize, b: usize) -> usize {
    let (mut x, mut y) = (a, b);
    while y > 0 {
        (x, y) = (y, x % y);
    }
    a / x.max(1) * b
}

/// Hosts, reservation and GPU type must be there.
fn check_names(given: &Given<'_>, ask: &Ask) -> Result<(), Refused> {
    for (option, names) in [("nodelist", &ask.named_hosts), ("exclude", &ask.excluded_hosts)] {
        if let Some(name) = names.iter().find(|name| given.snapshot.host(name).is_none()) {
            return Err(Refused::options(
                option,
                format!("{name} is no host of the cluster"),
                "hosts that `sinfo -N` shows",
            ));
        }
    }
    let reserved = &ask.reservation;
    if !reserved.is_empty() && !given.snapshot.reservations.iter().any(|r| r.name == *reserved) {
        let names: Vec<&str> =
            given.snapshot.reservations.iter().map(|r| r.name.as_str()).collect();
        let possible = if names.is_empty() { "there is none".to_owned() } else { names.join(", ") };
        return Err(Refused::options(
            "reservation",
            format!("there is no reservation {reserved}"),
            possible,
        ));
    }
    if let Some(kind) = &ask.gpu_model {
        let cluster = given.predictor.cluster();
        let model = cluster.host_types.iter().any(|t| t.gpu_model.eq_ignore_ascii_case(kind));
        let hosts = given.snapshot.hosts.iter().filter(|host| host.names_gpus());
        let names_gpu = hosts.into_iter().any(|host| !host.gpus_of_kind(kind).is_empty());
        if names_gpu && !model {
            return Err(Refused {
                kind: RefusedKind::NamesGpus,
                ..Refused::options(
                    "gres",
                    format!("gpu:{kind} names one GPU of each host: the job is planned already"),
                    "a number of GPUs without a type, or with a GPU model, for a plan",
                )
            });
        }
    }
    Ok(())
}

/// The partitions that the job may go to.
fn partitions<'a>(given: &Given<'a>, ask: &Ask) -> Result<Vec<&'a Partition>, Refused> {
    let names = || {
        let names: Vec<&str> = given.site.partitions.iter().map(|p| p.name.as_str()).collect();
        if names.is_empty() { "there is none".to_owned() } else { names.join(", ") }
    };
    if ask.partitions.is_empty() {
        let default = given.site.default_partition();
        return default.map(|partition| vec![partition]).ok_or_else(|| {
            Refused::options("partition", "the site has no default partition", names())
        });
    }
    let named = |name: &String| {
        given.site.partition(name).ok_or_else(|| {
            Refused::options("partition", format!("there is no partition {name}"), names())
        })
    };
    ask.partitions.iter().map(named).collect()
}

/// Whether a partition takes the job at all.
fn may_enter(ask: &Ask, partition: &Partition) -> Result<(), Refused> {
    let name = &partition.name;
    let refuse = |option: &str, message: String, possible: String| {
        Err(Refused::options(option, message, possible))
    };
    if !matches!(partition.state.as_str(), "UP" | "") {
        let state = partition.state.to_lowercase();
        let message = format!("partition {name} is {state}: it starts no jobs");
        return refuse("partition", message, "another partition".to_owned());
    }
    if partition.wants_reservation && ask.reservation.is_empty() {
        let message = format!("partition {name} takes only jobs with a reservation");
        return refuse("partition", message, "--reservation, or another partition".to_owned());
    }
    let account = &ask.account;
    if !account.is_empty() {
        let allowed = partition.allowed_accounts.as_ref();
        if allowed.is_some_and(|allowed| !allowed.contains(account))
            || partition.denied_accounts.contains(account)
        {
            let possible = match allowed {
                Some(allowed) => format!("-A {}", allowed.join(" or ")),
                None => "another account".to_owned(),
            };
            return refuse(
                "account",
                format!("partition {name} is not for account {account}"),
                possible,
            );
        }
    }
    if let Limit::Seconds(most) = partition.max_time {
        let words = |seconds: u64| span(i64::try_from(seconds).unwrap_or(i64::MAX));
        let asked = match ask.time_limit {
            Limit::Seconds(asked) if asked > most => words(asked),
            Limit::Unlimited => "no limit".to_owned(),
            _ => return Ok(()),
        };
        let message = format!("a time limit of {asked} is more than partition {name} allows");
        return refuse("time", message, format!("at most {}", words(most)));
    }
    Ok(())
}

/// The numbers of hosts that job and partition allow.
fn host_span(given: &Given<'_>, ask: &Ask, partition: &Partition) -> Result<Span, Refused> {
    let all = given.snapshot.hosts.len().max(1);
    let mut names = ask.named_hosts.clone();
    names.sort_unstable();
    names.dedup();
    let named = names.len();
    let asked = ask.hosts.map(|hosts| (hosts.least.max(1), hosts.most));
    if named > 0
        && let Some((least, most)) = asked
        && (least > named || most < named)
    {
        let wants = if least == most { least.to_string() } else { format!("{least} to {most}") };
        return Err(Refused::options(
            "nodelist",
            format!("-w names {} and -N wants {wants}", counted(named, "host")),
            "as many hosts by name as by number: the job is planned on just the named ones",
        ));
    }
    let (least, most) = if named > 0 { (named, named) } else { asked.unwrap_or((1, all)) };
    let bound = partition.most_hosts.unwrap_or(usize::MAX);
    let least = least.max(partition.least_hosts);
    let span = Span { least, most: most.min(bound).min(all), asked: named > 0 || asked.is_some() };
    if span.least > bound || most < partition.least_hosts {
        let name = &partition.name;
        let message = format!(
            "partition {name} takes {} to {} hosts",
            partition.least_hosts.max(1),
            match partition.most_hosts {
                Some(most) => most.to_string(),
                None => "any number of".to_owned(),
            }
        );
        return Err(Refused::options("nodes", message, "another number of hosts (-N)"));
    }
    if span.least > all {
        let message =
            format!("{} were asked for, and the cluster has {all}", counted(span.least, "host"));
        return Err(Refused::options("nodes", message, format!("at most {all}")));
    }
    Ok(span)
}
