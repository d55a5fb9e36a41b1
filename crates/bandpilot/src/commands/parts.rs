//! What the answers of several commands have in common, for people and as JSON.

use std::io::{self, Write};

use bandpilot_core::{Cluster, ClusterState, GpuMask, HostId, Placement};
use bandpilot_dispatch::Answer;
use bandpilot_dispatch::answer::{Grounds, Harm, Valued};
use bandpilot_dispatch::launch::{Launch, Rank};
use bandpilot_model::Evidence;
use bandpilot_readers::hostlist;
use serde_json::{Map, Value, json};

use crate::commands::ground::Ground;
use crate::output::{counted, table, write_table};

/// The word for it in JSON.
pub const fn evidence_name(evidence: Evidence) -> &'static str {
    match evidence {
        Evidence::Measured => "measured",
        Evidence::MeasuredInside => "measured_inside_host",
        Evidence::Corrected => "corrected",
        Evidence::ClosedForm => "closed_form",
    }
}

/// The same in a table.
pub const fn evidence_word(evidence: Evidence) -> &'static str {
    match evidence {
        Evidence::Measured => "measured",
        Evidence::MeasuredInside => "measured inside",
        Evidence::Corrected => "corrected",
        Evidence::ClosedForm => "physics",
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

/// A bandwidth in a table; a single GPU has none.
pub fn gbytes(value: f64) -> String {
    if value > 0.0 { format!("{value:.1}") } else { "-".to_owned() }
}

/// A share as per cent.
pub fn per_cent(share: f64) -> String {
    format!("{:.1} %", 100.0 * share)
}

/// Cluster and models.
pub fn write_head(w: &mut dyn Write, ground: &Ground, models: &[&str]) -> io::Result<()> {
    writeln!(
        w,
        "cluster {} ({}): {} of {} GPUs free, {}",
        ground.cluster.name,
        ground.source,
        ground.state.free_gpus(),
        ground.cluster.gpu_count(),
        counted(ground.state.jobs.len(), "running job")
    )?;
    for model in models {
        writeln!(w, "model   {model}")?;
    }
    writeln!(w)
}

/// Hosts, GPUs and counts of a set.
pub fn write_set(w: &mut dyn Write, cluster: &Cluster, set: &Placement) -> io::Result<()> {
    let mut rows = table(&["  HOST", "GPUS", "COUNT"]);
    for (host, mask) in set.shares() {
        let name = format!("  {}", cluster.host(*host).name);
        rows.add_row([name, mask.to_string(), mask.count().to_string()]);
    }
    write_table(w, &rows)?;
    writeln!(w)
}

/// GPUs of a set by host.
pub fn gpus_json(cluster: &Cluster, set: &Placement) -> Map<String, Value> {
    let of_host = |(host, mask): &(HostId, GpuMask)| {
        let gpus: Vec<usize> = mask.iter().collect();
        (cluster.host(*host).name.clone(), Value::from(gpus))
    };
    set.shares().iter().map(of_host).collect()
}

/// Bandwidths of a set, what they rest on and what decides them.
pub fn write_worth(w: &mut dyn Write, set: &Valued, grounds: &Grounds) -> io::Result<()> {
    if set.placement.gpus() < 2 {
        return writeln!(w, "bandwidth   none: a single GPU exchanges nothing");
    }
    writeln!(w, "isolated    {:>7.1} GB/s busbw", set.isolated)?;
    writeln!(
        w,
        "effective   {:>7.1} GB/s, {:.1} to {:.1} (uncalibrated band of {}: {})",
        set.effective,
        grounds.low,
        grounds.high,
        per_cent(grounds.band),
        grounds.band_source
    )?;
    writeln!(w, "evidence    {}", evidence_text(grounds.evidence))?;
    writeln!(w, "bottleneck  {}", grounds.bottleneck)
}

/// The keys of a set that tell its bandwidths, what they rest on and what decides them.
pub fn worth_json(set: &Valued, grounds: &Grounds) -> Map<String, Value> {
    let keys = [
        (
            "busbw_gbytes_per_s",
            json!({
                "isolated": set.isolated,
                "effective": set.effective,
                "low": grounds.low,
                "high": grounds.high,
            }),
        ),
        (
            "band",
            json!({
                "relative": grounds.band,
                "calibrated": false,
                "source": grounds.band_source,
            }),
        ),
        ("evidence", json!(evidence_name(grounds.evidence))),
        ("bottleneck", json!(grounds.bottleneck)),
    ];
    keys.into_iter().map(|(key, value)| (key.to_owned(), value)).collect()
}

/// How much better any other set could be; `whose` tells its size if that needs telling.
pub fn write_certificate(w: &mut dyn Write, answer: &Answer, whose: &str) -> io::Result<()> {
    // More time wins back nothing that was given up on purpose.
    let given_up = answer.tradeoff.as_ref().map_or(0.0, |tradeoff| tradeoff.price);
    match (answer.upper_bound, answer.gap) {
        (Some(bound), Some(gap)) => writeln!(
            w,
            "certificate no set{whose} is above {bound:.1} GB/s under the model: {}{}",
            gap_text(gap),
            if gap * bound > 0.01 * bound + given_up {
                "; more time (--deadline-ms) may find a better set"
            } else {
                ""
            }
        ),
        _ => writeln!(
            w,
            "certificate none: hosts with very many unlike GPUs were not searched in full"
        ),
    }
}

/// A gap in per cent, 0 without digits: it is exact.
pub fn gap_text(gap: f64) -> String {
    if gap <= 0.0 { "gap 0 %".to_owned() } else { format!("gap {:.2} %", 100.0 * gap) }
}

/// What running jobs lose.
pub fn write_harm(w: &mut dyn Write, state: &ClusterState, harm: &[Harm]) -> io::Result<()> {
    if state.jobs.is_empty() {
        return Ok(());
    }
    if harm.is_empty() {
        return writeln!(w, "\nrunning jobs lose nothing: none is met");
    }
    let mut rows = table(&["RUNNING JOB", "BEFORE", "AFTER", "LOSS"]);
    for harm in harm {
        rows.add_row([
            harm.job.clone(),
            format!("{:.1}", harm.before),
            format!("{:.1}", harm.after),
            per_cent(loss(harm)),
        ]);
    }
    writeln!(w)?;
    write_table(w, &rows)
}

/// Share of its bandwidth that a running job loses.
fn loss(harm: &Harm) -> f64 {
    if harm.before > 0.0 { (1.0 - harm.after / harm.before).max(0.0) } else { 0.0 }
}

/// Greatest share that a running job loses, against what was allowed.
pub fn write_protection(w: &mut dyn Write, protect: Option<f64>, harm: &[Harm]) -> io::Result<()> {
    let Some(most) = protect else { return Ok(()) };
    let greatest = per_cent(harm.iter().map(loss).fold(0.0, f64::max));
    writeln!(
        w,
        "protection  no running job loses more than {greatest} ({} allowed)",
        per_cent(most)
    )
}

/// What running jobs lose.
pub fn harm_json(harm: &[Harm]) -> Vec<Value> {
    harm.iter()
        .map(|harm| {
            json!({
                "job": harm.job,
                "before_gbytes_per_s": harm.before,
                "after_gbytes_per_s": harm.after,
            })
        })
        .collect()
}

/// Hosts that could take over, if any were asked for.
pub fn write_spares(w: &mut dyn Write, cluster: &Cluster, spares: &Placement) -> io::Result<()> {
    if spares.hosts() == 0 {
        return Ok(());
    }
    writeln!(w, "spare       {}, to take over from a host that fails", spares.display(cluster))
}

/// Host file and variables.
pub fn write_environment(w: &mut dyn Write, launch: &Launch) -> io::Result<()> {
    writeln!(w, "\nhostfile")?;
    for line in launch.hostfile.lines() {
        writeln!(w, "  {line}")?;
    }
    let mut hosts: Vec<&str> = launch.contexts.iter().map(|c| c.host.as_str()).collect();
    hosts.sort_unstable();
    hosts.dedup();
    let by =
        if hosts.len() < launch.contexts.len() { "part of the mpirun command" } else { "host" };
    writeln!(w, "environment, by {by}")?;
    for context in &launch.contexts {
        writeln!(w, "  {}: {}", context.host, context.environment)?;
    }
    Ok(())
}

/// Ranks by host.
pub fn write_rank_order(w: &mut dyn Write, launch: &Launch) -> io::Result<()> {
    writeln!(w, "rank order")?;
    let mut first = 0;
    for context in &launch.contexts {
        let gpus: Vec<String> = context.gpus.iter().map(ToString::to_string).collect();
        let (host, gpus) = (&context.host, gpus.join(" "));
        let count = context.gpus.len();
        let nics = match nic_names(launch.ranks.iter().skip(first).take(count)) {
            Some(names) if count == 1 => format!(", NIC {names}"),
            Some(names) => format!(", NICs {names}"),
            None => String::new(),
        };
        match count {
            1 => writeln!(w, "  rank {first}: {host}, GPU {gpus}{nics}")?,
            _ => writeln!(w, "  ranks {first}-{}: {host}, GPUs {gpus}{nics}", first + count - 1)?,
        }
        first += count;
    }
    Ok(())
}

/// The NICs nearest to these ranks' GPUs, each once, in their order; `None` if there are none.
pub fn nic_names<'a>(ranks: impl Iterator<Item = &'a Rank>) -> Option<String> {
    let mut names: Vec<&str> = Vec::new();
    for name in ranks.filter_map(|rank| rank.nic.as_deref()) {
        if !names.contains(&name) {
            names.push(name);
        }
    }
    (!names.is_empty()).then(|| hostlist::compress(names))
}

/// Commands to paste.
pub fn write_commands(w: &mut dyn Write, launch: &Launch) -> io::Result<()> {
    writeln!(w, "OpenMPI\n  {}", launch.mpirun)?;
    if !launch.torchrun.is_empty() {
        writeln!(w, "torchrun, by host")?;
        for (host, command) in &launch.torchrun {
            writeln!(w, "  {host}: {command}")?;
        }
    }
    Ok(())
}

/// Launch lines, without the ranks.
pub fn launch_json(launch: &Launch) -> Map<String, Value> {
    let torchrun: Map<String, Value> =
        launch.torchrun.iter().map(|(host, text)| (host.clone(), json!(text))).collect();
    let contexts: Vec<Value> = launch
        .contexts
        .iter()
        .map(|c| json!({"host": c.host, "gpus": c.gpus, "environment": c.environment}))
        .collect();
    let keys = [
        ("hostfile", json!(launch.hostfile)),
        ("contexts", json!(contexts)),
        ("mpirun", json!(launch.mpirun)),
        ("torchrun", json!(torchrun)),
    ];
    keys.into_iter().map(|(key, value)| (key.to_owned(), value)).collect()
}

/// A rank with its host, GPU and NIC.
pub fn rank_json(rank: &Rank) -> Map<String, Value> {
    let keys = [
        ("rank", json!(rank.rank)),
        ("host", json!(rank.host)),
        ("gpu", json!(rank.gpu)),
        ("nic", json!(rank.nic)),
    ];
    keys.into_iter().map(|(key, value)| (key.to_owned(), value)).collect()
}
