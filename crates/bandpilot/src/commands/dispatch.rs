//! `bandpilot dispatch`.
//!
//! `request` and `groups` make a request of the arguments, `human` and `json` show the answer; a job with groups
//! has an answer of its own, in `parallel`.

mod groups;
mod human;
mod json;
mod parallel;
mod rank_map;
mod request;

use std::io::{self, Write};

use bandpilot_core::Collective;
use bandpilot_dispatch::{Answer, AnswerOptions, Compared, Instance, launch};
use bandpilot_model::Predictor;
use serde_json::Value;

use self::request::{Asked, Size};
use crate::cli::Dispatch;
use crate::commands::ground::{Deadline, Ground, Models, Remarks};
use crate::exit::Failure;
use crate::output::{Done, Output};

/// Chooses GPUs.
///
/// # Errors
/// If an argument or file is wrong, or the request cannot be met.
pub fn dispatch(args: &Dispatch) -> Result<Done, Failure> {
    let deadline = Deadline::from_now(args.deadline_ms);
    let groups = groups::read(args)?;
    if groups.is_some() && args.tradeoff.is_some() {
        let message = "jobs with --parallel are placed for the shortest step, not for a bandwidth of which a share could be given up";
        return Err(Failure::usage("--tradeoff", message, "leave out one of the two"));
    }
    let size = Size::read(args, groups.as_ref())?;
    let mut remarks = Remarks::new();
    let ground = Ground::read(&args.files, &mut remarks)?;
    let models = Models::read(&args.files.model, &ground.cluster, &mut remarks)?;
    let asked = Asked::read(args, size, &ground.cluster, &mut remarks)?;
    if let Some(groups) = groups {
        return parallel::dispatch(ground, &models, &asked, groups, &deadline, remarks);
    }
    let model = models.of(args.op, "--op", &mut remarks);
    let predictor = Predictor::new(&model, &ground.cluster, asked.request.bytes);
    let passed = || deadline.has_passed();
    let should_stop: Option<&dyn Fn() -> bool> =
        if deadline.is_given() { Some(&passed) } else { None };
    let options = AnswerOptions { should_stop, tradeoff: args.tradeoff };
    let (state, request) = (&ground.state, &asked.request);
    let mut answer = bandpilot_dispatch::dispatch(&predictor, state, request, options)
        .map_err(|impossible| asked.refuse(&impossible, &ground.cluster, state))?;
    let instances = instances(&predictor, &asked, &mut answer);
    let compared = bandpilot_dispatch::compare(&predictor, state, request, &rules(args))
        .map_err(|impossible| asked.refuse(&impossible, &ground.cluster, state))?;
    let output = Shown {
        asked,
        answer,
        instances,
        compared,
        collective: model.collective,
        model: model.description.clone(),
        ground,
        remarks: remarks.clone(),
    };
    Ok(Done { remarks, ..Done::ok(output) })
}

/// The instances of the chosen set; ranks are counted through them.
fn instances(predictor: &Predictor<'_>, asked: &Asked, answer: &mut Answer) -> Vec<Instance> {
    let Size::Instances { gpus, .. } = asked.size else { return Vec::new() };
    let all = bandpilot_dispatch::instances(predictor, &answer.chosen.placement, gpus);
    let in_order = all.iter().flat_map(|one| one.gpus.iter().map(|gpu| (one.host, gpu)));
    answer.launch = launch::in_order(predictor.cluster(), in_order);
    all
}

/// The rules to compare with, each once.
fn rules(args: &Dispatch) -> Vec<bandpilot_dispatch::Policy> {
    let mut rules = Vec::new();
    for rule in &args.compare {
        if !rules.contains(rule) {
            rules.push(*rule);
        }
    }
    rules
}

/// An answer with what it belongs to.
struct Shown {
    asked: Asked,
    answer: Answer,
    instances: Vec<Instance>,
    compared: Vec<Compared>,
    collective: Collective,
    model: String,
    ground: Ground,
    remarks: Remarks,
}

impl Shown {
    /// What a rule's set reaches, as a share of the chosen one's bandwidth.
    fn of_chosen(&self, rule: &Compared) -> Option<f64> {
        let chosen = self.answer.chosen.effective;
        (chosen > 0.0).then(|| rule.set.effective / chosen)
    }
}

impl Output for Shown {
    fn human(&self, w: &mut dyn Write) -> io::Result<()> {
        human::write(self, w)
    }

    fn json(&self) -> Value {
        json::value(self)
    }
}
