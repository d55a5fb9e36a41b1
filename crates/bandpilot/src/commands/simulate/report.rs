//! The page for people.

use bandpilot_report::plot::{Axis, Estimate, Line, area, areas, estimates, heat, lines};
use bandpilot_report::{Cell, Column, Page, Table, grouped, span};
use bandpilot_sim::bootstrap::Interval;
use bandpilot_sim::series::Series;

use super::figures::{FIGURES, Kind, shown};
use super::judge::{Judged, jct_s, wait_s};
use super::runs::Stage;
use super::text::Simulated;
use super::words::{cautions, lead};
use crate::output::counted;

/// Points of a line over the jobs.
const CDF_POINTS: usize = 200;
/// Points of a line over time that stands among a few others, and among many.
const FEW: (usize, usize) = (4, 256);
const MANY_POINTS: usize = 96;
/// Most remarks that are shown.
const MAX_REMARKS: usize = 20;

/// Makes the page.
pub fn report(result: &Simulated, stage: &Stage, command: &str) -> String {
    let mut page =
        Page::new(&format!("{} on {}", name_of(&result.trace), counted(result.gpus, "GPU")));
    let jobs = format!("{} ({})", result.trace, counted(result.jobs, "job"));
    let cluster = format!("{}, {}", counted(result.hosts, "host"), counted(result.gpus, "GPU"));
    let version = format!("bandpilot {}", env!("CARGO_PKG_VERSION"));
    page.facts([
        ("Trace", &*jobs),
        ("Cluster", &cluster),
        (if result.seeds.len() == 1 { "Seed" } else { "Seeds" }, &result.seeds()),
        ("Made by", &version),
    ]);
    page.code(command);
    let names: Vec<String> = result.policies.iter().map(|row| row.policy.to_string()).collect();
    summary(&mut page, result);
    means(&mut page, result, &names);
    times(&mut page, result, stage, &names);
    over_time(&mut page, result, &names);
    one_by_one(&mut page, result, &names);
    remarks(&mut page, result);
    page.finish()
}

/// The last part of a path.
fn name_of(trace: &str) -> &str {
    match trace {
        "-" => "trace on stdin",
        trace => trace.rsplit(['/', '\\']).next().unwrap_or(trace),
    }
}

fn summary(page: &mut Page, result: &Simulated) {
    page.section("All figures", "");
    page.lead(&lead(result));
    for caution in cautions(result) {
        page.text(&format!("{caution}."));
    }
    if result.seeds.len() > 1 {
        page.text("Figures are means over the seeds. A policy that no seed changes was run once.");
    }
    let mut terms = Vec::new();
    for kind in [Kind::Times, Kind::Resources, Kind::Fragmentation] {
        // What is 0 or missing everywhere only takes room here.
        let any =
            |at: &usize| result.policies.iter().any(|row| row.shown(*at).is_some_and(|v| v != 0.0));
        let shown: Vec<usize> = shown(&result.policies, kind).into_iter().filter(any).collect();
        terms.extend(shown.iter().map(|at| (FIGURES[*at].name, FIGURES[*at].meaning)));
        if !shown.is_empty() {
            page.table(&figures(result, &shown));
        }
    }
    page.text("Marked: the best of each column, of the policies that can be the best. Below a figure: its 95 % interval. Times are rounded; point at one for its seconds.");
    let interval = "Drawn 1 000 times from blocks of jobs in order of submission (jobs that queue together are delayed together), and from the seeds: 95 of 100 draws lie within. It does not see that other jobs would also have queued otherwise.";
    page.glossary(terms.into_iter().chain([("95 % interval", interval)]));
}

fn figures(result: &Simulated, shown: &[usize]) -> Table {
    let column = |at: &usize| Column {
        name: FIGURES[*at].name.to_owned(),
        // Each time has a unit of its own.
        unit: if FIGURES[*at].unit == "s" { "" } else { FIGURES[*at].unit }.to_owned(),
        best: FIGURES[*at].best,
    };
    let row = |row: &Judged| {
        let cells = shown.iter().map(|at| cell(row, *at)).collect();
        (row.policy.to_string(), cells)
    };
    Table {
        rows: "Policy".to_owned(),
        columns: shown.iter().map(column).collect(),
        series: result.policies.iter().map(row).collect(),
    }
}

fn cell(row: &Judged, at: usize) -> Cell {
    let figure = &FIGURES[at];
    let Some(value) = row.shown(at) else {
        return Cell { text: "-".to_owned(), ..Cell::default() };
    };
    let interval = row.interval(figure.key);
    let compared = Some(value).filter(|_| row.candidate());
    if figure.unit == "s" {
        let below =
            interval.map(|Interval { low, high }| format!("{} – {}", span(low), span(high)));
        let title = format!("{} s", grouped(value, 2));
        return Cell {
            value: compared,
            text: span(value),
            below: below.unwrap_or_default(),
            title,
        };
    }
    let whole = figure.whole && value.fract() != 0.0;
    let text = grouped(value, figure.decimals.max(usize::from(whole)));
    Cell { value: compared, text, ..Cell::default() }
}

fn means(page: &mut Page, result: &Simulated, names: &[String]) {
    page.section(
        "Mean JCT and how sure it is",
        "The mark is the mean over all jobs, the line its 95 % interval. Two policies play the same jobs, so their difference is often much surer than each mean alone: look at the second plot before you say that two intervals overlap.",
    );
    let rows: Vec<Estimate<'_>> = names
        .iter()
        .zip(&result.policies)
        .enumerate()
        .filter_map(|(series, (name, row))| {
            let Interval { low, high } = row.interval("avg_jct_s")?;
            Some(Estimate { name, series, value: row.avg_jct_s()?, interval: (low, high) })
        })
        .collect();
    let longest = rows.iter().map(|row| row.interval.1.max(row.value)).fold(0.0, f64::max);
    page.figure("Mean JCT", &estimates(&rows, &Axis::duration_s("mean JCT", longest)));
    let Some(first) = names.first().filter(|_| names.len() > 1) else { return };
    let rows: Vec<Estimate<'_>> = names
        .iter()
        .zip(&result.policies)
        .enumerate()
        .skip(1)
        .filter_map(|(series, (name, row))| {
            let Interval { low, high } =
                row.less_first.and_then(|difference| difference.interval)?;
            let value = row.less_first?.less_s;
            Some(Estimate { name, series, value, interval: (low, high) })
        })
        .collect();
    let caption =
        format!("Mean JCT less that of {first} over the jobs that both ran: left of 0 is sooner");
    let widest = rows.iter().flat_map(|row| [row.interval.0.abs(), row.interval.1.abs()]);
    let axis = Axis::difference_s(&format!("less than {first}"), widest.fold(0.0, f64::max));
    page.figure(&caption, &estimates(&rows, &axis));
}

fn times(page: &mut Page, result: &Simulated, stage: &Stage, names: &[String]) {
    page.section(
        "How long jobs take",
        "The share of the jobs that are done (or have begun for good) within a time; the scale of times is in powers of ten. Higher and further left is better.",
    );
    page.legend(names.iter().map(String::as_str));
    let of =
        |values: fn(&bandpilot_sim::Workload, &super::runs::Run) -> Vec<f64>| -> Vec<Vec<f64>> {
            let policy = |row: &Judged| {
                let runs = row.runs.iter().enumerate();
                let all = runs.flat_map(|(at, run)| values(&stage.scene(at).workload, run));
                let mut all: Vec<f64> = all.filter(|value| !value.is_nan()).collect();
                all.sort_unstable_by(f64::total_cmp);
                all
            };
            result.policies.iter().map(policy).collect()
        };
    let shares = Axis::share("share of the jobs");
    for (caption, label, values) in [
        ("JCT: from submission to the end", "JCT", of(jct_s)),
        (
            "Wait: JCT less duration. Jobs that wait for less than a second stand at 1 s",
            "wait",
            of(wait_s),
        ),
    ] {
        let ends = |of: fn(&[f64]) -> Option<&f64>| values.iter().filter_map(move |all| of(all));
        let least = ends(<[f64]>::first).copied().reduce(f64::min).unwrap_or(1.0).max(1.0);
        let most = ends(<[f64]>::last).copied().fold(10.0 * least, f64::max);
        let axis = Axis::log_duration_s(label, least, most);
        let lines_of: Vec<Line<'_>> = names
            .iter()
            .zip(&values)
            .enumerate()
            .map(|(series, (name, all))| Line { name, series, points: cdf(all, most) })
            .collect();
        page.figure(caption, &lines(&lines_of, &axis, &shares, 320.0));
    }
}

/// Points of the cumulative distribution of sorted values, those below 1 taken as 1; at 1 up to `until`.
fn cdf(sorted: &[f64], until: f64) -> Vec<(f64, f64)> {
    let Some(last) = sorted.len().checked_sub(1) else { return Vec::new() };
    let points = CDF_POINTS.min(sorted.len());
    let point = |at: usize| {
        let rank = at * last / points.max(1);
        (sorted[rank].max(1.0), (rank + 1) as f64 / sorted.len() as f64)
    };
    let mut all = vec![(sorted[0].max(1.0), 0.0)];
    all.extend((0..=points).map(point));
    all.push((until, 1.0));
    all
}

/// Means over so many bins that no more than `most` points are left.
fn coarse(series: &Series, means: &[f64], most: usize) -> Vec<(f64, f64)> {
    let together = means.len().div_ceil(most).max(1);
    let bin_s = series.bin_s * together as f64;
    let point = |(at, part): (usize, &[f64])| {
        let from_s = at as f64 * bin_s;
        let to_s = (from_s + bin_s).min(series.span_s);
        (f64::midpoint(from_s, to_s), part.iter().sum::<f64>() / part.len() as f64)
    };
    means.chunks(together).enumerate().map(point).collect()
}

/// The recorded run of a policy.
fn series_of(row: &Judged) -> Option<&Series> {
    row.runs.first().and_then(|run| run.series.as_ref()).filter(|series| series.span_s > 0.0)
}

/// Time from the first submission to the end of the longest run.
fn time_axis(result: &Simulated) -> Axis {
    let spans = result.policies.iter().filter_map(series_of).map(|series| series.span_s);
    Axis::time_s(spans.fold(0.0, f64::max))
}

fn most(result: &Simulated, of: fn(&Series) -> &[f64]) -> f64 {
    let all = result.policies.iter().filter_map(series_of).flat_map(of);
    all.copied().fold(0.0, f64::max)
}

fn over_time(page: &mut Page, result: &Simulated, names: &[String]) {
    let first =
        if result.seeds.len() > 1 { " All plots over time are of the first seed." } else { "" };
    page.section(
        "Over time",
        &format!("How many GPUs are held, and how many jobs wait for some; means over short stretches of time.{first}"),
    );
    page.legend(names.iter().map(String::as_str));
    let time = time_axis(result);
    let points = if names.len() > FEW.0 { MANY_POINTS } else { FEW.1 };
    let drawn = |of: fn(&Series) -> &[f64]| -> Vec<Line<'_>> {
        let rows = names.iter().zip(&result.policies).enumerate();
        rows.filter_map(|(series, (name, row))| {
            let recorded = series_of(row)?;
            Some(Line { name, series, points: coarse(recorded, of(recorded), points) })
        })
        .collect()
    };
    let gpus = Axis::count("GPUs held", result.gpus as f64);
    page.figure(
        "Utilisation: GPUs held",
        &lines(&drawn(|series| &series.held), &time, &gpus, 260.0),
    );
    let waiting = Axis::count("jobs waiting", most(result, |series| &series.waiting));
    page.figure(
        "Length of the queue: jobs waiting",
        &lines(&drawn(|series| &series.waiting), &time, &waiting, 260.0),
    );
    let avoidable: Vec<Line<'_>> = drawn(|series| &series.avoidable);
    if avoidable.iter().any(|line| !line.points.is_empty()) {
        let hosts = Axis::count("hosts", most(result, |series| &series.avoidable));
        page.figure(
            "Fragmentation: hosts that are avoidably partial (N·SIF), also while nobody waits",
            &lines(&avoidable, &time, &hosts, 260.0),
        );
    }
}

fn one_by_one(page: &mut Page, result: &Simulated, names: &[String]) {
    let rows = result.policies.iter().filter_map(series_of).map(|series| series.hosts.len());
    let rows = rows.max().unwrap_or(0);
    let together = if result.hosts > rows && rows > 0 {
        format!(" There are {} hosts; neighbours share one of {rows} rows.", result.hosts)
    } else {
        String::new()
    };
    page.section(
        "Policy by policy",
        &format!("From top to bottom: GPUs held; GPUs that waiting jobs ask for; hosts, dark those with all GPUs held, pale the partial ones on top of them, white the empty ones; and each host over time, the first one on top. Many partial hosts, and a pale speckled strip, while GPUs are waited for are fragmentation.{together}"),
    );
    if rows > 0 {
        page.heat_scale("GPUs of the host: all idle", "all held");
    }
    let time = time_axis(result);
    let gpus = Axis::count("held", result.gpus as f64);
    let hosts = Axis::count("hosts", result.hosts as f64);
    let asked = Axis::count("asked for", most(result, |series| &series.waited_for));
    for (series, (name, row)) in names.iter().zip(&result.policies).enumerate() {
        page.series_heading(series, name);
        let Some(recorded) = series_of(row) else {
            page.text("No job ran.");
            continue;
        };
        let line =
            |means: &[f64]| Line { name, series, points: coarse(recorded, means, usize::MAX) };
        let counted = recorded.hosts.is_empty();
        page.figure("", &area(&line(&recorded.held), &time, &gpus, 90.0, false));
        page.figure("", &area(&line(&recorded.waited_for), &time, &asked, 90.0, counted));
        if counted {
            page.text("This placement only counts GPUs: there are no hosts to show.");
            continue;
        }
        let in_use: Vec<f64> =
            recorded.full.iter().zip(&recorded.partial).map(|(full, part)| full + part).collect();
        let occupancy = [line(&in_use), line(&recorded.full)];
        page.figure("", &areas(&occupancy, &time, &hosts, 90.0, false));
        let height = (recorded.hosts.len() as f64 * 6.0).clamp(36.0, 200.0);
        page.figure("", &heat("hosts", &recorded.hosts, recorded.span_s, &time, height));
    }
}

fn remarks(page: &mut Page, result: &Simulated) {
    if result.remarks.is_empty() {
        return;
    }
    page.section("Remarks", "");
    for (file, remark) in result.remarks.iter().take(MAX_REMARKS) {
        page.text(&remark.display(file).to_string());
    }
    if result.remarks.len() > MAX_REMARKS {
        page.text(&format!("... and {} more.", result.remarks.len() - MAX_REMARKS));
    }
}
