//! Every placement of whole runs, plans with suspensions and reservations among them, against a search on a scene built anew.

use std::cell::RefCell;
use std::fmt::Write as _;

use bandpilot_core::{
    Cluster, ClusterBuilder, ClusterState, LinkClass, Links, Request, RunningJob,
};
use bandpilot_fragmentation::Occupancy;
use bandpilot_dispatch::{AnswerOptions, Fill, dispatch};
use bandpilot_model::{BandwidthModel, Predictor, VirtualMerge};
use bandpilot_readers::trace_file;
use rand::RngExt;
use rand_pcg::Pcg64;
use rand_pcg::rand_core::SeedableRng;

use super::*;
use crate::options::Options;
use crate::policy::Policy;
use crate::scheduler::Scheduler;
use crate::shape::Hosts;
use crate::speed::Steady;
use crate::workload::Workload;
use crate::world::simulate_with;

/// What was looked at.
#[derive(Debug, Default)]
struct Seen {
    inside: usize,
    across: usize,
    beside_others: usize,
    later: usize,
    faster_across: usize,
}

/// The rule, compared at every step with what it should be.
struct Checked<'a, 's> {
    rule: Bandpilot<'a>,
    predictor: &'a Predictor<'a>,
    seen: &'s RefCell<Seen>,
}

/// Who runs, as far as a caller of the rule can see.
fn state(room: &Room<'_>, models: ModelSet) -> ClusterState {
    let runs = |job: JobId| room.jobs.run(job).is_some_and(|run| !run.suspended);
    let holds = |placement: &Placement| {
        placement
            .shares()
            .iter()
            .all(|(host, mask)| mask.intersection(room.idle.on(*host)).is_empty())
    };
    let running = room.jobs.running().filter_map(|(job, grant)| match grant {
        Grant::Gpus(placement) if runs(job) && holds(placement) => {
            let demand = demand_of(f64::from(room.jobs.comm_share(job)));
            Some(RunningJob::new(job.0.to_string(), placement.clone(), demand))
        }
        _ => None,
    });
    ClusterState { jobs: running.collect(), free: usable(models, room) }
}

fn told(scene: &Scene<'_>) -> Vec<(Placement, u64, u64)> {
    let jobs = scene.jobs().iter().enumerate();
    let mut told: Vec<(Placement, u64, u64)> = jobs
        .map(|(at, job)| {
            let before = (scene.before(at) * 1e6).round();
            (job.placement.clone(), job.demand.to_bits(), before.to_bits())
        })
        .collect();
    told.sort();
    told
}

impl Checked<'_, '_> {
    fn check(
        &mut self,
        set: &Placement,
        request: &Request,
        state: &ClusterState,
        anew: &Scene<'_>,
    ) {
        let scope = Scope::of(state.free.clone(), request.multiple_of);
        let expected = search(anew, &scope, request, &SearchOptions::default()).unwrap();
        assert!(expected.proven);
        let best = &expected.best;
        if set.is_cross_host() {
            let near = |a: f64, b: f64| (a - b).abs() <= 1e-9 * b.abs();
            assert!(near(anew.effective(set).effective, best.effective), "{set:?} {best:?}");
            assert!((anew.harm(set) - best.harm).abs() < 1e-6, "{set:?} {best:?}");
            assert_eq!(set.hosts(), best.placement.hosts());
        } else {
            // Tightest host, best GPUs: the very same.
            assert_eq!(*set, best.placement);
        }
        let answer = dispatch(self.predictor, state, request, AnswerOptions::default()).unwrap();
        assert!((answer.chosen.effective - best.effective).abs() <= 1e-9 * best.effective.abs());
        let mut seen = self.seen.borrow_mut();
        let one_host = state.free.iter().any(|free| free.count() >= request.gpus);
        *if set.is_cross_host() { &mut seen.across } else { &mut seen.inside } += 1;
        seen.beside_others += usize::from(set.is_cross_host() && !anew.jobs().is_empty());
        seen.faster_across += usize::from(set.is_cross_host() && one_host);
    }
}

impl PlacementRule for Checked<'_, '_> {
    fn fits(&self, shape: &Shape, room: &Room<'_>) -> bool {
        self.rule.fits(shape, room)
    }

    fn place(&mut self, job: JobId, shape: &Shape, room: &mut Room<'_>) -> Option<Grant> {
        let before = state(room, shape.models);
        let anew = Scene::new(self.predictor, &VirtualMerge, &before);
        self.rule.refresh(room);
        assert_eq!(told(&self.rule.scene), told(&anew));
        let held: usize = before.jobs.iter().map(|job| job.placement.gpus()).sum();
        let all: usize = room.jobs.running().map(|(_, grant)| grant.gpus()).sum();
        self.seen.borrow_mut().later += usize::from(held < all);
        let grant = self.rule.place(job, shape, room).unwrap();
        let Grant::Gpus(set) = &grant else { panic!("{grant:?}") };
        assert_eq!(set.gpus(), shape.gpus());
        let units = self.rule.units.units(shape);
        if units.rest_gpus == 0 || units.instances == 0 {
            let unit = units.instance_gpus.min(shape.gpus() as u32) as usize;
            self.check(set, &request(set.gpus(), unit), &before, &anew);
        }
        Some(grant)
    }
}

fn run(cluster: &Cluster, text: &str, order: &str, whole: bool, seen: &RefCell<Seen>) {
    let hosts = Hosts::new(cluster).unwrap();
    let workload = Workload::new(&trace_file::read(text).value, &hosts);
    let model = BandwidthModel::closed_form();
    let predictor = Predictor::new(&model, cluster, 2 << 30);
    let options = Options { search_steps: 2_000_000, least_rate: 0.0, ..Options::default() };
    let setting =
        Setting::new(&hosts, &workload, &options, 1).with_network(Network::new(&predictor));
    let make = if whole { Bandpilot::whole } else { Bandpilot::splitting };
    let rule = Checked { rule: make(&setting).unwrap(), predictor: &predictor, seen };
    let order = Policy::parse(&format!("{order}/counting")).unwrap().make_order(&setting);
    let scheduler = Scheduler::new(hosts.clone(), order, Box::new(rule));
    simulate_with(&setting, scheduler, &mut Steady).unwrap();
}

/// Jobs with and without communication, some in named instances.
fn jobs(rng: &mut Pcg64, models: &[&str]) -> String {
    let mut text = "submit_s,duration_s,gpus,gpus_per_instance,comm_share,gpu_type\n".to_owned();
    for _ in 0..40 {
        let gpus: u32 = rng.random_range(1..=14);
        let named = [String::new(), String::new(), (gpus.div_ceil(2)).to_string(), "2".to_owned()];
        let named = &named[rng.random_range(0..named.len())];
        let (submit_s, duration_s) = (rng.random_range(0..60), rng.random_range(1..40));
        let share = [0.0, 0.3][rng.random_range(0..2)];
        let model = models[rng.random_range(0..models.len())];
        writeln!(text, "{submit_s},{duration_s},{gpus},{named},{share},{model}").unwrap();
    }
    text
}

/// GPU `i` has NVLinks to `i ^ 1` and slow links to the others.
fn paired(a: usize, b: usize) -> LinkClass {
    if a ^ b == 1 { LinkClass::Nv(4) } else { LinkClass::Sys }
}

#[test]
fn chooses_what_the_search_on_a_scene_built_anew_chooses() {
    let alike = ClusterBuilder::new("alike").host_type("h", "H100", 8).nvswitch().rails(400.0);
    let mut worn = alike.clone().hosts("h", 1, 4).build();
    worn.hosts[1].unhealthy_gpus = bandpilot_core::GpuMask(0b101);
    worn.hosts[2].unhealthy_nics = vec![3];
    let mixed =
        ClusterBuilder::new("mixed").host_type("v", "V100", 8).rails(100.0).hosts("v", 1, 2);
    let mut mixed =
        mixed.host_type("h", "H100", 8).nvswitch().rails(400.0).hosts("h", 1, 2).build();
    mixed.host_types[0].links = Links::Matrix((0..64).map(|at| paired(at / 8, at % 8)).collect());
    // Slow links inside, fast ones outside: two hosts may be better than one.
    let slow = ClusterBuilder::new("slow").host_type("p", "L4", 4).rails(400.0).hosts("p", 1, 4);
    let clusters = [
        (alike.hosts("h", 1, 4).build(), vec![""]),
        (worn, vec![""]),
        (mixed, vec!["", "V100", "H100", "V100|H100"]),
        (slow.build(), vec![""]),
    ];
    let seen = RefCell::default();
    let mut rng = Pcg64::seed_from_u64(7);
    for (cluster, models) in &clusters {
        for order in ["fifo", "fifo-skip", "srtf", "easy"] {
            for whole in [false, true] {
                for _ in 0..4 {
                    run(cluster, &jobs(&mut rng, models), order, whole, &seen);
                }
            }
        }
    }
    let Seen { inside, across, beside_others, later, faster_across } = seen.take();
    let counts = [inside, across, beside_others, later, faster_across];
    assert!(counts.iter().all(|count| *count > 50), "{counts:?}");
}

/// `bandpilot-tradeoff`, compared at every step with the dispatcher's answer.
struct Traded<'a, 's> {
    rule: Bandpilot<'a>,
    predictor: &'a Predictor<'a>,
    /// Placed in all, and of these with less fragmentation than the best set leaves.
    seen: &'s RefCell<(usize, usize)>,
}

const SHARE: f64 = 0.2;

impl PlacementRule for Traded<'_, '_> {
    fn fits(&self, shape: &Shape, room: &Room<'_>) -> bool {
        self.rule.fits(shape, room)
    }

    fn place(&mut self, job: JobId, shape: &Shape, room: &mut Room<'_>) -> Option<Grant> {
        let before = state(room, shape.models);
        let grant = self.rule.place(job, shape, room).unwrap();
        let Grant::Gpus(set) = &grant else { panic!("{grant:?}") };
        let units = self.rule.units.units(shape);
        let held = before.jobs.iter().map(|job| job.placement.gpus()).sum::<usize>();
        // Kept for the first in the queue, or of another model: the dispatcher would take them for unavailable.
        let others = held + before.free_gpus() < room.hosts.gpus();
        if others || units.rest_gpus > 0 && units.instances > 0 {
            return Some(grant);
        }
        let unit = units.instance_gpus.min(shape.gpus() as u32) as usize;
        let request = request(set.gpus(), unit);
        let options = AnswerOptions { tradeoff: Some(SHARE), ..AnswerOptions::default() };
        let answer = dispatch(self.predictor, &before, &request, options).unwrap();
        let tradeoff = answer.tradeoff.unwrap();
        let fill = Fill::new(&Occupancy::of(self.predictor.cluster(), &before));
        assert!(tradeoff.proven);
        assert_eq!(fill.after(set, unit), tradeoff.leaves, "{set:?}");
        let scene = Scene::new(self.predictor, &VirtualMerge, &before);
        let (gets, expected) = (scene.effective(set).effective, answer.chosen.effective);
        assert!((gets - expected).abs() <= 1e-9 * expected, "{gets} {expected}");
        let mut seen = self.seen.borrow_mut();
        seen.0 += 1;
        seen.1 += usize::from(tradeoff.leaves != tradeoff.best_leaves);
        Some(grant)
    }
}

#[test]
fn trading_chooses_what_the_dispatcher_answers() {
    let alike = ClusterBuilder::new("alike").host_type("h", "H100", 8).nvswitch().rails(400.0);
    let alike = alike.hosts("h", 1, 4).build();
    let mixed =
        ClusterBuilder::new("mixed").host_type("v", "V100", 8).rails(100.0).hosts("v", 1, 2);
    let mixed = mixed.host_type("h", "H100", 8).nvswitch().rails(400.0).hosts("h", 1, 2).build();
    let seen = RefCell::default();
    let mut rng = Pcg64::seed_from_u64(11);
    for (cluster, models) in [(alike, vec![""]), (mixed, vec!["", "V100", "H100"])] {
        for order in ["fifo", "fifo-skip", "srtf", "easy"] {
            for _ in 0..4 {
                let hosts = Hosts::new(&cluster).unwrap();
                let trace = trace_file::read(&jobs(&mut rng, &models)).value;
                let workload = Workload::new(&trace, &hosts);
                let model = BandwidthModel::closed_form();
                let predictor = Predictor::new(&model, &cluster, 2 << 30);
                let options = Options {
                    search_steps: 2_000_000,
                    least_rate: 0.0,
                    tradeoff: SHARE,
                    ..Options::default()
                };
                let network = Network::new(&predictor);
                let setting = Setting::new(&hosts, &workload, &options, 1).with_network(network);
                let rule = Bandpilot::trading(&setting).unwrap();
                let rule = Traded { rule, predictor: &predictor, seen: &seen };
                let order = Policy::parse(&format!("{order}/counting")).unwrap();
                let order = order.make_order(&setting);
                let scheduler = Scheduler::new(hosts.clone(), order, Box::new(rule));
                simulate_with(&setting, scheduler, &mut Steady).unwrap();
            }
        }
    }
    let (placed, traded) = seen.take();
    assert!(placed > 500 && traded > 50, "{traded} of {placed}");
}
