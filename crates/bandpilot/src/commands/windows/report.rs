//! The page for people.

use bandpilot_report::plot::{Axis, Line, lines};
use bandpilot_report::{Best, Cell, Column, Page, Table, grouped, span};
use bandpilot_sim::Metrics;

use super::text::{Studied, numbers};
use super::verdict::{FIGURES, Figure, OfEta, Over, afr, avg_jct_s, of_runs};
use crate::output::counted;

/// Makes the page.
pub fn report(result: &Studied, command: &str) -> String {
    let name = result.trace.rsplit(['/', '\\']).next().unwrap_or(&result.trace);
    let mut page = Page::new(&format!("{name} in windows of {}", result.window()));
    let windows = counted(result.cut.windows.len(), "window");
    let jobs = format!("{} ({}, {windows})", result.trace, counted(result.cut.jobs, "job"));
    let seeds = result.seeds.iter().map(u64::to_string).collect::<Vec<_>>().join(", ");
    let version = format!("bandpilot {}", env!("CARGO_PKG_VERSION"));
    let hosts = format!("hosts of {}", counted(result.host_gpus, "GPU"));
    page.facts([("Trace", &*jobs), ("Cluster", &hosts), ("Seeds", &seeds), ("Made by", &version)]);
    page.code(command);
    let few: Vec<i64> = result.few().collect();
    for of in &result.etas {
        summary(&mut page, result, of, &few);
        by_window(&mut page, result, of);
    }
    page.section("What the figures mean", "");
    page.text("Each window is played alone, from an empty cluster until all of its jobs are done. Figures are means over the windows in which jobs wait with some policy.");
    page.glossary(result.columns().into_iter().map(|at| (FIGURES[at].head, FIGURES[at].meaning)));
    page.finish()
}

fn summary(page: &mut Page, result: &Studied, of: &OfEta, few: &[i64]) {
    page.section(&format!("Eta {}", of.eta), "");
    if let Some(sentence) = result.sentence(of) {
        page.lead(&format!("{sentence}."));
        if let Some(left_out) = result.left_out() {
            page.text(&format!("It is {left_out}."));
        }
    }
    if let Some((fewest, most)) = of.hosts() {
        page.text(&format!("Clusters of {fewest} to {most} hosts."));
    }
    let calm: Vec<i64> = of.calm(&result.cut).collect();
    for (windows, why) in [(few, "too few jobs"), (&calm, "nobody waits")] {
        if !windows.is_empty() {
            page.text(&format!("Left out ({why}): windows {}.", numbers(windows)));
        }
    }
    page.table(&figures(result, of));
}

fn figures(result: &Studied, of: &OfEta) -> Table {
    let columns = result.columns();
    let column = |at: &usize| {
        let Figure { head, lower, over, .. } = &FIGURES[*at];
        let best =
            lower.map_or(Best::None, |lower| if lower { Best::Lowest } else { Best::Highest });
        let unit = if *over == Over::Sum { "in all" } else { "" };
        Column { name: (*head).to_owned(), unit: unit.to_owned(), best }
    };
    let row = |(policy, name): (usize, &bandpilot_sim::Policy)| {
        let cell = |at: &usize| {
            let Some(value) = Studied::shown(of, policy, *at) else {
                return Cell { text: "-".to_owned(), ..Cell::default() };
            };
            let text = grouped(value, FIGURES[*at].decimals);
            let compared = Some(value).filter(|_| !name.placement.bound);
            Cell { value: compared, text, ..Cell::default() }
        };
        (name.to_string(), columns.iter().map(cell).collect())
    };
    Table {
        rows: "Policy".to_owned(),
        columns: columns.iter().map(column).collect(),
        series: result.policies.iter().enumerate().map(row).collect(),
    }
}

fn by_window(page: &mut Page, result: &Studied, of: &OfEta) {
    let names: Vec<String> = result.policies.iter().map(ToString::to_string).collect();
    let number = |played: &usize| result.cut.windows[of.played[*played].window].number;
    let first = of.counted.first().map_or(0, number);
    let at = |played: usize| (number(&played) - first) as f64;
    let last = of.counted.last().map_or(1.0, |last| at(*last));
    let time = Axis::count(&format!("windows after number {first}"), last.max(1.0));
    page.legend(names.iter().map(String::as_str));
    let drawn = |figure: &dyn Fn(usize, usize) -> Option<f64>| -> Vec<Line<'_>> {
        let line = |(series, name)| {
            let points = of
                .counted
                .iter()
                .filter_map(|window| Some((at(*window), figure(*window, series)?)));
            Line { name, series, points: points.collect() }
        };
        names.iter().map(String::as_str).enumerate().map(line).collect()
    };
    let of_window = |get: fn(&Metrics) -> Option<f64>| {
        move |window: usize, policy: usize| of_runs(&of.played[window].runs[policy], get)
    };
    let figure = of_window(afr);
    let all = drawn(&figure);
    let most = highest(&all);
    page.figure("AFR of each window", &lines(&all, &time, &Axis::count("AFR", most), 280.0));
    let jct_s = of_window(avg_jct_s);
    let judged = &names[result.judged];
    let relative =
        |window: usize, policy: usize| Some(jct_s(window, policy)? / jct_s(window, result.judged)?);
    let all = drawn(&relative);
    let most = highest(&all);
    let caption =
        format!("Mean JCT of each window as a multiple of that of {judged}: above 1 is later");
    page.figure(&caption, &lines(&all, &time, &Axis::count("times as long", most), 280.0));
    let longest = of.figures.iter().filter_map(|row| row[0]).fold(0.0, f64::max);
    page.text(&format!("The longest mean over all windows is {}.", span(longest)));
}

fn highest(lines: &[Line<'_>]) -> f64 {
    let values = lines.iter().flat_map(|line| line.points.iter().map(|(_, value)| *value));
    values.filter(|value| value.is_finite()).fold(0.0, f64::max)
}
