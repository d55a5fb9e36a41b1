//! What a submit says.

use std::io::{self, Write};

use bandpilot_core::Cluster;
use bandpilot_dispatch::Answer;
use bandpilot_manager::Fact;
use bandpilot_manager::exchange::Call;
use bandpilot_readers::hostlist;
use bandpilot_slurm::submit::Submission;
use bandpilot_slurm::submit::layout::{Component, Layout};
use bandpilot_slurm::submit::plan::{Planned, Start};
use bandpilot_slurm::submit::stock::{StockChoice, StockWorth};
use serde_json::{Map, Value, json};

use super::desk::{Decision, Desk};
use crate::commands::ground::Remarks;
use crate::commands::parts;
use crate::output::{Output, remarks_json};

/// Hosts that were left out, by partition, each with the reason.
pub struct Explained {
    pub left_out: Vec<(String, Vec<(String, String)>)>,
}

/// What stock Slurm would give.
pub enum StockShown {
    /// Hosts, and what sets of their GPUs are worth.
    Worth(StockChoice, StockWorth),
    /// It would not start the job, or that cannot be told: why.
    Refused(String),
}

/// A submit, or what would be one.
pub struct Shown {
    id: String,
    submission: Submission,
    /// True if the job's id was printed already.
    pub said: bool,
    dry_run: bool,
    planned: Vec<(Option<u32>, Planned)>,
    placed: Option<(String, Fact)>,
    calls: Vec<Call>,
    explained: Option<Explained>,
    stock: Option<StockShown>,
    cluster: Cluster,
    model: String,
    remarks: Remarks,
}

impl Shown {
    pub fn new(
        desk: &Desk<'_>,
        decision: &Decision,
        placed: Option<(String, Fact)>,
        calls: Vec<Call>,
        explained: Option<Explained>,
        stock: Option<StockShown>,
        remarks: &Remarks,
    ) -> Self {
        Self {
            id: decision.id.clone(),
            submission: desk.submission.clone(),
            said: false,
            dry_run: desk.args.dry_run,
            planned: decision.planned.clone(),
            placed,
            calls,
            explained,
            stock,
            cluster: desk.cluster.clone(),
            model: desk.model.description.clone(),
            remarks: remarks.clone(),
        }
    }

    /// The plan in a line.
    pub fn line(&self) -> String {
        let now = match self.placed.as_ref().map(|(_, fact)| fact) {
            Some(Fact::Runs { .. }) => Some("runs"),
            Some(Fact::Over { .. }) => Some("is over"),
            _ => None,
        };
        let line = lines(&self.planned, now);
        self.placed.as_ref().map_or(line.clone(), |(job, _)| format!("job {job}: {line}"))
    }
}

/// What sbatch prints.
pub fn submitted(w: &mut dyn Write, submission: &Submission, job: &str) -> io::Result<()> {
    match (submission.parsable, submission.quiet) {
        (true, _) => writeln!(w, "{job}"),
        (false, true) => Ok(()),
        (false, false) => writeln!(w, "Submitted batch job {job}"),
    }
}

/// The plan in a line.
pub fn plan_line(decision: &Decision) -> String {
    lines(&decision.planned, None)
}

/// `now`: what has become of it; else when it starts.
fn lines(planned: &[(Option<u32>, Planned)], now: Option<&str>) -> String {
    let (index, first) = &planned[0];
    let mut line = format!("{}, {}", gpus(&first.layout), bandwidth(&first.answer));
    let now = now.map_or_else(|| start(&first.start), ToOwned::to_owned);
    line = format!("{line}, {now}");
    if index.is_some() {
        let now = planned.iter().filter(|(_, task)| task.start == Start::Now).count();
        line = format!("{} tasks, {now} of them can start now; the first: {line}", planned.len());
    }
    line
}

fn gpus(layout: &Layout) -> String {
    let parts: Vec<String> =
        layout.plan.gpus.iter().map(|(host, mask)| format!("{host}:{mask}")).collect();
    parts.join(",")
}

fn bandwidth(answer: &Answer) -> String {
    if answer.chosen.placement.gpus() < 2 {
        return "a single GPU".to_owned();
    }
    let (low, high) = (answer.grounds.low, answer.grounds.high);
    format!("{:.1} GB/s ({low:.1} to {high:.1})", answer.chosen.effective)
}

fn start(start: &Start) -> String {
    match start {
        Start::Now => "can start now".to_owned(),
        Start::After { jobs, at_s } => {
            let jobs: Vec<String> = jobs.iter().map(ToString::to_string).collect();
            let until = at_s.map(|s| format!(" until {}", crate::output::time(s)));
            let nobody = jobs.is_empty();
            let whom = if nobody { "what is not free yet".to_owned() } else { jobs.join(", ") };
            format!("waits for {whom}{}", until.unwrap_or_default())
        }
    }
}

/// Words as a shell reads them.
pub fn quoted(argv: &[String]) -> String {
    let safe = |c: char| c.is_ascii_alphanumeric() || "-_=+:,./@%^".contains(c);
    let one = |word: &String| {
        if !word.is_empty() && word.chars().all(safe) {
            word.clone()
        } else {
            format!("'{}'", word.replace('\'', "'\\''"))
        }
    };
    argv.iter().map(one).collect::<Vec<_>>().join(" ")
}

impl Output for Shown {
    fn human(&self, w: &mut dyn Write) -> io::Result<()> {
        match &self.placed {
            Some(_) if self.said => {}
            Some((job, _)) => submitted(w, &self.submission, job)?,
            None => writeln!(w, "plan        {}", self.line())?,
        }
        if self.dry_run {
            for call in &self.calls {
                for (key, value) in &call.env {
                    writeln!(w, "environment {key}={}", quoted(std::slice::from_ref(value)))?;
                }
                let from = if call.stdin.is_empty() {
                    ""
                } else {
                    " < (the script without its #SBATCH lines)"
                };
                writeln!(w, "command     {}{from}", quoted(&call.argv))?;
            }
        }
        if let Some(explained) = &self.explained {
            self.write_explained(w, explained)?;
        }
        match &self.stock {
            None => Ok(()),
            Some(StockShown::Refused(why)) => writeln!(w, "stock Slurm {why}"),
            Some(StockShown::Worth(choice, worth)) => {
                let hosts = hostlist::compress(choice.hosts.iter().map(String::as_str));
                let sets = worth.sets.map_or("very many".to_owned(), |sets| sets.to_string());
                writeln!(
                    w,
                    "stock Slurm {hosts}: {:.1} GB/s on average, {:.1} to {:.1}, over {} of the {sets} sets that it could give there",
                    worth.mean, worth.least, worth.best, worth.valued
                )
            }
        }
    }

    fn json(&self) -> Value {
        let first = &self.planned[0].1;
        let (job, fact) = match &self.placed {
            Some((job, fact)) => (Some(job), Some(fact)),
            None => (None, None),
        };
        let mut value = planned_json(first, &self.cluster);
        let more = json!({
            "planned": true,
            "plan": self.id,
            "job": job,
            "state": fact.map(state),
            "tasks": self.planned.iter().filter_map(|(index, task)| Some((*index)?).map(|index| {
                let mut value = planned_json(task, &self.cluster);
                value["index"] = Value::from(index);
                value
            })).collect::<Vec<_>>(),
            "model": self.model,
            "commands": self.calls.iter().map(call_json).collect::<Vec<_>>(),
            "left_out": self.explained.as_ref().map(left_out),
            "stock": self.stock.as_ref().map(stock_json),
            "diagnostics": remarks_json(&self.remarks),
        });
        if let (Value::Object(value), Value::Object(more)) = (&mut value, more) {
            value.extend(more);
        }
        value
    }
}

impl Shown {
    fn write_explained(&self, w: &mut dyn Write, explained: &Explained) -> io::Result<()> {
        let answer = &self.planned[0].1.answer;
        parts::write_worth(w, &answer.chosen, &answer.grounds)?;
        if answer.chosen.placement.gpus() > 1 {
            parts::write_certificate(w, answer, "")?;
        }
        for (partition, hosts) in &explained.left_out {
            for (names, why) in hosts {
                writeln!(w, "left out    {names}: {why} (partition {partition})")?;
            }
        }
        Ok(())
    }
}

fn state(fact: &Fact) -> Value {
    match fact {
        Fact::Waits(why) => json!({"state": "waits", "reason": why}),
        Fact::Runs { .. } => json!({"state": "runs", "reason": null}),
        Fact::Over { state, .. } => json!({"state": "over", "reason": state}),
        Fact::Unknown => json!({"state": "unknown", "reason": null}),
    }
}

fn planned_json(planned: &Planned, cluster: &Cluster) -> Value {
    let Planned { layout, answer, start, remarks } = planned;
    let gpus = layout.plan.gpus.iter();
    let (jobs, at_s) = match start {
        Start::Now => (Vec::new(), None),
        Start::After { jobs, at_s } => (jobs.clone(), *at_s),
    };
    json!({
        "gpus": gpus.map(|(host, mask)| {
            json!({"host": host, "gpus": mask.iter().collect::<Vec<_>>()})
        }).collect::<Vec<_>>(),
        "whole_hosts": layout.plan.whole_hosts,
        "partition": layout.partition,
        "components": layout.components.iter().map(component_json).collect::<Vec<_>>(),
        "starts_now": *start == Start::Now,
        "after_jobs": jobs,
        "after_s": at_s,
        "isolated_gbytes_per_s": answer.chosen.isolated,
        "effective_gbytes_per_s": answer.chosen.effective,
        "low_gbytes_per_s": answer.grounds.low,
        "high_gbytes_per_s": answer.grounds.high,
        "upper_bound_gbytes_per_s": answer.upper_bound,
        "gap": answer.gap,
        "bottleneck": answer.grounds.bottleneck,
        "harm": answer.harm.iter().map(|harm| json!({
            "job": harm.job,
            "before_gbytes_per_s": harm.before,
            "after_gbytes_per_s": harm.after,
        })).collect::<Vec<_>>(),
        "placement": answer.chosen.placement.display(cluster),
        "remarks": remarks,
    })
}

fn component_json(component: &Component) -> Value {
    json!({
        "hosts": component.hosts,
        "gpus": component.gpus.iter().collect::<Vec<_>>(),
        "gres": component.gres(),
        "tasks_per_host": component.tasks_per_host,
        "cpus_per_task": component.cpus_per_task,
        "memory_mib_per_host": component.memory_mib_per_host,
    })
}

fn call_json(call: &Call) -> Value {
    let env: Map<String, Value> =
        call.env.iter().map(|(key, value)| (key.clone(), Value::from(value.as_str()))).collect();
    json!({"argv": call.argv, "environment": env})
}

fn left_out(explained: &Explained) -> Value {
    let all = explained.left_out.iter().flat_map(|(partition, hosts)| {
        hosts
            .iter()
            .map(move |(names, why)| json!({"partition": partition, "hosts": names, "reason": why}))
    });
    Value::from(all.collect::<Vec<_>>())
}

fn stock_json(stock: &StockShown) -> Value {
    match stock {
        StockShown::Refused(why) => json!({"refused": why}),
        StockShown::Worth(choice, worth) => json!({
            "hosts": choice.hosts,
            "partition": choice.partition,
            "start_s": choice.at_s,
            "sets": worth.sets,
            "valued": worth.valued,
            "least_gbytes_per_s": worth.least,
            "mean_gbytes_per_s": worth.mean,
            "best_gbytes_per_s": worth.best,
        }),
    }
}
