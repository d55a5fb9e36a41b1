//! `bandpilot dispatch`.

use std::io::{self, Write};
use std::time::{Duration, Instant};

use bandpilot_core::{
    Cluster, ClusterState, GpuMask, HostId, Placement, Request, format_bytes, parse_bytes,
};
use bandpilot_dispatch::answer::Valued;
use bandpilot_dispatch::{Answer, AnswerOptions, Impossible};
use bandpilot_model::model::BandwidthModel;
use bandpilot_model::{Evidence, Predictor};
use bandpilot_readers::{Diagnostic, placement, state_file};
use serde_json::{Map, Value, json};

use crate::cli::Dispatch;
use crate::commands::ground::{self, Remarks};
use crate::exit::{Code, Failure};
use crate::io::read_text;
use crate::output::{Done, Output, remark_json, table, write_table};

/// Chooses GPUs.
///
/// # Errors
/// If an argument or file is wrong, or the request cannot be met.
pub fn dispatch(args: &Dispatch) -> Result<Done, Failure> {
    let start = Instant::now();
    let mut remarks = Remarks::new();
    let (cluster, state, source) = cluster_and_state(args, &mut remarks)?;
    let model = match &args.model {
        Some(path) => ground::model(path, &cluster, &mut remarks)?,
        None => BandwidthModel {
            description:
                "closed form; its constants were fitted on 493 measured H100 sets at 2 GiB"
                    .to_owned(),
            ..BandwidthModel::closed_form()
        },
    };
    let request = request(args, &cluster, &mut remarks)?;
    let predictor = Predictor::new(&model, &cluster, request.bytes);
    // A deadline beyond what a clock can hold is none.
    let deadline = args.deadline_ms.map(|ms| start.checked_add(Duration::from_millis(ms)));
    let passed = || deadline.flatten().is_some_and(|end| Instant::now() >= end);
    let options = AnswerOptions { should_stop: deadline.is_some().then_some(&passed) };
    let answer = bandpilot_dispatch::dispatch(&predictor, &state, &request, options)
        .map_err(|impossible| refuse(&impossible))?;
    let output = Shown {
        request,
        answer,
        collective: model.collective.name(),
        model: model.description.clone(),
        source,
        cluster,
        state,
        remarks: remarks.clone(),
    };
    Ok(Done { remarks, ..Done::ok(output) })
}

fn refuse(impossible: &Impossible) -> Failure {
    let Impossible { constraint, message, possible } = impossible;
    let reason = Diagnostic::error(format!("--{constraint}"), message.as_str())
        .help(format!("possible: {possible}"));
    Failure::new(Code::Impossible, "", reason)
}

fn cluster_and_state(
    args: &Dispatch,
    remarks: &mut Remarks,
) -> Result<(Cluster, ClusterState, String), Failure> {
    let (cluster, default_state, source) = if let Some(path) = &args.cluster {
        let cluster = ground::cluster(path, remarks)?;
        let idle = ClusterState::idle(&cluster);
        (cluster, idle, path.display().to_string())
    } else {
        let (cluster, state) = ground::example();
        (cluster, state, "built-in example".to_owned())
    };
    let state = match (&args.state, &args.free) {
        (Some(path), _) => {
            let read = state_file::read(&read_text(path)?, &cluster);
            ground::settle(read, &path.display().to_string(), Code::BadInput, remarks)?
        }
        (None, Some(text)) => {
            let read = state_file::free_form(text, &cluster);
            ground::settle(read, "--free", Code::BadInput, remarks)?
        }
        (None, None) => default_state,
    };
    Ok((cluster, state, source))
}

fn request(args: &Dispatch, cluster: &Cluster, remarks: &mut Remarks) -> Result<Request, Failure> {
    let usage = |argument: &str, message: String, help: &str| {
        Failure::new(Code::Usage, argument, Diagnostic::error("", message).help(help))
    };
    let mut list = |argument: &str, text: &Option<String>| -> Result<_, Failure> {
        let Some(text) = text else { return Ok(Vec::new()) };
        let read = placement::on_cluster(text, cluster);
        let set = ground::settle(read, argument, Code::BadInput, remarks)?;
        Ok(set.shares().to_vec())
    };
    let include: Vec<(HostId, GpuMask)> = list("--include", &args.include)?;
    let exclude = list("--exclude", &args.exclude)?;
    if let Some(floor) = args.min_busbw
        && !(floor.is_finite() && floor >= 0.0)
    {
        let message = format!("{floor} is not a bandwidth");
        return Err(usage("--min-busbw", message, "give GB/s, for example 100"));
    }
    let bytes = parse_bytes(&args.bytes)
        .map_err(|error| usage("--bytes", error.to_string(), "for example 16MiB or 2GiB"))?;
    Ok(Request {
        gpus: args.gpus,
        uniform: args.uniform,
        hosts: args.hosts,
        max_hosts: args.max_hosts,
        multiple_of: 1,
        protect: None,
        spare_hosts: 0,
        gpu_model: args.gpu_model.clone(),
        include,
        exclude,
        min_busbw_gbytes_per_s: args.min_busbw,
        bytes,
    })
}

struct Shown {
    request: Request,
    answer: Answer,
    collective: &'static str,
    model: String,
    source: String,
    cluster: Cluster,
    state: ClusterState,
    remarks: Remarks,
}

impl Output for Shown {
    fn human(&self, w: &mut dyn Write) -> io::Result<()> {
        let jobs = self.state.jobs.len();
        writeln!(
            w,
            "cluster {} ({}): {} of {} GPUs free, {jobs} running job{}",
            self.cluster.name,
            self.source,
            self.state.free_gpus(),
            self.cluster.gpu_count(),
            if jobs == 1 { "" } else { "s" }
        )?;
        writeln!(w, "model   {}\n", self.model)?;
        self.write_choice(w)?;
        self.write_alternatives(w)?;
        self.write_harm(w)?;
        self.write_launch(w)
    }

    fn json(&self) -> Value {
        let answer = &self.answer;
        let harm: Vec<Value> = answer
            .harm
            .iter()
            .map(|harm| {
                json!({
                    "job": harm.job,
                    "before_gbytes_per_s": harm.before,
                    "after_gbytes_per_s": harm.after,
                })
            })
            .collect();
        json!({
            "cluster": self.cluster.name,
            "model": self.model,
            "request": {
                "gpus": self.request.gpus,
                "bytes": self.request.bytes,
                "collective": self.collective,
            },
            "placement": self.gpus_json(&answer.chosen.placement),
            "busbw_gbytes_per_s": {
                "isolated": answer.chosen.isolated,
                "effective": answer.chosen.effective,
                "low": answer.grounds.low,
                "high": answer.grounds.high,
            },
            "band": {
                "relative": answer.grounds.band,
                "calibrated": false,
                "source": answer.grounds.band_source,
            },
            "evidence": evidence_name(answer.grounds.evidence),
            "bottleneck": answer.grounds.bottleneck,
            "upper_bound_gbytes_per_s": answer.upper_bound,
            "gap": answer.gap,
            "alternatives": self.alternatives_json(),
            "harm": harm,
            "launch": self.launch_json(),
            "search_steps": answer.steps,
            "diagnostics":
                self.remarks.iter().map(|(file, r)| remark_json(file, r)).collect::<Vec<_>>(),
        })
    }
}

impl Shown {
    fn write_choice(&self, w: &mut dyn Write) -> io::Result<()> {
        let answer = &self.answer;
        writeln!(
            w,
            "{} GPU{} for {} of {}",
            self.request.gpus,
            if self.request.gpus == 1 { "" } else { "s" },
            self.collective,
            format_bytes(self.request.bytes)
        )?;
        let mut chosen = table(&["  HOST", "GPUS", "COUNT"]);
        for (host, mask) in answer.chosen.placement.shares() {
            let name = format!("  {}", self.cluster.host(*host).name);
            chosen.add_row([name, mask.to_string(), mask.count().to_string()]);
        }
        write_table(w, &chosen)?;
        writeln!(w)?;
        writeln!(w, "isolated    {:>7.1} GB/s busbw", answer.chosen.isolated)?;
        writeln!(
            w,
            "effective   {:>7.1} GB/s, {:.1} to {:.1} (uncalibrated band of {:.1} %: {})",
            answer.chosen.effective,
            answer.grounds.low,
            answer.grounds.high,
            100.0 * answer.grounds.band,
            answer.grounds.band_source
        )?;
        writeln!(w, "evidence    {}", evidence_text(answer.grounds.evidence))?;
        writeln!(w, "bottleneck  {}", answer.grounds.bottleneck)?;
        match (answer.upper_bound, answer.gap) {
            (Some(bound), Some(gap)) if gap <= 0.0 => {
                writeln!(w, "certificate no set is above {bound:.1} GB/s under the model: gap 0 %")
            }
            (Some(bound), Some(gap)) => writeln!(
                w,
                "certificate no set is above {bound:.1} GB/s under the model: gap {:.2} %",
                100.0 * gap
            ),
            _ => writeln!(
                w,
                "certificate none: hosts with very many unlike GPUs were not searched in full"
            ),
        }
    }

    fn write_alternatives(&self, w: &mut dyn Write) -> io::Result<()> {
        let mut rows = table(&["ALTERNATIVE", "GPUS", "ISOLATED", "EFFECTIVE"]);
        for (kind, set) in self.alternatives() {
            let same = set.placement == self.answer.chosen.placement;
            rows.add_row([
                format!("{}{}", kind.replace('_', " "), if same { " (chosen)" } else { "" }),
                set.placement.display(&self.cluster),
                format!("{:.1}", set.isolated),
                format!("{:.1}", set.effective),
            ]);
        }
        if rows.row_count() > 0 {
            writeln!(w)?;
            write_table(w, &rows)?;
        }
        Ok(())
    }

    fn write_harm(&self, w: &mut dyn Write) -> io::Result<()> {
        if self.state.jobs.is_empty() {
            return Ok(());
        }
        if self.answer.harm.is_empty() {
            return writeln!(w, "\nrunning jobs lose nothing: none is met");
        }
        let mut rows = table(&["RUNNING JOB", "BEFORE", "AFTER", "LOSS"]);
        for harm in &self.answer.harm {
            let loss = if harm.before > 0.0 { 1.0 - harm.after / harm.before } else { 0.0 };
            rows.add_row([
                harm.job.clone(),
                format!("{:.1}", harm.before),
                format!("{:.1}", harm.after),
                format!("{:.1} %", 100.0 * loss),
            ]);
        }
        writeln!(w)?;
        write_table(w, &rows)
    }

    fn write_launch(&self, w: &mut dyn Write) -> io::Result<()> {
        let launch = &self.answer.launch;
        writeln!(w, "\nhostfile")?;
        for line in launch.hostfile.lines() {
            writeln!(w, "  {line}")?;
        }
        writeln!(w, "environment, by host")?;
        for context in &launch.contexts {
            writeln!(w, "  {}: {}", context.host, context.environment)?;
        }
        writeln!(w, "rank order")?;
        for context in &launch.contexts {
            let host = &context.host;
            let of_host: Vec<_> = launch.ranks.iter().filter(|rank| rank.host == *host).collect();
            if let (Some(first), Some(last)) = (of_host.first(), of_host.last()) {
                let gpus: Vec<String> = of_host.iter().map(|rank| rank.gpu.to_string()).collect();
                let gpus = gpus.join(" ");
                if first.rank == last.rank {
                    writeln!(w, "  rank {}: {host}, GPU {gpus}", first.rank)?;
                } else {
                    writeln!(w, "  ranks {}-{}: {host}, GPUs {gpus}", first.rank, last.rank)?;
                }
            }
        }
        writeln!(w, "OpenMPI\n  {}", launch.mpirun)?;
        if !launch.torchrun.is_empty() {
            writeln!(w, "torchrun, by host")?;
            for (host, command) in &launch.torchrun {
                writeln!(w, "  {host}: {command}")?;
            }
        }
        Ok(())
    }

    fn alternatives(&self) -> impl Iterator<Item = (&'static str, &Valued)> {
        let runner_up = self.answer.runner_up.as_ref().map(|set| ("runner_up", set));
        let compact = self.answer.most_compact.as_ref().map(|set| ("most_compact", set));
        runner_up.into_iter().chain(compact)
    }

    fn alternatives_json(&self) -> Vec<Value> {
        self.alternatives()
            .map(|(kind, set)| {
                json!({
                    "kind": kind,
                    "placement": self.gpus_json(&set.placement),
                    "isolated_gbytes_per_s": set.isolated,
                    "effective_gbytes_per_s": set.effective,
                })
            })
            .collect()
    }

    fn launch_json(&self) -> Value {
        let launch = &self.answer.launch;
        let by_host = |pairs: &[(String, String)]| -> Map<String, Value> {
            pairs.iter().map(|(host, text)| (host.clone(), Value::from(text.as_str()))).collect()
        };
        let environment: Vec<(String, String)> =
            launch.contexts.iter().map(|c| (c.host.clone(), c.environment.clone())).collect();
        let ranks: Vec<Value> = launch
            .ranks
            .iter()
            .map(|rank| json!({"rank": rank.rank, "host": rank.host, "gpu": rank.gpu, "nic": rank.nic}))
            .collect();
        json!({
            "hostfile": launch.hostfile,
            "environment": by_host(&environment),
            "ranks": ranks,
            "mpirun": launch.mpirun,
            "torchrun": by_host(&launch.torchrun),
        })
    }

    fn gpus_json(&self, set: &Placement) -> Map<String, Value> {
        set.shares()
            .iter()
            .map(|(host, mask)| {
                let gpus: Vec<usize> = mask.iter().collect();
                (self.cluster.host(*host).name.clone(), Value::from(gpus))
            })
            .collect()
    }
}

const fn evidence_name(evidence: Evidence) -> &'static str {
    match evidence {
        Evidence::Measured => "measured",
        Evidence::MeasuredInside => "measured_inside_host",
        Evidence::Corrected => "corrected",
        Evidence::ClosedForm => "closed_form",
    }
}

const fn evidence_text(evidence: Evidence) -> &'static str {
    match evidence {
        Evidence::Measured => "this set, or one just like it, was measured at this size",
        Evidence::MeasuredInside => "the links inside a host decide, and its GPUs were measured",
        Evidence::Corrected => "physics corrected by measurements of other sets",
        Evidence::ClosedForm => "physics alone, no measurement",
    }
}
