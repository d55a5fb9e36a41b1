//! A job, its plans and how they are handed over.

use bandpilot_core::{Cluster, Request};
use bandpilot_manager::Fact;
use bandpilot_manager::audit::{
    Entry, HostGpus, Planned as PlannedEntry, Predicted, Seen, Start as Starts, What, task_id,
};
use bandpilot_manager::exchange::Runner;
use bandpilot_model::Predictor;
use bandpilot_model::model::BandwidthModel;
use bandpilot_readers::Diagnostic;
use bandpilot_slurm::adapter::{Order, Parts};
use bandpilot_slurm::site::Site;
use bandpilot_slurm::submit::Submission;
use bandpilot_slurm::submit::array::plan_array;
use bandpilot_slurm::submit::plan::{Given, Planned, Start, plan};
use bandpilot_slurm::submit::{Refused, RefusedKind};
use bandpilot_slurm::{Host, Observed, Snapshot};

use super::{hints, look, new_id};
use crate::cli::Submit;
use crate::commands::ground::{self, Models, Remarks};
use crate::exit::{Code, Failure};

/// A job with what its plans rest on.
pub struct Desk<'a> {
    pub args: &'a Submit,
    pub submission: Submission,
    pub cluster: Cluster,
    pub model: BandwidthModel,
    pub user: String,
    wishes: Request,
}

/// What was decided at one moment.
pub struct Decision {
    /// Id of the plan, of the whole array for an array.
    pub id: String,
    /// The job, or the tasks of an array by index.
    pub planned: Vec<(Option<u32>, Planned)>,
    /// When the snapshot was taken, seconds since 1970.
    pub snapshot_at_s: i64,
}

impl Decision {
    /// The plan of the job; of the first task for an array.
    pub fn first(&self) -> &Planned {
        &self.planned[0].1
    }

    /// True if all of it can start now.
    pub fn starts_now(&self) -> bool {
        self.planned.iter().all(|(_, planned)| planned.start == Start::Now)
    }
}

impl<'a> Desk<'a> {
    /// Reads the files that plans rest on.
    ///
    /// # Errors
    /// If none is named or one is wrong.
    pub fn new(
        args: &'a Submit,
        submission: Submission,
        remarks: &mut Remarks,
    ) -> Result<Self, Failure> {
        let Some(path) = &args.cluster else {
            let help = "name it with --cluster or BANDPILOT_CLUSTER ('bandpilot cluster import' makes one)";
            return Err(Failure::usage("--cluster", "a plan needs a cluster file", help));
        };
        let cluster = ground::cluster(path, remarks)?;
        let models = Models::read(&args.model, &cluster, remarks)?;
        let model = models.of(args.op, "--op", remarks);
        let set = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
        let user = set("USER").or_else(|| set("LOGNAME")).unwrap_or_default();
        let wishes = Request {
            min_busbw_gbytes_per_s: args.min_busbw,
            protect: args.protect,
            bytes: args.bytes,
            ..Request::gpus(1)
        };
        Ok(Self { args, submission, cluster, model, user, wishes })
    }

    /// True if the user has planned himself: the GPUs are named by the types of their indexes.
    ///
    /// # Errors
    /// If several types are named that are not all of this kind.
    pub fn names_its_gpus(&self, snapshot: &Snapshot) -> Result<bool, Failure> {
        let index =
            |host: &Host, name: &str| host.names_gpus() && !host.gpus_of_kind(name).is_empty();
        let is_index = |name: &str| snapshot.hosts.iter().any(|host| index(host, name));
        self.submission
            .is_planned_by_user(is_index)
            .map_err(|reason| Failure { code: Code::Usage, reasons: vec![reason] })
    }

    /// Plans the job on what Slurm has. `id` is that of the new plan; `own` is the job that it would take the place of.
    ///
    /// # Errors
    /// If it cannot be planned.
    pub fn decide(
        &self,
        seen: &Observed,
        site: &Site,
        id: &str,
        own: Option<&str>,
    ) -> Result<Decision, Failure> {
        let others = own.map(|own| without(&seen.snapshot, own));
        let snapshot = others.as_ref().unwrap_or(&seen.snapshot);
        let ask = &self.submission.ask;
        let planned = self.with_given(snapshot, site, id, |given| match ask.array {
            None => plan(given, ask).map(|planned| vec![(None, planned)]),
            Some(_) => plan_array(given, ask)
                .map(|tasks| tasks.into_iter().map(|(index, task)| (Some(index), task)).collect()),
        });
        let planned = planned.map_err(|refused| self.refusal(&refused))?;
        Ok(Decision { id: id.to_owned(), planned, snapshot_at_s: snapshot.taken_at_s })
    }

    /// Asks the planner something.
    pub fn with_given<T>(
        &self,
        snapshot: &Snapshot,
        site: &Site,
        plan_id: &str,
        ask: impl FnOnce(&Given<'_>) -> T,
    ) -> T {
        let predictor = Predictor::new(&self.model, &self.cluster, self.args.bytes);
        let wishes = &self.wishes;
        ask(&Given { snapshot, site, predictor: &predictor, wishes, plan_id, should_stop: None })
    }

    /// Another decision, if it would start a job now that waits for other GPUs.
    ///
    /// # Errors
    /// If Slurm does not answer.
    pub fn better(
        &self,
        runner: &mut dyn Runner,
        decision: &Decision,
        job: &str,
    ) -> Result<Option<(Decision, Observed)>, Failure> {
        let (site, seen) = look(runner, &mut Remarks::new())?;
        // What cannot be planned now stays where it is.
        let next = self.decide(&seen, &site, &new_id(), Some(job)).ok();
        let same =
            |next: &Decision| next.first().layout.plan.gpus == decision.first().layout.plan.gpus;
        let next = next.filter(|next| next.starts_now() && !same(next));
        Ok(next.map(|next| (next, seen)))
    }

    /// What is to be written down of what Slurm says of a job; nothing while it waits.
    pub fn judged(&self, decision: &Decision, job: &str, fact: &Fact) -> Option<Seen> {
        let (index, planned) = &decision.planned[0];
        self.entry(*index, planned, decision.snapshot_at_s).judge(job, fact)
    }

    /// Why the planner refused.
    pub fn refusal(&self, refused: &Refused) -> Failure {
        let code = match refused.kind {
            RefusedKind::Options | RefusedKind::NamesGpus => Code::Usage,
            RefusedKind::Impossible => Code::Impossible,
        };
        let first = Diagnostic::error("", refused.message.clone()).help(refused.possible.clone());
        let mut failure = Failure::new(code, &format!("--{}", refused.constraint), first);
        let program = self.submission.program.name();
        failure.reasons.extend(refused.hosts.iter().map(|(hosts, why)| {
            (program.to_owned(), Diagnostic::note("", format!("{hosts}: {why}")))
        }));
        failure
    }

    /// A decision in Slurm's words.
    pub fn order(&self, decision: &Decision) -> Order {
        let layouts: Vec<_> = decision
            .planned
            .iter()
            .map(|(index, planned)| (*index, planned.layout.clone()))
            .collect();
        let hints = hints::of(&self.cluster, layouts.iter().map(|(_, layout)| layout));
        let parts =
            match layouts.into_iter().map(|(index, layout)| Some((index?, layout))).collect() {
                Some(tasks) => Parts::Array { id: decision.id.clone(), tasks },
                None => Parts::Job(decision.first().layout.clone()),
            };
        Order { submission: self.submission.clone(), hints, parts }
    }

    /// What the audit says of a decision.
    pub fn entries(&self, decision: &Decision, at_s: i64) -> Vec<Entry> {
        let one = |(index, planned): &(Option<u32>, Planned)| Entry {
            plan: index.map_or_else(|| decision.id.clone(), |task| task_id(&decision.id, task)),
            at_s,
            what: What::Plan(Box::new(self.entry(*index, planned, decision.snapshot_at_s))),
        };
        decision.planned.iter().map(one).collect()
    }

    fn entry(
        &self,
        array_task: Option<u32>,
        planned: &Planned,
        snapshot_at_s: i64,
    ) -> PlannedEntry {
        let Planned { layout, answer, start, .. } = planned;
        let ids = |jobs: &[u32]| jobs.iter().map(ToString::to_string).collect();
        PlannedEntry {
            user: self.user.clone(),
            program: self.submission.program.to_string(),
            asked: super::show::quoted(&self.submission.untouched.argv),
            gpus: HostGpus::list(&layout.plan.gpus, Some(&self.cluster)),
            whole_hosts: layout.plan.whole_hosts,
            start: match start {
                Start::Now => Starts::Now,
                Start::After { jobs, .. } => Starts::After(ids(jobs)),
            },
            predicted: (answer.chosen.placement.gpus() > 1).then_some(Predicted {
                gbytes_per_s: answer.chosen.effective,
                low: answer.grounds.low,
                high: answer.grounds.high,
            }),
            model: self.model.description.clone(),
            snapshot_at_s,
            array_task,
        }
    }
}

/// The snapshot as it is without a job and all its components.
fn without(snapshot: &Snapshot, own: &str) -> Snapshot {
    let mut rest = snapshot.clone();
    rest.jobs.retain(|job| {
        let leader = job.het.map_or(job.id, |het| het.leader);
        leader.to_string() != own
    });
    rest
}

/// What the audit says of a job that another decision takes the place of.
pub fn withdrawn(job: &str, next: &Decision) -> What {
    What::Withdrawn {
        job: job.to_owned(),
        why: "planned anew: other GPUs would start it".to_owned(),
        replaced_by: Some(next.id.clone()),
    }
}
