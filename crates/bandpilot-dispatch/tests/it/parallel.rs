//! Jobs with groups against brute force.

use bandpilot_core::{
    Cluster, ClusterBuilder, ClusterState, Collective, GpuMask, HostId, Placement, Request,
};
use bandpilot_dispatch::parallel::{Given, Models};
use bandpilot_dispatch::{
    AnswerOptions, Parallel, ParallelAnswer, Scene, Scope, dispatch_parallel,
};
use bandpilot_model::{BandwidthModel, Groups, Predictor, Traffic, VirtualMerge};
use proptest::prelude::*;
use rand::RngExt;
use rand_pcg::Pcg64;
use rand_pcg::rand_core::SeedableRng;

use crate::scenario::{Scenario, limits};

fn parallel(tensor: usize, pipeline: usize, data: usize) -> Parallel {
    Parallel {
        tensor,
        pipeline,
        data,
        tensor_traffic: Traffic { messages: 64.0, bytes: 128 << 20 },
        pipeline_traffic: Traffic { messages: 16.0, bytes: 64 << 20 },
        data_traffic: Traffic { messages: 1.0, bytes: 2 << 30 },
    }
}

/// Everything a job with groups is decided on.
struct Case {
    scenario: Scenario,
    send_recv: BandwidthModel,
    parallel: Parallel,
}

impl Case {
    fn random(seed: u64) -> Self {
        let mut scenario = Scenario::new(seed);
        let mut rng = Pcg64::seed_from_u64(seed ^ 0x9a9a);
        if rng.random_bool(0.3) {
            scenario.request.most_on_host = limits(&scenario.cluster, &mut rng);
        }
        let tensor = rng.random_range(1..=3);
        let groups = (scenario.state.free_gpus() / tensor).max(1);
        let mut parallel = parallel(tensor, 1, rng.random_range(1..=groups));
        parallel.tensor_traffic.messages = rng.random_range(0.0..50.0);
        Self { send_recv: scenario.model.for_collective(Collective::SendRecv), scenario, parallel }
    }

    fn answer(&self) -> Option<ParallelAnswer> {
        let Scenario { cluster, state, model, request } = &self.scenario;
        let models = Models { all_reduce: model, send_recv: &self.send_recv };
        let given = Given { state, request, parallel: &self.parallel };
        dispatch_parallel(cluster, models, given, AnswerOptions::default()).ok()
    }
}

fn meets(set: &Placement, request: &Request, unit: usize) -> bool {
    let counts: Vec<usize> = set.shares().iter().map(|(_, mask)| mask.count()).collect();
    request.hosts.is_none_or(|k| k == counts.len())
        && request.max_hosts.is_none_or(|k| counts.len() <= k)
        && (!request.uniform || counts.iter().all(|c| *c == counts[0]))
        && counts.iter().all(|c| c % unit == 0)
        && request.most_on_host.iter().all(|(host, most)| set.on(*host).count() <= *most)
}

/// Least step time over all sets, without pipelines.
fn brute_force(case: &Case) -> Option<f64> {
    let Scenario { cluster, state, model, request } = &case.scenario;
    let job = &case.parallel;
    let tensor = Predictor::new(model, cluster, job.tensor_traffic.bytes);
    let stage = Predictor::new(&case.send_recv, cluster, job.pipeline_traffic.bytes);
    let groups = Groups {
        tensor: job.tensor,
        tensor_traffic: job.tensor_traffic,
        tensor_predictor: &tensor,
        stages: 1,
        stage_traffic: job.pipeline_traffic,
        stage_predictor: &stage,
        ring_ranks: job.data,
        ring_traffic: job.data_traffic,
        outside_seconds: 0.0,
    };
    let predictor = Predictor::with_groups(model, cluster, groups);
    let scene = Scene::new(&predictor, &VirtualMerge, state);
    let scope = Scope::new(cluster, state, request);
    let gpus: Vec<(HostId, usize)> = cluster
        .host_ids()
        .flat_map(|host| scope.usable[host.index()].iter().map(move |gpu| (host, gpu)))
        .collect();
    if gpus.len() < job.gpus() {
        return None;
    }
    GpuMask::first(gpus.len())
        .subsets(job.gpus())
        .map(|subset| {
            Placement::new(subset.iter().map(|i| (gpus[i].0, GpuMask::single(gpus[i].1))))
        })
        .filter(|set| meets(set, request, job.tensor))
        .map(|set| {
            let slowest = |(host, mask): &(HostId, GpuMask)| {
                partitions(*mask, job.tensor)
                    .into_iter()
                    .map(|groups| {
                        let seconds = |group: GpuMask| {
                            let busbw = tensor.inside(*host, group);
                            job.tensor_traffic.seconds(Collective::AllReduce, job.tensor, busbw)
                        };
                        groups.into_iter().map(seconds).fold(0.0, f64::max)
                    })
                    .fold(f64::INFINITY, f64::min)
            };
            let inner = set.shares().iter().map(slowest).fold(0.0, f64::max);
            let ring = scene.effective(&set).effective;
            inner + job.data_traffic.seconds(Collective::AllReduce, job.data, ring)
        })
        .reduce(f64::min)
}

/// All ways to split a mask into groups of a size.
fn partitions(mask: GpuMask, size: usize) -> Vec<Vec<GpuMask>> {
    if mask.is_empty() {
        return vec![Vec::new()];
    }
    mask.subsets(size)
        .filter(|group| group.contains(mask.iter().next().unwrap()))
        .flat_map(|group| {
            let rest = partitions(mask.without(group), size);
            rest.into_iter().map(move |mut groups| {
                groups.push(group);
                groups
            })
        })
        .collect()
}

fn check(seed: u64) {
    let case = Case::random(seed);
    let expected = brute_force(&case);
    let Some(answer) = case.answer() else {
        assert_eq!(expected, None, "seed {seed}: refused although possible");
        return;
    };
    let best = expected.unwrap();
    let about = |a: f64, b: f64| (a - b).abs() <= 1e-9 * b.max(1e-6);
    assert!(about(answer.step.total(), best), "seed {seed}: {:?} {best}", answer.step);
    assert!(about(answer.lower_bound.unwrap(), best), "seed {seed}: {:?}", answer.lower_bound);
    assert_consistent(&case.scenario.cluster, &case.parallel, &answer);
}

/// The rank map is the placement, each group is where it belongs.
fn assert_consistent(cluster: &Cluster, parallel: &Parallel, answer: &ParallelAnswer) {
    let ranks = &answer.launch.ranks;
    assert_eq!(ranks.len(), parallel.gpus());
    let of_ranks = Placement::new(
        ranks.iter().map(|r| (cluster.find_host(&r.host).unwrap(), GpuMask::single(r.gpu))),
    );
    assert_eq!(of_ranks, answer.placement);
    assert_eq!(answer.placement.gpus(), parallel.gpus(), "a GPU twice");
    for (coordinates, rank) in answer.coordinates.iter().zip(ranks) {
        let first = answer.coordinates.iter().position(|other| {
            (other.pipeline, other.data, other.tensor)
                == (coordinates.pipeline, coordinates.data, 0)
        });
        assert_eq!(ranks[first.unwrap()].host, rank.host, "a tensor group across hosts");
    }
    let mut sorted: Vec<_> =
        answer.coordinates.iter().map(|c| (c.pipeline, c.data, c.tensor)).collect();
    sorted.sort_unstable();
    sorted.dedup();
    assert_eq!(sorted.len(), parallel.gpus());
}

#[test]
fn groups_equal_brute_force_on_fixed_seeds() {
    for seed in 0..3_000 {
        check(seed);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn groups_equal_brute_force(seed in any::<u64>()) {
        check(seed);
    }
}

/// 64 GPUs in 8 hosts, `free` of each.
fn sixty_four(free: [u64; 8]) -> (Cluster, ClusterState) {
    let cluster = ClusterBuilder::new("t")
        .host_type("h100", "H100", 8)
        .nvswitch()
        .rails(400.0)
        .hosts("h", 1, 8)
        .build();
    let mut state = ClusterState::idle(&cluster);
    for (mask, free) in state.free.iter_mut().zip(free) {
        *mask = GpuMask(free);
    }
    (cluster, state)
}

fn solve(cluster: &Cluster, state: &ClusterState, parallel: &Parallel) -> ParallelAnswer {
    solve_with(cluster, state, parallel, &Request::gpus(parallel.gpus()))
}

fn solve_with(
    cluster: &Cluster,
    state: &ClusterState,
    parallel: &Parallel,
    request: &Request,
) -> ParallelAnswer {
    let model = BandwidthModel::closed_form();
    let send_recv = model.for_collective(Collective::SendRecv);
    let models = Models { all_reduce: &model, send_recv: &send_recv };
    let given = Given { state, request, parallel };
    dispatch_parallel(cluster, models, given, AnswerOptions::default()).unwrap()
}

#[test]
fn tensor_groups_of_a_host_take_only_whole_hosts() {
    // Four whole hosts among holes; the flat view would be as fast with 6 + 7 + ...
    let (cluster, state) = sixty_four([0xff, 0x7f, 0xff, 0x3f, 0xff, 0x7e, 0xff, 0x0f]);
    let job = parallel(8, 1, 4);
    let answer = solve(&cluster, &state, &job);
    assert_eq!(answer.placement.display(&cluster), "h1:0-7,h3:0-7,h5:0-7,h7:0-7");
    assert_eq!(answer.gap, Some(0.0));
    assert_consistent(&cluster, &job, &answer);
    // One GPU of each host in a ring: one rail.
    assert!((answer.data.effective.unwrap() - 47.4).abs() < 1.0, "{:?}", answer.data);
    let ranks = &answer.launch.ranks;
    assert_eq!(
        (ranks[9].host.as_str(), ranks[9].gpu, ranks[9].nic.as_deref()),
        ("h3", 1, Some("nic1"))
    );
}

#[test]
fn ranks_of_a_ring_sit_on_the_same_rail() {
    let (cluster, state) = sixty_four([0xf0, 0xff, 0xfc, 0x07, 0xff, 0xf0, 0x03, 0x01]);
    let request = Request { hosts: Some(5), ..Request::gpus(20) };
    let answer = solve_with(&cluster, &state, &parallel(4, 1, 5), &request);
    for (coordinates, rank) in answer.coordinates.iter().zip(&answer.launch.ranks) {
        assert_eq!(rank.gpu, 4 + coordinates.tensor, "{}", answer.placement.display(&cluster));
    }
}

#[test]
fn pipelines_cross_hosts_where_rings_gain_more() {
    let (cluster, state) = sixty_four([0xff; 8]);
    let mut job = parallel(4, 2, 4);
    job.pipeline_traffic.messages = 1.0;
    let heavy_rings = solve(&cluster, &state, &job);
    assert!(heavy_rings.pipelines_cross_hosts);
    job.pipeline_traffic.messages = 500.0;
    let heavy_pipelines = solve(&cluster, &state, &job);
    assert!(!heavy_pipelines.pipelines_cross_hosts);
    for answer in [&heavy_rings, &heavy_pipelines] {
        assert_consistent(&cluster, &job, answer);
    }
}

/// Calls `visit` with every way to fill the rooms of the hosts with what is left of each stage.
fn fill(
    at: usize,
    left: &mut Vec<usize>,
    room: &mut Vec<usize>,
    counts: &mut Vec<Vec<usize>>,
    visit: &mut dyn FnMut(&[Vec<usize>]),
) {
    let stages = left.len();
    let (host, stage) = (at / stages, at % stages);
    if host == room.len() {
        if left.iter().all(|l| *l == 0) {
            visit(counts);
        }
        return;
    }
    for take in 0..=left[stage].min(room[host]) {
        left[stage] -= take;
        room[host] -= take;
        counts[host][stage] = take;
        fill(at + 1, left, room, counts, visit);
        counts[host][stage] = 0;
        left[stage] += take;
        room[host] += take;
    }
}

/// For every way to give each host so many groups of each stage.
fn brute_force_of_stages(cluster: &Cluster, state: &ClusterState, job: &Parallel) -> f64 {
    let model = BandwidthModel::closed_form();
    let send_recv = model.for_collective(Collective::SendRecv);
    let ring = Predictor::new(&model, cluster, job.data_traffic.bytes);
    let tensor = Predictor::new(&model, cluster, job.tensor_traffic.bytes);
    let stage = Predictor::new(&send_recv, cluster, job.pipeline_traffic.bytes);
    let pair = |a: (u32, usize), b: (u32, usize)| {
        let at = |(host, gpu)| (HostId(host), GpuMask::single(gpu));
        stage.isolated(&Placement::new([at(a), at(b)]))
    };
    let seconds = |busbw| job.pipeline_traffic.seconds(Collective::SendRecv, 2, busbw);
    let (inside, crossing) = (seconds(pair((0, 0), (0, 1))), seconds(pair((0, 0), (1, 0))));
    let tensor = job.tensor_traffic.seconds(
        Collective::AllReduce,
        job.tensor,
        tensor.inside(HostId(0), GpuMask::first(job.tensor)),
    );
    let mut best = f64::INFINITY;
    let mut counts = vec![vec![0; job.pipeline]; cluster.hosts.len()];
    let mut visit = |counts: &[Vec<usize>]| {
        let even = counts.iter().all(|of_host| of_host.iter().all(|c| *c == of_host[0]));
        let rings = (0..job.pipeline).map(|stage| {
            let ranks = counts
                .iter()
                .enumerate()
                .map(|(host, of_host)| (HostId(host as u32), GpuMask::first(of_host[stage])));
            let busbw = ring.isolated(&Placement::new(ranks));
            job.data_traffic.seconds(Collective::AllReduce, job.data, busbw)
        });
        let pipeline = if even { inside } else { crossing };
        best = best.min(tensor + pipeline + rings.fold(0.0, f64::max));
    };
    let mut room: Vec<usize> = state.free.iter().map(|mask| mask.count() / job.tensor).collect();
    fill(0, &mut vec![job.data; job.pipeline], &mut room, &mut counts, &mut visit);
    best
}

#[test]
fn pipelines_are_bounded_and_mostly_best() {
    let mut rng = Pcg64::seed_from_u64(7);
    let (mut cases, mut best_found, mut proven) = (0, 0, 0);
    for _ in 0..400 {
        let cluster = ClusterBuilder::new("t")
            .host_type("h100", "H100", 8)
            .nvswitch()
            .rails(400.0)
            .hosts("h", 1, 4)
            .build();
        let mut state = ClusterState::idle(&cluster);
        for mask in &mut state.free {
            *mask = GpuMask::first(rng.random_range(2..=8));
        }
        let mut job =
            parallel(rng.random_range(1..=4), rng.random_range(2..=3), rng.random_range(1..=4));
        job.pipeline_traffic.messages = rng.random_range(0.0..40.0);
        let expected = brute_force_of_stages(&cluster, &state, &job);
        let model = BandwidthModel::closed_form();
        let send_recv = model.for_collective(Collective::SendRecv);
        let models = Models { all_reduce: &model, send_recv: &send_recv };
        let request = Request::gpus(job.gpus());
        let given = Given { state: &state, request: &request, parallel: &job };
        let Ok(answer) = dispatch_parallel(&cluster, models, given, AnswerOptions::default())
        else {
            assert!(expected.is_infinite(), "refused although possible: {job:?} {:?}", state.free);
            continue;
        };
        cases += 1;
        assert_consistent(&cluster, &job, &answer);
        let (total, bound) = (answer.step.total(), answer.lower_bound.unwrap());
        let tie = 1e-9 * expected;
        assert!(
            total >= expected - tie,
            "better than best: {total} {expected} {job:?} {:?}",
            state.free
        );
        assert!(
            bound <= expected + tie,
            "bound above best: {bound} {expected} {job:?} {:?}",
            state.free
        );
        best_found += usize::from(total <= expected + tie);
        proven += usize::from(bound >= total - tie);
    }
    println!("{cases} cases: best found in {best_found}, proven in {proven}");
    assert!(best_found * 100 >= cases * 90, "{best_found} of {cases}");
}

#[test]
fn no_step_is_longer_than_on_the_flat_view_or_harms_more_for_nothing() {
    let mut answered = 0;
    for seed in 0..1_500 {
        let mut case = Case::random(seed);
        let rng = &mut Pcg64::seed_from_u64(seed ^ 0xf1a7);
        case.parallel.pipeline = rng.random_range(2..=3);
        case.parallel.data = rng.random_range(1..=3);
        if rng.random_bool(0.3) {
            case.scenario.request.protect = Some(rng.random_range(0.0..0.5));
        }
        let Some(answer) = case.answer() else { continue };
        let Some(flat) = &answer.flat else { continue };
        let Some(step) = &flat.step else { continue };
        answered += 1;
        let tie = 1e-9 * step.total();
        let (own, other) = (answer.step.total(), step.total());
        assert!(own <= other + tie, "seed {seed}: {own} {other}");
        if own >= other - tie {
            let Scenario { cluster, state, model, .. } = &case.scenario;
            let predictor = Predictor::new(model, cluster, case.parallel.data_traffic.bytes);
            let scene = Scene::new(&predictor, &VirtualMerge, state);
            let (lost, least) = (scene.harm(&answer.placement), scene.harm(&flat.set.placement));
            assert!(lost <= least + 1e-6, "seed {seed}: {lost} {least}");
        }
    }
    assert!(answered > 200, "{answered}");
}
