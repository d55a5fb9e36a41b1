//! What `slurm verify` shows.

use std::collections::BTreeMap;
use std::io::{self, Write};

use bandpilot_core::{GpuMask, counted};
use bandpilot_slurm::verify::{Row, Verdict, Verified};
use serde_json::{Value, json};

use crate::commands::ground::Remarks;
use crate::output::{Output, remarks_json, say, table, write_table};

pub struct Shown {
    pub verified: Verified,
    pub at_s: i64,
    pub appended: usize,
    pub remarks: Remarks,
}

impl Output for Shown {
    fn human(&self, w: &mut dyn Write) -> io::Result<()> {
        let rows = &self.verified.rows;
        let mut shown = table(&["JOB", "PLAN", "PLANNED", "HELD", "VERDICT"]);
        // Those that were in order before are only counted.
        let news = |row: &&Row| {
            let verdict = row.verdict;
            row.asked || verdict.bad() || verdict.open() || verdict == Verdict::NotSubmitted
        };
        for row in rows.iter().filter(news) {
            shown.add_row([
                row.job.as_deref().map_or("-".to_owned(), clean),
                clean(&row.plan),
                list(&row.planned),
                row.held.as_deref().map_or("-".to_owned(), list),
                verdict(row),
            ]);
        }
        if shown.row_count() > 0 {
            write_table(w, &shown)?;
            writeln!(w)?;
        }
        for double in &self.verified.double_bookings {
            let jobs = double.jobs.join(" and ");
            writeln!(w, "{}:{} is in two jobs at once: {jobs}", double.host, double.gpu)?;
        }
        let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
        for row in rows {
            *counts.entry(row.verdict.word()).or_default() += 1;
        }
        let counts: Vec<String> =
            counts.iter().map(|(word, count)| format!("{count} {word}")).collect();
        let counts = if counts.is_empty() { "nothing".to_owned() } else { counts.join("; ") };
        writeln!(w, "{}: {counts}", counted(rows.len(), "plan"))
    }

    fn json(&self) -> Value {
        let double = self
            .verified
            .double_bookings
            .iter()
            .map(|double| json!({"host": double.host, "gpu": double.gpu, "jobs": double.jobs}));
        json!({
            "at_s": self.at_s,
            "plans": self.verified.rows.iter().map(row).collect::<Vec<_>>(),
            "double_bookings": double.collect::<Vec<_>>(),
            "appended": self.appended,
            "diagnostics": remarks_json(&self.remarks),
        })
    }
}

fn row(row: &Row) -> Value {
    json!({
        "plan": row.plan,
        "job": row.job,
        "verdict": row.verdict.word().replace(", ", "_").replace(' ', "_"),
        "why": row.why,
        "planned": gpus(&row.planned),
        "held": row.held.as_deref().map(gpus),
        "asked": row.asked,
    })
}

fn gpus(list: &[(String, GpuMask)]) -> Vec<Value> {
    let one = |(host, mask): &(String, GpuMask)| json!({"host": host, "gpus": mask.iter().collect::<Vec<_>>()});
    list.iter().map(one).collect()
}

fn list(list: &[(String, GpuMask)]) -> String {
    let held = list.iter().filter(|(_, mask)| !mask.is_empty());
    let parts: Vec<String> = held.map(|(host, mask)| format!("{host}:{mask}")).collect();
    if parts.is_empty() { "-".to_owned() } else { clean(&parts.join(",")) }
}

fn verdict(row: &Row) -> String {
    let word = row.verdict.word();
    if row.why.is_empty() || row.verdict.word().starts_with("over") {
        return word.to_owned();
    }
    format!("{word}: {}", clean(&row.why))
}

/// The file may hold anything, and a terminal would obey control characters.
pub fn clean(text: &str) -> String {
    text.replace(char::is_control, "?")
}

/// Says of each job that Slurm has told of now what became of it.
pub fn say_new(verified: &Verified) {
    for row in verified.rows.iter().filter(|row| row.asked && !row.verdict.open()) {
        let job = row.job.as_deref().map_or("-".to_owned(), clean);
        say(&format!("job {job}, plan {}: {}", clean(&row.plan), verdict(row)));
    }
}
