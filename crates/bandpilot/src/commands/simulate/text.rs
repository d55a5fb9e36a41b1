//! The result on stdout: for people and as JSON.

use std::io::{self, Write};

use bandpilot_sim::bootstrap::Interval;
use bandpilot_sim::{LeftOut, Metrics, Mixed};
use serde_json::{Map, Value, json};

use super::figures::{FIGURES, Kind, figures, shown};
use super::judge::{Judged, Verdict};
use super::words::cautions;
use crate::commands::ground::Remarks;
use crate::output::{Output, remarks_json, table, write_table};

/// Columns of a terminal that texts take.
const MAX_WIDTH: usize = 110;

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
    pub verdict: Verdict,
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

    /// A table of the figures of one kind.
    fn figures(&self, w: &mut dyn Write, kind: Kind) -> io::Result<()> {
        let shown = shown(&self.policies, kind);
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
        write_table(w, &rows)
    }

    /// What the heads mean that do not say it.
    fn legend(&self) -> String {
        let kinds = [Kind::Times, Kind::Resources, Kind::Fragmentation];
        let shown = kinds.into_iter().flat_map(|kind| shown(&self.policies, kind));
        let said = shown.map(|at| FIGURES[at].legend).filter(|legend| !legend.is_empty());
        said.collect::<Vec<_>>().join("; ")
    }

    fn intervals(&self, w: &mut dyn Write) -> io::Result<()> {
        let mut heads = vec!["95 % INTERVALS", "MEAN JCT S", "MEDIAN", "WAIT S"];
        if self.policies.len() > 1 {
            heads.push("MEAN JCT LESS FIRST");
        }
        let mut rows = table(&heads);
        for (at, row) in self.policies.iter().enumerate() {
            let mut cells = vec![row.policy.to_string()];
            cells.extend(row.intervals.iter().map(|(_, interval)| ends(*interval)));
            if at > 0 {
                cells.push(ends(row.less_first.and_then(|difference| difference.interval)));
            }
            rows.add_row(cells);
        }
        write_table(w, &rows)
    }

    fn foot(&self, w: &mut dyn Write) -> io::Result<()> {
        let first = self.policies.first().filter(|_| self.policies.len() > 1);
        if let Some(first) = first {
            writeln!(
                w,
                "\nless first: mean JCT less that of {}, over the jobs that both ran",
                first.policy
            )?;
        }
        for caution in cautions(self) {
            writeln!(w, "\n{}", wrapped(&caution))?;
        }
        if !self.files.is_empty() {
            writeln!(w, "\nwritten {}", self.files.join(", "))?;
        }
        Ok(())
    }
}

/// A text in lines that are no longer than the tables.
pub fn wrapped(text: &str) -> String {
    let mut lines = String::new();
    let mut width = 0;
    for word in text.split(' ') {
        let length = word.chars().count();
        if width > 0 && width + 1 + length > MAX_WIDTH {
            lines.push('\n');
            width = 0;
        } else if width > 0 {
            lines.push(' ');
            width += 1;
        }
        lines.push_str(word);
        width += length;
    }
    lines
}

/// A figure with its decimals; a mean over runs of whole numbers with one.
fn number(at: usize, value: f64) -> String {
    let decimals = FIGURES[at].decimals.max(usize::from(FIGURES[at].whole && value.fract() != 0.0));
    fixed(value, decimals)
}

/// A number that is rounded to nothing has no sign.
pub fn fixed(value: f64, decimals: usize) -> String {
    let text = format!("{value:.decimals$}");
    match text.strip_prefix('-') {
        Some(rest) if rest.bytes().all(|byte| matches!(byte, b'0' | b'.')) => rest.to_owned(),
        _ => text,
    }
}

fn ends(interval: Option<Interval>) -> String {
    interval.map_or("-".to_owned(), |Interval { low, high }| {
        format!("{} .. {}", fixed(low, 0), fixed(high, 0))
    })
}

impl Output for Simulated {
    fn human(&self, w: &mut dyn Write) -> io::Result<()> {
        self.head(w)?;
        self.figures(w, Kind::Times)?;
        writeln!(w)?;
        self.figures(w, Kind::Resources)?;
        writeln!(w)?;
        self.figures(w, Kind::Fragmentation)?;
        writeln!(w, "\n{}", wrapped(&self.legend()))?;
        writeln!(w)?;
        self.intervals(w)?;
        self.foot(w)
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
            "winner": self.verdict.winner().map(|at| self.policies[at].policy.to_string()),
            "policies": policies,
            "diagnostics": remarks_json(&self.remarks),
        })
    }
}

/// A figure; whole numbers of a single run stay whole.
pub fn value_json(whole: bool, value: Option<f64>) -> Value {
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
    let named = row.intervals.iter().map(|(key, interval)| (*key, interval_json(*interval)));
    let mut intervals: Map<String, Value> =
        named.map(|(key, interval)| (key.to_owned(), interval)).collect();
    let less_first = row.less_first;
    let interval = interval_json(less_first.and_then(|difference| difference.interval));
    intervals.insert("avg_jct_less_first_s".to_owned(), interval);
    policy.insert("policy".to_owned(), Value::from(row.policy.to_string()));
    policy.insert("seeded".to_owned(), Value::from(row.seeded));
    policy.insert("bound".to_owned(), Value::from(row.policy.placement.bound));
    policy.insert("not_run".to_owned(), Value::from(row.ran.1.saturating_sub(row.ran.0)));
    let less_s = less_first.map(|difference| difference.less_s);
    policy.insert("avg_jct_less_first_s".to_owned(), Value::from(less_s));
    let jobs = less_first.map_or(0, |difference| difference.jobs);
    policy.insert("less_first_jobs".to_owned(), Value::from(jobs));
    policy.insert("intervals".to_owned(), Value::Object(intervals));
    let runs = row.runs.iter().map(|run| run_json(run.seed, &run.metrics));
    policy.insert("runs".to_owned(), runs.collect());
    Value::Object(policy)
}
