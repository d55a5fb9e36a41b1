//! Advice for people and as JSON.

use std::io::{self, Write};

use bandpilot_core::{GpuMask, HostId, Placement, counted};
use bandpilot_fragmentation::{Figures, PoolMeasures};
use serde_json::{Value, json};

use super::advice::{Advice, Verdict};
use crate::cli::{Compact, Wanted};
use crate::commands::fragmentation::Stand;
use crate::commands::fragmentation::picture;
use crate::commands::fragmentation::show::{write_head, write_wrapped};
use crate::commands::ground::Remarks;
use crate::output::{Output, remarks_json, table, write_table};

/// What is shown.
pub struct Shown {
    stand: Stand,
    advice: Advice,
    wanted: Option<Wanted>,
    migration_s: f64,
    out: Option<String>,
    remarks: Remarks,
}

impl Shown {
    /// Of some advice.
    pub fn new(
        stand: Stand,
        advice: Advice,
        args: &Compact,
        out: Option<String>,
        remarks: Remarks,
    ) -> Self {
        let (wanted, migration_s) = (args.wanted, args.migration_cost);
        Self { stand, advice, wanted, migration_s, out, remarks }
    }

    fn gpus(&self, (host, mask): (HostId, GpuMask)) -> String {
        Placement::new([(host, mask)]).display(&self.stand.cluster)
    }

    fn name(&self, job: usize) -> &str {
        &self.stand.state.jobs[job].name
    }

    fn cost_gpu_s(&self) -> f64 {
        self.advice.gpus as f64 * self.migration_s
    }

    fn words(&self) -> String {
        let wanted = match self.wanted {
            None => String::new(),
            Some(Wanted::Gpus(gpus)) => counted(gpus, "GPU"),
            Some(Wanted::Instances(instances, gpus)) => {
                format!("{} of {}", counted(instances, "instance"), counted(gpus, "GPU"))
            }
        };
        match self.advice.verdict {
            Verdict::NothingToDo if self.wanted.is_some() => {
                format!("nothing has to be moved: {wanted} fit as things are")
            }
            Verdict::NothingToDo => {
                "nothing has to be moved: no more hosts are partial than may be".to_owned()
            }
            Verdict::NothingHelps if self.wanted.is_some() => {
                format!("no moves were found after which {wanted} fit")
            }
            Verdict::NothingHelps => {
                "no moves were found after which fewer hosts are partial".to_owned()
            }
            Verdict::DoesNotPay { cost_gpu_s } => format!(
                "it does not pay: moves after which {wanted} fit cost {cost_gpu_s:.0} GPU-seconds, and the wait is worth {:.0}",
                self.advice.worth_gpu_s.unwrap_or(0.0)
            ),
            Verdict::Moves => format!(
                "{} of {} stop for {} s, which costs {:.0} GPU-seconds",
                counted(self.advice.gpus, "GPU"),
                counted(self.advice.jobs, "job"),
                self.migration_s,
                self.cost_gpu_s()
            ),
        }
    }

    fn write_moves(&self, w: &mut dyn Write) -> io::Result<()> {
        let mut rows = table(&["JOB", "GPUS", "FROM", "TO"]);
        for moved in &self.advice.moves {
            rows.add_row([
                picture::name(self.name(moved.job)),
                moved.to.1.count().to_string(),
                self.gpus(moved.from),
                self.gpus(moved.to),
            ]);
        }
        write_table(w, &rows)
    }

    fn write_figures(&self, w: &mut dyn Write) -> io::Result<()> {
        let mut rows = table(&["", "PARTIAL", "N*SIF", "IN USE", "ENL", "EMPTY"]);
        let Advice { before, after_figures, .. } = &self.advice;
        for (name, PoolMeasures { figures, .. }) in
            [("before", before.total), ("after", after_figures.total)]
        {
            rows.add_row([
                name.to_owned(),
                figures.partial.to_string(),
                figures.avoidable().to_string(),
                figures.in_use.to_string(),
                figures.empty_host_loss().to_string(),
                (figures.hosts - figures.in_use).to_string(),
            ]);
        }
        write_table(w, &rows)
    }
}

fn figures_json(figures: &Figures) -> Value {
    json!({
        "partial": figures.partial,
        "n_sif": figures.avoidable(),
        "in_use": figures.in_use,
        "enl": figures.empty_host_loss(),
        "empty": figures.hosts - figures.in_use,
    })
}

impl Output for Shown {
    fn human(&self, w: &mut dyn Write) -> io::Result<()> {
        write_head(w, &self.stand)?;
        writeln!(w)?;
        let moves = !self.advice.moves.is_empty();
        if moves {
            self.write_moves(w)?;
            writeln!(w)?;
        }
        write_wrapped(w, if moves { "cost" } else { "moves" }, &self.words())?;
        if !self.advice.then.is_empty() {
            let then = self.advice.then.iter();
            let hosts = then
                .map(|(host, gpus)| format!("{} ({gpus})", self.stand.cluster.host(*host).name));
            let hosts: Vec<String> = hosts.collect();
            write_wrapped(w, "job fits", &hosts.join(", "))?;
        }
        writeln!(w)?;
        self.write_figures(w)?;
        match &self.out {
            Some(path) => writeln!(w, "\nwritten: {path}"),
            None => Ok(()),
        }
    }

    fn json(&self) -> Value {
        let Advice { verdict, moves, before, after_figures, then, .. } = &self.advice;
        let (word, would_cost) = match verdict {
            Verdict::NothingToDo => ("nothing_to_do", None),
            Verdict::Moves => ("moves", None),
            Verdict::NothingHelps => ("nothing_helps", None),
            Verdict::DoesNotPay { cost_gpu_s } => ("does_not_pay", Some(*cost_gpu_s)),
        };
        let moves: Vec<Value> = moves
            .iter()
            .map(|moved| {
                json!({
                    "job": self.name(moved.job),
                    "gpus": moved.to.1.count(),
                    "from": self.gpus(moved.from),
                    "to": self.gpus(moved.to),
                })
            })
            .collect();
        let fits: Vec<Value> = then
            .iter()
            .map(|(host, gpus)| json!({"host": self.stand.cluster.host(*host).name, "gpus": gpus}))
            .collect();
        json!({
            "verdict": word,
            "moves": moves,
            "jobs": self.advice.jobs,
            "gpus": self.advice.gpus,
            "cost_gpu_s": self.cost_gpu_s(),
            "would_cost_gpu_s": would_cost,
            "worth_gpu_s": self.advice.worth_gpu_s,
            "before": figures_json(&before.total.figures),
            "after": figures_json(&after_figures.total.figures),
            "fits": fits,
            "out": self.out,
            "diagnostics": remarks_json(&self.remarks),
        })
    }
}
