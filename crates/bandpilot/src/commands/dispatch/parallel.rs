//! The answer to a request for a job with groups, for people and as JSON.

use std::io::{self, Write};

use bandpilot_core::{Collective, Placement, Request, format_bytes};
use bandpilot_dispatch::parallel::{
    FlatView, Given, GroupBandwidth, Models as TwoModels, RankOrder, StepTime,
};
use bandpilot_dispatch::{AnswerOptions, Parallel, ParallelAnswer, dispatch_parallel};
use bandpilot_model::Traffic;
use serde_json::{Map, Value, json};

use super::rank_map::rank_map;
use super::request::Asked;
use crate::commands::ground::{Deadline, Ground, Models, Remarks};
use crate::commands::parts;
use crate::exit::Failure;
use crate::output::{Done, Output, counted, remarks_json, table, write_table};

/// Chooses GPUs for a job with groups.
///
/// # Errors
/// If the request cannot be met.
pub fn dispatch(
    ground: Ground,
    models: &Models,
    asked: &Asked,
    groups: Parallel,
    deadline: &Deadline,
    mut remarks: Remarks,
) -> Result<Done, Failure> {
    let all_reduce = models.of(Collective::AllReduce, "--parallel", &mut remarks);
    // Without pipelines nothing is sent, and what is not used needs no remark.
    let mut unheard = Remarks::new();
    let heard = if pipelines_send(&groups) { &mut remarks } else { &mut unheard };
    let send_recv = models.of(Collective::SendRecv, "--parallel", heard);
    let passed = || deadline.has_passed();
    let options = AnswerOptions {
        should_stop: deadline.is_given().then_some(&passed),
        ..AnswerOptions::default()
    };
    let answer = dispatch_parallel(
        &ground.cluster,
        TwoModels { all_reduce: &all_reduce, send_recv: &send_recv },
        Given { state: &ground.state, request: &asked.request, parallel: &groups },
        options,
    )
    .map_err(|impossible| asked.refuse(&impossible, &ground.cluster, &ground.state))?;
    let output = Shown {
        request: asked.request.clone(),
        groups,
        answer,
        all_reduce: all_reduce.description,
        send_recv: send_recv.description,
        ground,
        remarks: remarks.clone(),
    };
    Ok(Done { remarks, ..Done::ok(output) })
}

fn pipelines_send(groups: &Parallel) -> bool {
    groups.pipeline > 1 && groups.pipeline_traffic.messages > 0.0
}

struct Shown {
    request: Request,
    groups: Parallel,
    answer: ParallelAnswer,
    all_reduce: String,
    send_recv: String,
    ground: Ground,
    remarks: Remarks,
}

/// One kind of group with all that is told of it.
struct Kind<'a> {
    /// As in `--parallel`.
    key: &'static str,
    name: &'static str,
    ranks: usize,
    traffic: Traffic,
    collective: Collective,
    bandwidth: &'a GroupBandwidth,
    seconds: f64,
}

impl Kind<'_> {
    /// It exchanges something in a step.
    fn exchanges(&self) -> bool {
        self.ranks > 1 && self.traffic.messages > 0.0
    }

    fn isolated(&self) -> Option<f64> {
        self.bandwidth.isolated.filter(|_| self.exchanges())
    }

    fn effective(&self) -> Option<f64> {
        self.bandwidth.effective.filter(|_| self.exchanges())
    }

    fn bottleneck(&self) -> &str {
        if self.exchanges() { &self.bandwidth.bottleneck } else { "none: nothing is exchanged" }
    }
}

impl Shown {
    fn kinds(&self) -> [Kind<'_>; 3] {
        let (groups, answer) = (&self.groups, &self.answer);
        [
            Kind {
                key: "tp",
                name: "tensor",
                ranks: groups.tensor,
                traffic: groups.tensor_traffic,
                collective: Collective::AllReduce,
                bandwidth: &answer.tensor,
                seconds: answer.step.tensor,
            },
            Kind {
                key: "pp",
                name: "pipeline",
                ranks: groups.pipeline,
                traffic: groups.pipeline_traffic,
                collective: Collective::SendRecv,
                bandwidth: &answer.pipeline,
                seconds: answer.step.pipeline,
            },
            Kind {
                key: "dp",
                name: "data",
                ranks: groups.data,
                traffic: groups.data_traffic,
                collective: Collective::AllReduce,
                bandwidth: &answer.data,
                seconds: answer.step.data,
            },
        ]
    }

    /// How much longer the step would be on the flat view's set, as a share.
    fn longer(&self, flat: &FlatView) -> Option<f64> {
        let own = self.answer.step.total();
        let other = flat.step?.total();
        (own > 0.0).then(|| other / own - 1.0)
    }
}

impl Output for Shown {
    fn human(&self, w: &mut dyn Write) -> io::Result<()> {
        let answer = &self.answer;
        let models = [self.all_reduce.as_str(), self.send_recv.as_str()];
        let models = if pipelines_send(&self.groups) { &models[..] } else { &models[..1] };
        parts::write_head(w, &self.ground, models)?;
        self.write_title(w)?;
        parts::write_set(w, &self.ground.cluster, &answer.placement)?;
        self.write_step(w)?;
        parts::write_protection(w, self.request.protect, &answer.harm)?;
        parts::write_spares(w, &self.ground.cluster, &answer.spares)?;
        self.write_flat(w)?;
        self.write_groups(w)?;
        parts::write_harm(w, &self.ground.state, &answer.harm)?;
        self.write_ranks(w)?;
        parts::write_environment(w, &answer.launch)?;
        parts::write_commands(w, &answer.launch)
    }

    fn json(&self) -> Value {
        let answer = &self.answer;
        let cluster = &self.ground.cluster;
        let kinds = self.kinds();
        let groups: Map<String, Value> =
            kinds.iter().map(|kind| (kind.name.to_owned(), group_json(kind))).collect();
        json!({
            "cluster": cluster.name,
            "models": {"all_reduce": self.all_reduce, "sendrecv": self.send_recv},
            "request": {
                "gpus": self.request.gpus,
                "protect": self.request.protect,
                "spare_hosts": self.request.spare_hosts,
            },
            "placement": parts::gpus_json(cluster, &answer.placement),
            "step_seconds": step_json(&answer.step),
            "step_range_seconds": {"low": answer.range().0, "high": answer.range().1},
            "lower_bound_seconds": answer.lower_bound,
            "gap": answer.gap,
            "groups": groups,
            "pipelines_cross_hosts": answer.pipelines_cross_hosts,
            "rank_order": answer.order.name(),
            "ranks": self.ranks_json(),
            "flat": self.flat_json(),
            "harm": parts::harm_json(&answer.harm),
            "spares": parts::gpus_json(cluster, &answer.spares),
            "launch": parts::launch_json(&answer.launch),
            "search_steps": answer.steps,
            "diagnostics": remarks_json(&self.remarks),
        })
    }
}

impl Shown {
    fn write_title(&self, w: &mut dyn Write) -> io::Result<()> {
        let Parallel { tensor, pipeline, data, .. } = self.groups;
        write!(w, "{}: {}", counted(self.request.gpus, "GPU"), counted(data, "replica"))?;
        if pipeline > 1 {
            write!(w, " of {}", counted(pipeline, "pipeline stage"))?;
        }
        if tensor > 1 {
            write!(w, " of {} inside a host", counted(tensor, "tensor rank"))?;
        }
        writeln!(w, " (tp={tensor}, pp={pipeline}, dp={data})")?;
        let traffic: Vec<String> = self
            .kinds()
            .iter()
            .filter(|kind| kind.ranks > 1)
            .map(|kind| {
                let Traffic { messages, bytes } = kind.traffic;
                if messages == 0.0 {
                    return format!("{} none", kind.key);
                }
                format!("{} {messages} x {} {}", kind.key, format_bytes(bytes), kind.collective)
            })
            .collect();
        if traffic.is_empty() {
            return writeln!(w, "a single rank exchanges nothing");
        }
        writeln!(w, "traffic of a step: {}", traffic.join(", "))
    }

    fn write_step(&self, w: &mut dyn Write) -> io::Result<()> {
        let StepTime { tensor, pipeline, data } = self.answer.step;
        let (low, high) = self.answer.range();
        writeln!(
            w,
            "step        {} ms of communication, {} to {} by the uncalibrated bands: tensor {}, pipeline {}, data {}",
            ms(self.answer.step.total()),
            ms(low),
            ms(high),
            ms(tensor),
            ms(pipeline),
            ms(data)
        )?;
        if self.groups.pipeline > 1 {
            let how = if self.answer.pipelines_cross_hosts {
                "some cross hosts"
            } else {
                "each stays inside one host"
            };
            writeln!(w, "pipelines   {how}")?;
        }
        match (self.answer.lower_bound, self.answer.gap) {
            (Some(bound), Some(gap)) => writeln!(
                w,
                "certificate no placement has a step below {} ms under the model: {}",
                ms(bound),
                parts::gap_text(gap)
            ),
            _ => writeln!(w, "certificate none: the search ended before it had a lower bound"),
        }
    }

    fn write_flat(&self, w: &mut dyn Write) -> io::Result<()> {
        let Some(flat) = &self.answer.flat else { return Ok(()) };
        let gpus = flat.set.placement.display(&self.ground.cluster);
        let name = "flat view  ";
        if flat.set.placement == self.answer.placement {
            return writeln!(w, "{name} one all_reduce over all ranks would take the same GPUs");
        }
        let what = match (flat.step, self.longer(flat)) {
            (None, _) => "the groups do not fit into it".to_owned(),
            (Some(step), Some(longer)) if longer > 0.0005 => {
                format!(
                    "the step would be {} ms, {} longer",
                    ms(step.total()),
                    parts::per_cent(longer)
                )
            }
            _ => "the step would be as long".to_owned(),
        };
        writeln!(w, "{name} one all_reduce over all ranks would take {gpus}: {what}")
    }

    fn write_groups(&self, w: &mut dyn Write) -> io::Result<()> {
        let header =
            ["SLOWEST GROUP", "RANKS", "ISOLATED", "EFFECTIVE", "MS", "EVIDENCE", "BOTTLENECK"];
        let mut rows = table(&header);
        for kind in self.kinds().iter().filter(|kind| kind.ranks > 1) {
            let evidence = parts::evidence_word(kind.bandwidth.evidence);
            rows.add_row([
                kind.name.to_owned(),
                kind.ranks.to_string(),
                parts::gbytes(kind.isolated().unwrap_or(0.0)),
                parts::gbytes(kind.effective().unwrap_or(0.0)),
                ms(kind.seconds),
                if kind.exchanges() { evidence } else { "-" }.to_owned(),
                kind.bottleneck().to_owned(),
            ]);
        }
        if rows.row_count() == 0 {
            return Ok(());
        }
        writeln!(w)?;
        write_table(w, &rows)
    }

    fn write_ranks(&self, w: &mut dyn Write) -> io::Result<()> {
        let order = self.answer.order;
        let how = match order {
            // Without pipelines both orders are the same.
            _ if self.groups.pipeline < 2 => "as Megatron-LM counts by default",
            RankOrder::TensorPipelineData => "Megatron-LM needs --use-tp-pp-dp-mapping",
            RankOrder::TensorDataPipeline => "as Megatron-LM counts by default",
        };
        writeln!(w, "\nrank order {}: {how}", order.name())?;
        let mut rows = table(&["RANKS", "HOST", "GPUS", "NICS", "STAGES", "REPLICAS"]);
        for row in rank_map(&self.answer) {
            rows.add_row([row.ranks, row.host, row.gpus, row.nics, row.stages, row.replicas]);
        }
        write_table(w, &rows)
    }

    fn ranks_json(&self) -> Vec<Value> {
        let ranks = self.answer.launch.ranks.iter().zip(&self.answer.coordinates);
        ranks
            .map(|(rank, at)| {
                let mut object = parts::rank_json(rank);
                object.insert("tensor".to_owned(), json!(at.tensor));
                object.insert("pipeline".to_owned(), json!(at.pipeline));
                object.insert("data".to_owned(), json!(at.data));
                Value::from(object)
            })
            .collect()
    }

    fn flat_json(&self) -> Value {
        let flat = self.answer.flat.as_ref();
        let none = Placement::default();
        let set = flat.map_or(&none, |flat| &flat.set.placement);
        json!({
            "placement": parts::gpus_json(&self.ground.cluster, set),
            "isolated_gbytes_per_s": flat.map(|flat| flat.set.isolated),
            "effective_gbytes_per_s": flat.map(|flat| flat.set.effective),
            "step_seconds": flat.and_then(|flat| flat.step).map(|step| step.total()),
            "longer": flat.and_then(|flat| self.longer(flat)),
        })
    }
}

fn ms(seconds: f64) -> String {
    format!("{:.2}", 1000.0 * seconds)
}

fn step_json(step: &StepTime) -> Value {
    json!({
        "total": step.total(),
        "tensor": step.tensor,
        "pipeline": step.pipeline,
        "data": step.data,
    })
}

fn group_json(kind: &Kind<'_>) -> Value {
    json!({
        "ranks": kind.ranks,
        "messages": kind.traffic.messages as u64,
        "bytes": kind.traffic.bytes,
        "isolated_gbytes_per_s": kind.isolated(),
        "effective_gbytes_per_s": kind.effective(),
        "band": kind.bandwidth.band,
        "evidence": parts::evidence_name(kind.bandwidth.evidence),
        "bottleneck": kind.bottleneck(),
    })
}
