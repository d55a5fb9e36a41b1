//! The result on stdout: for people and as JSON.

use std::io::{self, Write};

use bandpilot_sim::Policy;
use serde_json::{Map, Value, json};

use super::cut::Cut;
use super::verdict::{CLOSE, FIGURES, Match, OfEta, Over, no_rival, rivals};
use crate::cli::SizeBy;
use crate::commands::ground::Remarks;
use crate::commands::simulate::text::{fixed, value_json, wrapped};
use crate::commands::simulate::words::names;
use crate::output::{Output, counted, remarks_json, table, write_table};

/// Most windows that are listed for people.
const MAX_LISTED: usize = 10;

/// What came out.
pub struct Studied {
    pub trace: String,
    pub window_s: f64,
    pub host_gpus: usize,
    pub size_by: SizeBy,
    pub least_jobs: usize,
    pub seeds: Vec<u64>,
    pub bad_rows: usize,
    pub cut: Cut,
    pub policies: Vec<Policy>,
    /// Place of the judged one.
    pub judged: usize,
    pub etas: Vec<OfEta>,
    pub remarks: Remarks,
    /// Files that were written.
    pub files: Vec<String>,
}

impl Studied {
    /// Jobs that were refused by the policy that refused most, in the runs of the first seed and eta.
    pub fn refused(&self) -> usize {
        let first = self.etas.first().map_or(&[][..], |of| &of.played);
        let by = |policy: usize| -> usize {
            let runs = first.iter().filter_map(|played| played.runs[policy].first());
            runs.map(|run| run.metrics.refused).sum()
        };
        (0..self.policies.len()).map(by).max().unwrap_or(0)
    }

    /// Windows with too few jobs.
    pub fn few(&self) -> impl Iterator<Item = i64> {
        let few = self.cut.windows.iter().filter(|window| window.jobs < self.least_jobs);
        few.map(|window| window.number)
    }

    /// How long windows are.
    pub fn window(&self) -> String {
        bandpilot_report::duration(self.window_s)
    }

    /// A figure of a policy as people see it.
    pub fn shown(of: &OfEta, policy: usize, figure: usize) -> Option<f64> {
        of.figures[policy][figure].map(|value| value * FIGURES[figure].scale)
    }

    /// Rows of [`FIGURES`] that people see.
    pub fn columns(&self) -> Vec<usize> {
        let says = |at: usize| {
            let values = self.etas.iter().flat_map(|of| of.figures.iter().map(move |row| row[at]));
            match FIGURES[at].key {
                "bound_share" => values.flatten().any(|share| share >= 5e-4),
                _ => values.flatten().next().is_some(),
            }
        };
        (0..FIGURES.len()).filter(|at| says(*at)).collect()
    }

    fn head(&self, w: &mut dyn Write) -> io::Result<()> {
        writeln!(
            w,
            "trace   {}: {} in {} of {}",
            self.trace,
            counted(self.cut.jobs, "job"),
            counted(self.cut.windows.len(), "window"),
            self.window()
        )?;
        let whose = match self.size_by {
            SizeBy::Window => "a cluster for each window",
            SizeBy::Trace => "one cluster for all windows",
        };
        writeln!(w, "hosts   of {}, {whose}", counted(self.host_gpus, "GPU"))?;
        let seeds = self.seeds.iter().map(u64::to_string).collect::<Vec<_>>().join(", ");
        writeln!(w, "seed{}   {seeds}", if self.seeds.len() == 1 { " " } else { "s" })?;
        if let Some(mixed) = &self.cut.mixed {
            let of = if self.seeds.len() == 1 { "" } else { " (first seed)" };
            writeln!(w, "mix     {} jobs, {} instances{of}", mixed.jobs, mixed.instances)?;
        }
        if self.bad_rows > 0 {
            writeln!(w, "wrong rows of the trace, left out: {}", self.bad_rows)?;
        }
        let few: Vec<i64> = self.few().collect();
        if !few.is_empty() {
            let line = format!(
                "not played, as they have fewer than {}: windows {}",
                counted(self.least_jobs, "job"),
                numbers(&few)
            );
            writeln!(w, "{}", wrapped(&line))?;
        }
        Ok(())
    }

    fn figures(&self, w: &mut dyn Write, of: &OfEta) -> io::Result<()> {
        let columns = self.columns();
        let mut heads = vec!["POLICY"];
        heads.extend(columns.iter().map(|at| FIGURES[*at].head));
        let mut rows = table(&heads);
        for (policy, name) in self.policies.iter().enumerate() {
            let cell = |at: &usize| {
                let value = Self::shown(of, policy, *at);
                value.map_or("-".to_owned(), |value| fixed(value, FIGURES[*at].decimals))
            };
            let mut cells = vec![name.to_string()];
            cells.extend(columns.iter().map(cell));
            rows.add_row(cells);
        }
        write_table(w, &rows)
    }

    /// How often the judged policy is the best, in a sentence.
    pub fn sentence(&self, of: &OfEta) -> Option<String> {
        let rivals = rivals(&self.policies, self.judged);
        if rivals.is_empty() || of.matches.is_empty() {
            return None;
        }
        let all = of.matches.len();
        let share =
            |count: usize| format!("{count} ({} %)", fixed(100.0 * count as f64 / all as f64, 1));
        Some(format!(
            "{} against {}: of {} its AFR is the lowest in {}, in {} alone; its mean JCT no worse than the best of the others in {}, within {} % of it in {}",
            self.policies[self.judged],
            names(rivals.iter().map(|at| self.policies[*at])),
            counted(all, "window"),
            share(of.count(Match::afr_lowest)),
            of.count(Match::afr_alone),
            share(of.count(Match::jct_no_worse)),
            fixed(100.0 * CLOSE, 1),
            share(of.count(Match::jct_close)),
        ))
    }

    /// The policies that it is not set against, and why.
    pub fn left_out(&self) -> Option<String> {
        let others = self.policies.iter().enumerate().filter(|(at, _)| *at != self.judged);
        let why = others.filter_map(|(_, other)| {
            Some(format!("{other} ({})", no_rival(self.policies[self.judged], *other)?))
        });
        let why: Vec<String> = why.collect();
        (!why.is_empty()).then(|| format!("not set against {}", why.join(", ")))
    }

    fn lost(&self, w: &mut dyn Write, of: &OfEta) -> io::Result<()> {
        let mut lost: Vec<&Match> = of.matches.iter().filter(|one| one.lost()).collect();
        if lost.is_empty() {
            return Ok(());
        }
        let more = lost.len().saturating_sub(MAX_LISTED);
        let by = |one: &Match| (one.jct_s.0 - one.jct_s.1.0) / one.jct_s.1.0;
        lost.sort_by(|a, b| by(b).total_cmp(&by(a)).then(a.window.cmp(&b.window)));
        let mut rows = table(&[
            "WINDOW",
            "JOBS",
            "HOSTS",
            "AFR",
            "LEAST",
            "OF",
            "MEAN JCT S",
            "LEAST",
            "OF",
            "WCC",
        ]);
        for one in lost.iter().take(MAX_LISTED) {
            let window = &self.cut.windows[one.window];
            let name = |at: usize| self.policies[at].to_string();
            rows.add_row([
                window.number.to_string(),
                window.jobs.to_string(),
                one.hosts.to_string(),
                fixed(one.afr.0, 4),
                fixed(one.afr.1.0, 4),
                name(one.afr.1.1),
                fixed(one.jct_s.0, 0),
                fixed(one.jct_s.1.0, 0),
                name(one.jct_s.1.1),
                if one.wcc { "always" } else { "not always" }.to_owned(),
            ]);
        }
        writeln!(w, "\nnot the best in both, the longest JCT first:")?;
        write_table(w, &rows)?;
        if more > 0 {
            writeln!(w, "and {more} more; --json and --out have them all")?;
        }
        Ok(())
    }

    fn eta(&self, w: &mut dyn Write, of: &OfEta) -> io::Result<()> {
        let hosts = of.hosts().map_or(String::new(), |(fewest, most)| {
            if fewest == most {
                format!(" on {}", counted(fewest, "host"))
            } else {
                format!(" on {fewest} to {}", counted(most, "host"))
            }
        });
        writeln!(
            w,
            "\neta {}: {} in which jobs wait{hosts}",
            of.eta,
            counted(of.counted.len(), "window")
        )?;
        let calm: Vec<i64> = of.calm(&self.cut).collect();
        if !calm.is_empty() {
            let line = format!("left out, as nobody waits: windows {}", numbers(&calm));
            writeln!(w, "{}", wrapped(&line))?;
        }
        self.figures(w, of)?;
        if let Some(sentence) = self.sentence(of) {
            writeln!(w, "\n{}", wrapped(&sentence))?;
            if let Some(left_out) = self.left_out() {
                writeln!(w, "{}", wrapped(&left_out))?;
            }
        }
        self.lost(w, of)
    }
}

/// Numbers in a list, neighbours as a range.
pub fn numbers(all: &[i64]) -> String {
    let mut parts: Vec<(i64, i64)> = Vec::new();
    for number in all {
        match parts.last_mut() {
            Some((_, last)) if *last + 1 == *number => *last = *number,
            _ => parts.push((*number, *number)),
        }
    }
    let part = |(first, last): &(i64, i64)| match last - first {
        0 => first.to_string(),
        1 => format!("{first}, {last}"),
        _ => format!("{first}-{last}"),
    };
    parts.iter().map(part).collect::<Vec<_>>().join(", ")
}

impl Output for Studied {
    fn human(&self, w: &mut dyn Write) -> io::Result<()> {
        self.head(w)?;
        self.etas.iter().try_for_each(|of| self.eta(w, of))?;
        let terms = self.columns().into_iter().map(|at| &FIGURES[at]);
        let terms = terms.map(|figure| {
            let head = figure.head.trim_end_matches([' ', '%']).trim_end_matches(" S");
            format!("{head}: {}", figure.meaning)
        });
        let terms = terms.collect::<Vec<_>>().join("; ");
        writeln!(w, "\n{}", wrapped(&format!("{terms}. Figures are means over windows.")))?;
        if !self.files.is_empty() {
            writeln!(w, "\nwritten {}", self.files.join(", "))?;
        }
        Ok(())
    }

    fn json(&self) -> Value {
        let few: Vec<i64> = self.few().collect();
        json!({
            "trace": self.trace,
            "jobs": self.cut.jobs,
            "bad_rows": self.bad_rows,
            "window_s": self.window_s,
            "host_gpus": self.host_gpus,
            "size_by": match self.size_by { SizeBy::Window => "window", SizeBy::Trace => "trace" },
            "seeds": self.seeds,
            "mixed": self.cut.mixed.map(|mixed| json!({
                "jobs": mixed.jobs,
                "instances": mixed.instances,
            })),
            "windows": self.cut.windows.len(),
            "least_jobs": self.least_jobs,
            "few_jobs": few,
            "judged": self.policies[self.judged].to_string(),
            "etas": self.etas.iter().map(|of| self.eta_json(of)).collect::<Vec<_>>(),
            "diagnostics": remarks_json(&self.remarks),
        })
    }
}

impl Studied {
    fn eta_json(&self, of: &OfEta) -> Value {
        let policy = |(at, name): (usize, &Policy)| {
            let values = FIGURES.iter().zip(&of.figures[at]);
            let values = values.map(|(figure, value)| {
                (figure.key.to_owned(), value_json(figure.over != Over::Mean, *value))
            });
            let mut row: Map<String, Value> = values.collect();
            row.insert("policy".to_owned(), Value::from(name.to_string()));
            Value::Object(row)
        };
        let calm: Vec<i64> = of.calm(&self.cut).collect();
        json!({
            "eta": of.eta,
            "windows": of.counted.len(),
            "no_waiting": calm,
            "fewest_hosts": of.hosts().map(|(fewest, _)| fewest),
            "most_hosts": of.hosts().map(|(_, most)| most),
            "policies": self.policies.iter().enumerate().map(policy).collect::<Vec<_>>(),
            "compared": of.matches.len(),
            "afr_lowest": of.count(Match::afr_lowest),
            "afr_lowest_alone": of.count(Match::afr_alone),
            "jct_no_worse": of.count(Match::jct_no_worse),
            "jct_close": of.count(Match::jct_close),
            "matches": of.matches.iter().map(|one| self.match_json(one)).collect::<Vec<_>>(),
        })
    }

    fn match_json(&self, one: &Match) -> Value {
        let window = &self.cut.windows[one.window];
        json!({
            "window": window.number,
            "from_s": window.from_s,
            "jobs": window.jobs,
            "hosts": one.hosts,
            "afr": one.afr.0,
            "least_afr": one.afr.1.0,
            "least_afr_policy": self.policies[one.afr.1.1].to_string(),
            "avg_jct_s": one.jct_s.0,
            "least_avg_jct_s": one.jct_s.1.0,
            "least_avg_jct_policy": self.policies[one.jct_s.1.1].to_string(),
            "wcc_throughout": one.wcc,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::numbers;

    #[test]
    fn neighbours_are_a_range() {
        for (all, text) in [
            (&[][..], ""),
            (&[-1], "-1"),
            (&[1, 2, 4], "1, 2, 4"),
            (&[1, 2, 3, 7, 9, 10, 11, 12], "1-3, 7, 9-12"),
        ] {
            assert_eq!(numbers(all), text);
        }
    }
}
