//! The placement with the least communication time of a step.

use bandpilot_core::{Cluster, Collective, GpuMask, HostId, Placement, Request};
use bandpilot_model::{Aggregate, Evidence, Groups, Prediction, Predictor, Traffic, VirtualMerge};

use super::ranks::{Coordinates, Group, Layout};
use super::{FlatView, Given, GroupBandwidth, Models, ParallelAnswer, StepTime};
use crate::answer::{self, AnswerOptions, Valued, bottleneck_name};
use crate::launch;
use crate::limits::{self, Limits};
use crate::scene::Scene;
use crate::scope::{self, Impossible, Scope};
use crate::search::{NotFound, SearchOptions, search};

/// A complete plan with what it is worth.
struct Plan {
    layout: Layout,
    placement: Placement,
    step: StepTime,
    data: GroupBandwidth,
    crosses: bool,
}

/// What a way to place the job came to.
struct Tried {
    plan: Option<Plan>,
    /// No plan of this kind takes less, seconds; infinite if there is none, 0 if nothing is known.
    lower_bound: f64,
    steps: u64,
}

impl Tried {
    const IMPOSSIBLE: Self = Self { plan: None, lower_bound: f64::INFINITY, steps: 0 };
}

/// What all searches of one request have in common.
struct Ground<'a> {
    cluster: &'a Cluster,
    models: Models<'a>,
    given: Given<'a>,
    /// `all_reduce` of tensor groups.
    tensor: Predictor<'a>,
    /// `sendrecv` of pipeline neighbours.
    stage: Predictor<'a>,
    /// `all_reduce` of all ranks at the size of the data-parallel messages.
    flat: Predictor<'a>,
}

/// Chooses GPUs for a job with groups.
///
/// # Errors
/// If no set meets the request: the constraint that binds and what would be possible.
pub fn dispatch_parallel(
    cluster: &Cluster,
    models: Models<'_>,
    given: Given<'_>,
    options: AnswerOptions<'_>,
) -> Result<ParallelAnswer, Impossible> {
    let parallel = given.parallel;
    let bytes = |traffic: Traffic| traffic.bytes.max(1);
    let ground = Ground {
        cluster,
        models,
        given,
        tensor: Predictor::new(models.all_reduce, cluster, bytes(parallel.tensor_traffic)),
        stage: Predictor::new(models.send_recv, cluster, bytes(parallel.pipeline_traffic)),
        flat: Predictor::new(models.all_reduce, cluster, bytes(parallel.data_traffic)),
    };
    ground.answer(options)
}

impl Ground<'_> {
    fn answer(&self, options: AnswerOptions<'_>) -> Result<ParallelAnswer, Impossible> {
        let request = Request {
            gpus: self.given.parallel.gpus(),
            multiple_of: self.given.parallel.tensor,
            ..self.given.request.clone()
        };
        let scope = scope::check(self.cluster, self.given.state, &request)
            .map_err(|refusal| self.rename(refusal))?;
        let flat_scene = Scene::new(&self.flat, &VirtualMerge, self.given.state);
        let limits = Limits::new(&flat_scene, &scope, &request);
        let allowed = |set: &Placement| limits.is_none() || limits.allow(set);
        let mut search_options = SearchOptions { allowed: &allowed, ..SearchOptions::default() };
        if let Some(should_stop) = options.should_stop {
            search_options.should_stop = should_stop;
            search_options.most_steps = u64::MAX;
        }
        let inside = self.pipelines_inside(&scope, &search_options);
        let across = self.pipelines_across(&scope, &search_options);
        let lower_bound = inside.lower_bound.min(across.lower_bound);
        let mut steps = inside.steps + across.steps;
        let flat = self.flat_set(&flat_scene, 1, &search_options, &mut steps);
        let flat_plan = flat
            .as_ref()
            .and_then(|set| self.layout_on(&set.placement, &search_options, &mut steps));
        let flat_step = flat_plan.as_ref().map(|plan| plan.step);
        // Stages that were searched by themselves know no constraint on the whole, and not what running jobs lose. So
        // whole sets that keep to these are laid out as well. Without pipelines the search has seen all of them.
        let mut whole: Vec<Placement> = Vec::new();
        if self.given.parallel.pipeline > 1 {
            let unit = request.multiple_of;
            let in_groups = self.flat_set(&flat_scene, unit, &search_options, &mut steps);
            let flat = flat.as_ref().map(|set| &set.placement);
            whole.extend(inside.plan.as_ref().map(|plan| plan.placement.clone()));
            whole.extend(in_groups.map(|set| set.placement));
            whole.dedup();
            whole.retain(|set| Some(set) != flat);
        }
        let others: Vec<Plan> = whole
            .iter()
            .filter_map(|set| self.layout_on(set, &search_options, &mut steps))
            .collect();
        let harm = |plan: &Plan| flat_scene.harm(&plan.placement);
        let plan = [inside.plan, across.plan, flat_plan]
            .into_iter()
            .flatten()
            .chain(others)
            .reduce(|best, other| if better(&other, &best, harm) { other } else { best })
            .ok_or_else(|| limits.refusal(lower_bound.is_infinite()).unwrap_or_else(no_layout))?;
        let total = plan.step.total();
        let lower_bound = (lower_bound > 0.0).then_some(lower_bound.min(total));
        let ranks = plan.layout.ranks();
        let spares = limits::spare_hosts(&flat_scene, &scope, &plan.placement);
        Ok(ParallelAnswer {
            tensor: self.tensor_bandwidth(&plan.layout),
            pipeline: self.pipeline_bandwidth(&plan),
            lower_bound,
            gap: lower_bound.map(|bound| if total > 0.0 { (total - bound) / total } else { 0.0 }),
            order: plan.layout.order,
            coordinates: ranks.iter().map(|(at, ..)| *at).collect::<Vec<Coordinates>>(),
            harm: answer::harm(&flat_scene, self.given.state, &plan.placement),
            spares: Placement::new(spares.into_iter().take(request.spare_hosts)),
            flat: flat.map(|set| FlatView { set, step: flat_step }),
            launch: launch::in_order(
                self.cluster,
                ranks.iter().map(|(_, host, gpu)| (*host, *gpu)),
            ),
            steps,
            step: plan.step,
            data: plan.data,
            pipelines_cross_hosts: plan.crosses,
            placement: plan.placement,
        })
    }

    /// The option that a user would change is `--parallel`.
    fn rename(&self, refusal: Impossible) -> Impossible {
        if refusal.constraint != "gpus-per-instance" {
            return refusal;
        }
        let tensor = self.given.parallel.tensor;
        Impossible {
            constraint: "parallel",
            message: format!(
                "{} tensor groups of {tensor} GPUs inside hosts were asked for; {}",
                self.given.parallel.gpus() / tensor.max(1),
                refusal.message
            ),
            possible: refusal.possible,
        }
    }

    fn groups(&self, stages: usize, outside_seconds: f64) -> Groups<'_> {
        let parallel = self.given.parallel;
        Groups {
            tensor: parallel.tensor,
            tensor_traffic: parallel.tensor_traffic,
            tensor_predictor: &self.tensor,
            stages,
            stage_traffic: parallel.pipeline_traffic,
            stage_predictor: &self.stage,
            ring_ranks: parallel.data,
            ring_traffic: Traffic {
                bytes: parallel.data_traffic.bytes.max(1),
                ..parallel.data_traffic
            },
            outside_seconds,
        }
    }

    /// Every pipeline inside one host.
    fn pipelines_inside(&self, usable: &Scope, options: &SearchOptions<'_>) -> Tried {
        let parallel = self.given.parallel;
        let groups = self.groups(parallel.pipeline, 0.0);
        let predictor = Predictor::with_groups(self.models.all_reduce, self.cluster, groups);
        let scene = Scene::new(&predictor, &VirtualMerge, self.given.state);
        let scope = Scope { unit: groups.unit(), ..usable.clone() };
        let request = Request {
            gpus: parallel.gpus(),
            multiple_of: groups.unit(),
            ..self.given.request.clone()
        };
        if scope.host_counts(&request).is_empty() {
            return Tried::IMPOSSIBLE;
        }
        let outcome = match search(&scene, &scope, &request, options) {
            Ok(outcome) => outcome,
            Err(NotFound { proven: true }) => return Tried::IMPOSSIBLE,
            Err(_) => return Tried { plan: None, lower_bound: 0.0, steps: 0 },
        };
        let set = outcome.best.placement;
        let pipelines: Vec<Vec<Group>> = set
            .shares()
            .iter()
            .flat_map(|(host, mask)| {
                let of_host = groups.split(*host, *mask);
                let pipelines = of_host.chunks(parallel.pipeline);
                pipelines
                    .map(|stages| stages.iter().map(|group| (*host, *group)).collect())
                    .collect::<Vec<Vec<Group>>>()
            })
            .collect();
        let worth = scene.effective(&set);
        let layout = Layout::of_pipelines(&pipelines, parallel);
        let tensor = self.tensor_seconds(&layout);
        let step = StepTime {
            tensor,
            pipeline: (worth.inner_seconds - tensor).max(0.0),
            data: self.ring_seconds(worth.effective),
        };
        let data = ring_bandwidth(&predictor, &set, worth.isolated, worth.effective);
        Tried {
            lower_bound: outcome.upper_bound.map_or(0.0, |most| 1.0 / most),
            steps: outcome.steps,
            plan: Some(Plan { layout, placement: set, step, data, crosses: false }),
        }
    }

    /// Some pipeline crosses hosts: each stage by itself.
    fn pipelines_across(&self, usable: &Scope, options: &SearchOptions<'_>) -> Tried {
        let parallel = self.given.parallel;
        if parallel.pipeline < 2 {
            return Tried::IMPOSSIBLE;
        }
        let groups = self.groups(1, self.least_crossing_seconds(&usable.usable));
        let predictor = Predictor::with_groups(self.models.all_reduce, self.cluster, groups);
        let scene = Scene::new(&predictor, &VirtualMerge, self.given.state);
        let mut scope = Scope { unit: groups.unit(), ..usable.clone() };
        // Constraints on the whole set are looked at when it is complete.
        let request = Request {
            gpus: parallel.tensor * parallel.data,
            multiple_of: groups.unit(),
            uniform: false,
            hosts: None,
            max_hosts: None,
            ..self.given.request.clone()
        };
        let stage_options = SearchOptions { allowed: &|_| true, ..*options };
        let mut tried = Tried { plan: None, lower_bound: 0.0, steps: 0 };
        let mut sets: Vec<Placement> = Vec::new();
        for _ in 0..parallel.pipeline {
            if scope.host_counts(&request).is_empty() {
                return tried;
            }
            let Ok(outcome) = search(&scene, &scope, &request, &stage_options) else {
                return tried;
            };
            if sets.is_empty() {
                tried.lower_bound = outcome.upper_bound.map_or(0.0, |most| 1.0 / most);
            }
            tried.steps += outcome.steps;
            let set = outcome.best.placement;
            for (host, mask) in set.shares() {
                scope.usable[host.index()] = scope.usable[host.index()].without(*mask);
                if let Some(most) = scope.most.get_mut(host.index()) {
                    *most -= mask.count();
                }
            }
            sets.push(set);
        }
        let whole = Placement::new(sets.iter().flat_map(|set| set.shares().iter().copied()));
        let asked = Request { gpus: parallel.gpus(), multiple_of: 1, ..self.given.request.clone() };
        if answer::meets(&whole, &asked) && (options.allowed)(&whole) {
            tried.plan = self.plan_of_stages(&scene, &groups, &sets, whole);
        }
        tried
    }

    fn plan_of_stages(
        &self,
        scene: &Scene<'_>,
        groups: &Groups<'_>,
        sets: &[Placement],
        whole: Placement,
    ) -> Option<Plan> {
        let of_stage = |set: &Placement| -> Vec<Group> {
            set.shares()
                .iter()
                .flat_map(|(host, mask)| {
                    groups.split(*host, *mask).into_iter().map(move |group| (*host, group))
                })
                .collect()
        };
        let layout = Layout::of_stages(sets.iter().map(of_stage).collect());
        // Rings of stages that share a host share its NICs where these are fewer than the GPUs.
        let rings: Vec<(&Placement, f64, f64)> = sets
            .iter()
            .map(|set| {
                let worth = scene.effective(set);
                let shared = self.sharing(set, &whole);
                (set, worth.isolated / shared, worth.effective / shared)
            })
            .collect();
        let slowest = rings.iter().min_by(|a, b| a.2.total_cmp(&b.2));
        let &(set, isolated, effective) = slowest?;
        let left = if isolated > 0.0 { effective / isolated } else { 1.0 };
        let step = StepTime {
            tensor: self.tensor_seconds(&layout),
            pipeline: self.pipeline_seconds(&layout, &whole) / left.max(1e-9),
            data: self.ring_seconds(effective),
        };
        let data = ring_bandwidth(scene.predictor(), set, isolated, effective);
        Some(Plan { layout, placement: whole, step, data, crosses: true })
    }

    /// How much less NIC rate a GPU of the set has when all GPUs of the job send, as a factor of at least 1.
    fn sharing(&self, set: &Placement, whole: &Placement) -> f64 {
        set.shares()
            .iter()
            .map(|(host, mask)| {
                let alone = self.flat.share(*host, *mask).nic_per_gpu;
                alone / self.flat.share(*host, whole.on(*host)).nic_per_gpu
            })
            .fold(1.0, f64::max)
    }

    /// Least time that a pipeline which crosses hosts can take for it.
    fn least_crossing_seconds(&self, usable: &[GpuMask]) -> f64 {
        let model = self.models.send_recv;
        if !model.cross.is_empty() || !model.residual.points.is_empty() {
            // What was measured need not follow the NIC rates.
            return 0.0;
        }
        let mut shares: Vec<_> = usable
            .iter()
            .enumerate()
            .filter_map(|(host, free)| {
                let share = |gpu| self.stage.share(HostId(host as u32), GpuMask::single(gpu));
                free.iter().map(share).max_by(|a, b| a.nic_rate.total_cmp(&b.nic_rate))
            })
            .collect();
        shares.sort_by(|a, b| b.nic_rate.total_cmp(&a.nic_rate));
        let Some([_, second]) = shares.first_chunk::<2>() else { return 0.0 };
        let best = Aggregate::EMPTY.with(second, 2);
        let busbw = self.stage.cross(&Aggregate { ring_plateau: f64::INFINITY, ..best });
        self.given.parallel.pipeline_traffic.seconds(Collective::SendRecv, 2, busbw)
    }

    fn tensor_seconds(&self, layout: &Layout) -> f64 {
        let busbw = self.slowest_group(layout).map_or(0.0, |(_, busbw)| busbw);
        let parallel = self.given.parallel;
        parallel.tensor_traffic.seconds(Collective::AllReduce, parallel.tensor, busbw)
    }

    fn slowest_group(&self, layout: &Layout) -> Option<(Group, f64)> {
        let groups = layout.stages.iter().flatten();
        groups
            .map(|(host, mask)| ((*host, *mask), self.tensor.inside(*host, *mask)))
            .min_by(|a, b| a.1.total_cmp(&b.1))
    }

    fn ring_seconds(&self, busbw: f64) -> f64 {
        let parallel = self.given.parallel;
        parallel.data_traffic.seconds(Collective::AllReduce, parallel.data, busbw)
    }

    /// The slowest pair of pipeline neighbours, GB/s.
    fn slowest_neighbours(&self, layout: &Layout, whole: &Placement) -> Option<(Placement, f64)> {
        let stages = layout.stages.windows(2);
        let pairs = stages.flat_map(|pair| pair[0].iter().zip(&pair[1]));
        let links = pairs.flat_map(|((from, a), (to, b))| {
            a.iter()
                .zip(b.iter())
                .map(|(a, b)| {
                    let ends = [(*from, GpuMask::single(a)), (*to, GpuMask::single(b))];
                    let busbw = self.stage.isolated(&Placement::new(ends));
                    let shared = if from == to { 1.0 } else { self.shared_nics(&ends, whole) };
                    (Placement::new(ends), busbw / shared)
                })
                .collect::<Vec<_>>()
        });
        links.min_by(|a, b| a.1.total_cmp(&b.1))
    }

    fn shared_nics(&self, ends: &[(HostId, GpuMask)], whole: &Placement) -> f64 {
        let shared = |(host, mask): &(HostId, GpuMask)| {
            self.stage.share(*host, *mask).nic_rate
                / self.stage.share(*host, whole.on(*host)).nic_per_gpu
        };
        ends.iter().map(shared).fold(1.0, f64::max)
    }

    fn pipeline_seconds(&self, layout: &Layout, whole: &Placement) -> f64 {
        let slowest = self.slowest_neighbours(layout, whole);
        let traffic = self.given.parallel.pipeline_traffic;
        slowest.map_or(0.0, |(_, busbw)| traffic.seconds(Collective::SendRecv, 2, busbw))
    }

    fn tensor_bandwidth(&self, layout: &Layout) -> GroupBandwidth {
        let slowest = self.slowest_group(layout).filter(|_| self.given.parallel.tensor > 1);
        let Some(((host, mask), busbw)) = slowest else { return nothing_exchanged() };
        let set = Placement::new([(host, mask)]);
        let prediction = self.tensor.predict(&set);
        group_bandwidth(&self.tensor, &set, &prediction, busbw, busbw)
    }

    fn pipeline_bandwidth(&self, plan: &Plan) -> GroupBandwidth {
        let Some((set, busbw)) = self.slowest_neighbours(&plan.layout, &plan.placement) else {
            return nothing_exchanged();
        };
        let prediction = self.stage.predict(&set);
        let left = match (plan.data.isolated, plan.data.effective) {
            (Some(isolated), Some(effective)) if plan.crosses && isolated > 0.0 => {
                effective / isolated
            }
            _ => 1.0,
        };
        group_bandwidth(&self.stage, &set, &prediction, busbw, busbw * left)
    }

    /// What plain dispatch would take, with a multiple of `unit` GPUs on each host.
    fn flat_set(
        &self,
        scene: &Scene<'_>,
        unit: usize,
        options: &SearchOptions<'_>,
        steps: &mut u64,
    ) -> Option<Valued> {
        let request = Request {
            gpus: self.given.parallel.gpus(),
            multiple_of: unit,
            ..self.given.request.clone()
        };
        let scope = Scope::new(self.cluster, self.given.state, &request);
        if scope.host_counts(&request).is_empty() {
            return None;
        }
        let outcome = search(scene, &scope, &request, options).ok()?;
        *steps += outcome.steps;
        Some(answer::valued(outcome.best))
    }

    /// The best layout on just these GPUs, if the groups fit into them.
    fn layout_on(
        &self,
        set: &Placement,
        options: &SearchOptions<'_>,
        steps: &mut u64,
    ) -> Option<Plan> {
        let only = self.cluster.host_ids().map(|host| set.on(host)).collect();
        let only = Scope::of(only, 1);
        // The set as a whole is allowed already.
        let options = SearchOptions { allowed: &|_| true, ..*options };
        let inside = self.pipelines_inside(&only, &options);
        let across = self.pipelines_across(&only, &options);
        *steps += inside.steps + across.steps;
        let plans = inside.plan.into_iter().chain(across.plan);
        plans.reduce(|best, other| if better(&other, &best, |_| 0.0) { other } else { best })
    }
}

/// A shorter step, else less harm to running jobs, else fewer hosts.
fn better(a: &Plan, b: &Plan, harm: impl Fn(&Plan) -> f64) -> bool {
    let (step, other) = (a.step.total(), b.step.total());
    if (step - other).abs() > 1e-9 * other {
        return step < other;
    }
    let (lost, other) = (harm(a), harm(b));
    if (lost - other).abs() > 1e-9 {
        return lost < other;
    }
    a.placement.hosts() < b.placement.hosts()
}

fn no_layout() -> Impossible {
    Impossible {
        constraint: "parallel",
        message: "no set that holds the groups was found".to_owned(),
        possible: "drop --hosts, --max-hosts or --uniform, give a longer --deadline-ms, or use \
                   smaller groups"
            .to_owned(),
    }
}

fn nothing_exchanged() -> GroupBandwidth {
    GroupBandwidth {
        isolated: None,
        effective: None,
        band: 0.0,
        evidence: Evidence::ClosedForm,
        bottleneck: "none: nothing is exchanged".to_owned(),
    }
}

fn group_bandwidth(
    predictor: &Predictor<'_>,
    set: &Placement,
    prediction: &Prediction,
    isolated: f64,
    effective: f64,
) -> GroupBandwidth {
    GroupBandwidth {
        isolated: Some(isolated),
        effective: Some(effective),
        band: prediction.band,
        evidence: prediction.evidence,
        bottleneck: bottleneck_name(predictor, set, &prediction.bottleneck),
    }
}

fn ring_bandwidth(
    predictor: &Predictor<'_>,
    set: &Placement,
    isolated: f64,
    effective: f64,
) -> GroupBandwidth {
    if predictor.groups().is_some_and(|groups| groups.ring_ranks < 2) {
        return nothing_exchanged();
    }
    group_bandwidth(predictor, set, &predictor.predict(set), isolated, effective)
}
