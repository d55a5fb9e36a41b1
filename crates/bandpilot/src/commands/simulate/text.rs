//! The result on stdout: for people and as JSON.

use std::io::{self, Write};

use bandpilot_sim::bootstrap::Interval;
use bandpilot_sim::{LeftOut, Metrics, Mixed};
use serde_json::{Map, Value, json};

use super::figures::{FIGURES, Judged, figures, shown};
use crate::commands::ground::Remarks;
use crate::output::{Output, remarks_json, table, write_table};

/// What came out.
pub struct Simulated {
    pub trace: String,
    pub hosts: usize,
    pub gpus: usize,
    pub seeds: Vec<u64>,
    pub jobs: usize,
    pub bad_rows: usize,
    pub left_out: LeftOut,
    pub mixed: Option<Mixed>,
    pub policies: Vec<Judged>,
    pub remarks: Remarks,
    /// Files that were written.
    pub files: Vec<String>,
}

impl Simulated {
    /// The seeds as a list.
    pub fn seeds(&self) -> String {
        self.seeds.iter().map(u64::to_string).collect::<Vec<_>>().join(", ")
    }

    fn head(&self, w: &mut dyn Write) -> io::Result<()> {
        writeln!(w, "trace   {}: {} jobs", self.trace, self.jobs)?;
        writeln!(w, "cluster {} hosts, {} GPUs", self.hosts, self.gpus)?;
        if self.seeds.len() == 1 {
            writeln!(w, "seed    {}", self.seeds())?;
        } else {
            writeln!(w, "seeds   {}; figures are means over them", self.seeds())?;
            let once = self.policies.iter().filter(|row| !row.seeded);
            let once: Vec<String> = once.map(|row| row.policy.to_string()).collect();
            if !once.is_empty() {
                writeln!(w, "run once, as no seed changes them: {}", once.join(", "))?;
            }
        }
        if let Some(mixed) = &self.mixed {
            let Mixed { jobs, instances, gpu_seconds: (before, after) } = *mixed;
            let more = if before > 0.0 { 100.0 * (after / before - 1.0) } else { 0.0 };
            let of = if self.seeds.len() == 1 { "" } else { " (first seed)" };
            writeln!(
                w,
                "mix     {jobs} jobs, {instances} instances; GPU-seconds {more:+.1} %{of}"
            )?;
        }
        if self.bad_rows > 0 {
            writeln!(w, "wrong rows of the trace, left out: {}", self.bad_rows)?;
        }
        writeln!(w)
    }

    fn figures(&self, w: &mut dyn Write) -> io::Result<()> {
        let shown = shown(&self.policies);
        let mut heads = vec!["POLICY"];
        heads.extend(shown.iter().map(|at| FIGURES[*at].head));
        let mut rows = table(&heads);
        for row in &self.policies {
            let cell =
                |at: &usize| row.shown(*at).map_or("-".to_owned(), |value| number(*at, value));
            let mut cells = vec![row.policy.to_string()];
            cells.extend(shown.iter().map(cell));
            rows.add_row(cells);
        }
        write_table(w, &rows)?;
        writeln!(
            w,
            "\nbusy: GPUs held while jobs wait; head blocked: time the first one waits although enough GPUs are idle\n"
        )
    }

    fn intervals(&self, w: &mut dyn Write) -> io::Result<()> {
        let first = self.policies.first().map(|row| row.policy.to_string()).unwrap_or_default();
        let last = format!("MEAN JCT LESS {}", first.to_uppercase());
        let mut heads = vec!["95 % INTERVALS", "MEAN JCT S", "MEDIAN", "MEAN WAIT S"];
        if self.policies.len() > 1 {
            heads.push(&last);
        }
        let mut rows = table(&heads);
        for (at, row) in self.policies.iter().enumerate() {
            let mut cells = vec![row.policy.to_string()];
            cells.extend(row.intervals.of.iter().map(|(_, interval)| ends(*interval)));
            if at > 0 {
                cells.push(ends(row.intervals.difference));
            }
            rows.add_row(cells);
        }
        write_table(w, &rows)
    }
}

/// A figure with its decimals; a mean over runs of whole numbers with one.
fn number(at: usize, value: f64) -> String {
    let decimals = FIGURES[at].decimals.max(usize::from(FIGURES[at].whole && value.fract() != 0.0));
    format!("{value:.decimals$}")
}

fn ends(interval: Option<Interval>) -> String {
    interval.map_or("-".to_owned(), |Interval { low, high }| format!("{low:.0} .. {high:.0}"))
}

impl Output for Simulated {
    fn human(&self, w: &mut dyn Write) -> io::Result<()> {
        self.head(w)?;
        self.figures(w)?;
        self.intervals(w)?;
        if !self.files.is_empty() {
            writeln!(w, "\nwritten {}", self.files.join(", "))?;
        }
        Ok(())
    }

    fn json(&self) -> Value {
        let policies: Vec<Value> = self.policies.iter().map(policy_json).collect();
        json!({
            "trace": self.trace,
            "hosts": self.hosts,
            "gpus": self.gpus,
            "seed": self.seeds.first(),
            "seeds": self.seeds,
            "jobs": self.jobs,
            "bad_rows": self.bad_rows,
            "left_out": {
                "without_gpus": self.left_out.without_gpus,
                "shared_gpus": self.left_out.shared_gpus,
                "model_unknown": self.left_out.model_unknown,
            },
            "mixed": self.mixed.map(|mixed| json!({
                "jobs": mixed.jobs,
                "instances": mixed.instances,
                "gpu_s_before": mixed.gpu_seconds.0,
                "gpu_s_after": mixed.gpu_seconds.1,
            })),
            "policies": policies,
            "diagnostics": remarks_json(&self.remarks),
        })
    }
}

/// A figure; whole numbers of a single run stay whole.
fn value_json(whole: bool, value: Option<f64>) -> Value {
    match value {
        Some(value) if whole && value.fract() == 0.0 => Value::from(value as u64),
        value => Value::from(value),
    }
}

fn interval_json(interval: Option<Interval>) -> Value {
    interval.map_or(Value::Null, |Interval { low, high }| json!({"low": low, "high": high}))
}

fn run_json(seed: u64, metrics: &Metrics) -> Value {
    let values = figures(metrics)
        .map(|(figure, value)| (figure.key.to_owned(), value_json(figure.whole, value)));
    let mut run: Map<String, Value> = values.collect();
    run.insert("seed".to_owned(), Value::from(seed));
    Value::Object(run)
}

fn policy_json(row: &Judged) -> Value {
    let values = FIGURES.iter().zip(&row.figures);
    let values =
        values.map(|(figure, value)| (figure.key.to_owned(), value_json(figure.whole, *value)));
    let mut policy: Map<String, Value> = values.collect();
    let named = row.intervals.of.iter().map(|(key, interval)| (*key, interval_json(*interval)));
    let mut intervals: Map<String, Value> =
        named.map(|(key, interval)| (key.to_owned(), interval)).collect();
    intervals.insert("avg_jct_less_first_s".to_owned(), interval_json(row.intervals.difference));
    policy.insert("policy".to_owned(), Value::from(row.policy.to_string()));
    policy.insert("seeded".to_owned(), Value::from(row.seeded));
    policy.insert("avg_jct_less_first_s".to_owned(), Value::from(row.intervals.difference_s));
    policy.insert("intervals".to_owned(), Value::Object(intervals));
    let runs = row.runs.iter().map(|run| run_json(run.seed, &run.metrics));
    policy.insert("runs".to_owned(), runs.collect());
    Value::Object(policy)
}
