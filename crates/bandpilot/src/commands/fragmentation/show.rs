//! Fragmentation for people and as JSON.

use std::io::{self, Write};

use bandpilot_core::counted;
use bandpilot_fragmentation::{PoolMeasures, Proof};
use serde_json::{Map, Value, json};

use super::picture::{self, LEGEND, Row, WIDTH};
use super::{Shown, Stand};
use crate::commands::parts::per_cent;
use crate::output::{Output, remarks_json, table, write_table};

/// Columns that the name of a remark takes.
const INDENT: usize = 10;

/// The word for a proof in JSON.
pub const fn proof(proof: Proof) -> &'static str {
    match proof {
        Proof::Exact => "exact",
        Proof::Bound => "bound",
    }
}

/// A number that a bound can only make less.
fn at_most(count: usize, proof: Proof) -> String {
    match proof {
        Proof::Bound if count > 0 => format!("<={count}"),
        _ => count.to_string(),
    }
}

/// A number that a bound can only make more.
fn at_least(count: usize, proof: Proof) -> String {
    match proof {
        Proof::Exact => count.to_string(),
        Proof::Bound => format!(">={count}"),
    }
}

/// A remark of several words behind its name, in lines that a terminal has room for.
///
/// # Errors
/// If writing fails.
pub fn write_wrapped(w: &mut dyn Write, name: &str, text: &str) -> io::Result<()> {
    let (mut line, mut head) = (String::new(), name);
    for word in text.split(' ') {
        if !line.is_empty() && line.chars().count() + 1 + word.chars().count() > WIDTH - INDENT {
            writeln!(w, "{head:<INDENT$}{line}")?;
            line.clear();
            head = "";
        }
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(word);
    }
    writeln!(w, "{head:<INDENT$}{line}")
}

/// Cluster and state.
///
/// # Errors
/// If writing fails.
pub fn write_head(w: &mut dyn Write, stand: &Stand) -> io::Result<()> {
    let (cluster, state) = (&stand.cluster, &stand.state);
    let hosts = counted(cluster.hosts.len(), "host");
    let (usable, all) = (stand.usable_gpus(), cluster.gpu_count());
    writeln!(
        w,
        "cluster {} ({}): {hosts}, {usable} of {} usable",
        cluster.name,
        stand.cluster_file,
        counted(all, "GPU")
    )?;
    let held = usable - state.free_gpus();
    writeln!(
        w,
        "state   {}: {}, {} held, {} idle",
        stand.state_file,
        counted(state.jobs.len(), "job"),
        counted(held, "GPU"),
        state.free_gpus()
    )
}

impl Shown {
    fn write_hosts(&self, w: &mut dyn Write) -> io::Result<()> {
        let Stand { cluster, state, occupancy, .. } = &self.stand;
        for pool in 0..occupancy.pools.len() {
            writeln!(w, "\n{}", self.stand.pool_name(pool))?;
            let of_pool = |row: &&Row| occupancy.nodes[row.host.index()].pool == pool;
            let rows: Vec<&Row> = self.rows.iter().filter(of_pool).collect();
            picture::write(w, cluster, state, &rows)?;
        }
        writeln!(w, "{LEGEND}")
    }

    fn write_table(&self, w: &mut dyn Write) -> io::Result<()> {
        let heads = [
            "POOL", "HOSTS", "IN USE", "PARTIAL", "PHI*", "N*SIF", "SIF", "MOVABLE", "ENL",
            "SLACK", "IDLE", "F",
        ];
        let mut rows = table(&heads);
        let mut row = |name: String, of: &PoolMeasures, unusable: Option<f64>| {
            let figures = &of.figures;
            let (least, movable) = (figures.least, of.least_movable.proof);
            rows.add_row([
                name,
                figures.hosts.to_string(),
                figures.in_use.to_string(),
                figures.partial.to_string(),
                at_least(least.partial, least.proof),
                at_most(figures.avoidable(), least.proof),
                per_cent(figures.sif()),
                at_most(of.movable(), movable),
                at_most(figures.empty_host_loss(), figures.least_hosts.proof),
                figures.slack.map_or("-".to_owned(), |slack| slack.to_string()),
                figures.idle().to_string(),
                unusable.map_or("-".to_owned(), |gpus| format!("{gpus:.1}")),
            ]);
        };
        for (pool, of) in self.measures.pools.iter().enumerate() {
            let unusable = self.unusable.as_ref().map(|unusable| unusable.pool(pool));
            row(self.stand.pool_name(pool), of, unusable);
        }
        if self.measures.pools.len() > 1 {
            let unusable = self.unusable.as_ref().map(super::Unusable::total);
            row("all".to_owned(), &self.measures.total, unusable);
        }
        writeln!(w)?;
        write_table(w, &rows)
    }

    fn write_words(&self, w: &mut dyn Write) -> io::Result<()> {
        let PoolMeasures { figures, least_movable } = &self.measures.total;
        let least = at_least(figures.least.partial, figures.least.proof);
        let are = if figures.partial == 1 { "is" } else { "are" };
        let hosts = counted(figures.hosts, "host");
        let partial = format!(
            "{} of {hosts} {are} partial: some GPUs held, some idle. For what runs at least {least} must be (Phi*)",
            figures.partial
        );
        let avoidable = format!(
            "{} need not be (N*SIF), {} of the hosts (SIF); moving jobs that are not pinned mends {}",
            at_most(figures.avoidable(), figures.least.proof),
            per_cent(figures.sif()),
            at_most(self.measures.total.movable(), least_movable.proof),
        );
        let loss = at_most(figures.empty_host_loss(), figures.least_hosts.proof);
        let noun = if loss == "1" { "host" } else { "hosts" };
        let empty = format!("{loss} {noun} more would be empty if all were packed anew (ENL)");
        writeln!(w)?;
        write_wrapped(w, "partial", &partial)?;
        write_wrapped(w, "avoidable", &avoidable)?;
        write_wrapped(w, "empty", &empty)?;
        write_wrapped(w, "slack", &self.slack_words())?;
        write_wrapped(w, "F", &self.unusable_words())?;
        let bound = [figures.least.proof, least_movable.proof, figures.least_hosts.proof];
        if bound.contains(&Proof::Bound) {
            let words = "where '<=' or '>=' stands, the exact number was too much work to find";
            write_wrapped(w, "bound", words)?;
        }
        Ok(())
    }

    fn slack_words(&self) -> String {
        let pools = self.measures.pools.iter().enumerate();
        let narrow = pools.filter(|(_, pool)| !pool.figures.is_wide);
        let (odd, narrow): (Vec<_>, Vec<_>) =
            narrow.partition(|(_, pool)| pool.figures.slack.is_none());
        let names = |pools: Vec<(usize, &PoolMeasures)>| {
            let names = pools.into_iter().map(|(pool, _)| self.stand.pool_name(pool));
            names.collect::<Vec<_>>().join(", ")
        };
        if !narrow.is_empty() {
            return format!(
                "WCC does not hold ({}): too few instances of one GPU run to fill the gaps beside those of 3, 5, 6, 7, ..",
                names(narrow)
            );
        }
        if !odd.is_empty() {
            return format!("WCC is only of hosts of 1, 2, 4, 8, .. GPUs, not of {}", names(odd));
        }
        let slack = self.measures.total.figures.slack.unwrap_or(0);
        format!(
            "WCC holds: instances of one GPU fill all gaps beside larger ones, and {slack} are left over"
        )
    }

    fn unusable_words(&self) -> String {
        let figures = &self.measures.total.figures;
        let Some(unusable) = &self.unusable else {
            return "not known: nothing runs; a mix of jobs can be given with --trace".to_owned();
        };
        let mix = match &self.mix.trace {
            Some(trace) => format!("the jobs of {trace}"),
            None => "instances like those that run".to_owned(),
        };
        let gpus = unusable.total();
        let share = gpus / figures.gpus.max(1) as f64;
        format!(
            "of {} idle, {gpus:.1} on average are of no use to {mix} (FGD's F), {} of all GPUs",
            counted(figures.idle(), "GPU"),
            per_cent(share)
        )
    }

    fn host_json(&self, row: &Row) -> Value {
        let Stand { cluster, state, occupancy, .. } = &self.stand;
        let part = |part: &picture::Part| {
            json!({
                "job": state.jobs[part.job].name,
                "gpus": part.gpus.to_string(),
                "count": part.gpus.count(),
                "pinned": state.jobs[part.job].pinned,
            })
        };
        json!({
            "host": cluster.host(row.host).name,
            "pool": self.stand.pool_name(occupancy.nodes[row.host.index()].pool),
            "state": row.fullness().name(),
            "gpus": row.gpus,
            "gpus_held": row.held(),
            "gpus_idle": row.idle.count(),
            "idle": row.idle.to_string(),
            "instances": row.parts.iter().map(part).collect::<Vec<_>>(),
        })
    }
}

/// The measures of a pool or of all.
pub fn measures_json(of: &PoolMeasures, unusable: Option<f64>) -> Map<String, Value> {
    let figures = &of.figures;
    let share = unusable.map(|gpus| gpus / figures.gpus.max(1) as f64);
    let object = json!({
        "hosts": figures.hosts,
        "hosts_in_use": figures.in_use,
        "hosts_partial": figures.partial,
        "gpus": figures.gpus,
        "gpus_held": figures.held,
        "gpus_idle": figures.idle(),
        "phi": figures.least.partial,
        "phi_proof": proof(figures.least.proof),
        "n_sif": figures.avoidable(),
        "sif": figures.sif(),
        "n_sif_movable": of.movable(),
        "n_sif_movable_proof": proof(of.least_movable.proof),
        "least_hosts": figures.least_hosts.hosts,
        "enl": figures.empty_host_loss(),
        "enl_proof": proof(figures.least_hosts.proof),
        "wcc": figures.is_wide,
        "wcc_slack": figures.slack,
        "f_gpus": unusable,
        "f_share": share,
    });
    match object {
        Value::Object(members) => members,
        _ => Map::new(),
    }
}

impl Output for Shown {
    fn human(&self, w: &mut dyn Write) -> io::Result<()> {
        write_head(w, &self.stand)?;
        self.write_hosts(w)?;
        self.write_table(w)?;
        self.write_words(w)
    }

    fn json(&self) -> Value {
        let occupancy = &self.stand.occupancy;
        let pool = |(at, of): (usize, &PoolMeasures)| {
            let unusable = self.unusable.as_ref().map(|unusable| unusable.pool(at));
            let mut object = measures_json(of, unusable);
            object.insert("pool".to_owned(), self.stand.pool_name(at).into());
            object.insert("gpu_model".to_owned(), occupancy.pools[at].gpu_model.clone().into());
            object.insert("host_gpus".to_owned(), occupancy.pools[at].host_gpus.into());
            Value::from(object)
        };
        let total = self.unusable.as_ref().map(super::Unusable::total);
        json!({
            "cluster": self.stand.cluster.name,
            "cluster_file": self.stand.cluster_file,
            "state_file": self.stand.state_file,
            "mix": self.mix.trace.as_deref().unwrap_or("running"),
            "total": measures_json(&self.measures.total, total),
            "pools": self.measures.pools.iter().enumerate().map(pool).collect::<Vec<_>>(),
            "hosts": self.rows.iter().map(|row| self.host_json(row)).collect::<Vec<_>>(),
            "diagnostics": remarks_json(&self.remarks),
        })
    }
}
