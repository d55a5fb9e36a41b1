//! What a tolerance of `bandpilot-tradeoff` gives up in bandwidth and saves in time that the first job is blocked by
//! fragmentation: a table, and a page with the curve.
//!
//! `cargo run --release -p bandpilot --example tradeoff_curve -- BANDPILOT PAGE.html ORDER [ARGUMENT of simulate..]`
#![allow(clippy::unwrap_used, clippy::print_stdout)]

use std::process::Command;

use bandpilot_report::plot::{Axis, Line, lines};
use bandpilot_report::{Page, span};
use serde_json::Value;

/// Per cent of the best bandwidth.
const TOLERANCES: [f64; 9] = [0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0];

struct Row {
    name: String,
    tolerance: Option<f64>,
    busbw: f64,
    low_busbw: f64,
    blocked_s: f64,
    jct_s: f64,
    jct_interval_s: (f64, f64),
    afr: f64,
}

fn main() {
    let mut args = std::env::args().skip(1);
    let mut next = |what: &str| args.next().expect(what);
    let (bandpilot, page, order) = (next("BANDPILOT"), next("PAGE.html"), next("ORDER"));
    let rest: Vec<String> = args.collect();
    let run = |policies: &str, tolerance: Option<f64>| -> Vec<Row> {
        let tradeoff = tolerance.map(|percent| ["--tradeoff".to_owned(), format!("{percent}%")]);
        let output = Command::new(&bandpilot)
            .args(["simulate", "--json", "--policy", policies])
            .args(tradeoff.into_iter().flatten())
            .args(&rest)
            .output()
            .expect("BANDPILOT runs");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let value: Value = serde_json::from_slice(&output.stdout).unwrap();
        value["policies"].as_array().unwrap().iter().map(|of| row(of, tolerance)).collect()
    };
    let others = format!("{order}/packed,{order}/best-fit");
    let mut rows = run(&others, None);
    let tradeoff = format!("{order}/bandpilot-tradeoff");
    rows.extend(TOLERANCES.into_iter().flat_map(|percent| run(&tradeoff, Some(percent))));
    println!("| placement | mean JCT s | GB/s mean | GB/s p5 | blocked s | AFR |");
    println!("|---|---:|---:|---:|---:|---:|");
    for row in &rows {
        let (low, high) = row.jct_interval_s;
        let name = match row.tolerance {
            Some(percent) => format!("bandpilot-tradeoff, {percent} %"),
            None => row.name.rsplit('/').next().unwrap_or("").to_owned(),
        };
        println!(
            "| {name} | {:.1} ({low:.0} to {high:.0}) | {:.1} | {:.1} | {:.0} | {:.4} |",
            row.jct_s, row.busbw, row.low_busbw, row.blocked_s, row.afr
        );
    }
    std::fs::write(page, curve(&order, &rest, &rows)).expect("PAGE.html can be written");
}

fn row(of: &Value, tolerance: Option<f64>) -> Row {
    let number = |key: &str| of[key].as_f64().unwrap_or(f64::NAN);
    let interval = &of["intervals"]["avg_jct_s"];
    Row {
        name: of["policy"].as_str().unwrap().to_owned(),
        tolerance,
        busbw: number("avg_busbw_gbytes_per_s"),
        low_busbw: number("p05_busbw_gbytes_per_s"),
        blocked_s: number("head_blocked_s"),
        jct_s: number("avg_jct_s"),
        jct_interval_s: (interval["low"].as_f64().unwrap(), interval["high"].as_f64().unwrap()),
        afr: number("afr"),
    }
}

/// Both against the tolerance, less what they are at 0 %.
fn curve(order: &str, arguments: &[String], rows: &[Row]) -> String {
    let mut page = Page::new("Bandwidth given up against blocked time saved");
    page.code(&format!("{order}, {}", arguments.join(" ")));
    let of: Vec<&Row> = rows.iter().filter(|row| row.tolerance.is_some()).collect();
    let given_up = |row: &Row| (100.0 * (1.0 - row.busbw / of[0].busbw)).max(0.0);
    let saved_s = |row: &Row| (of[0].blocked_s - row.blocked_s).max(0.0);
    let most = |value: &dyn Fn(&Row) -> f64| of.iter().map(|row| value(row)).fold(0.0, f64::max);
    let x = Axis::count("tolerance, % of the best bandwidth", 10.0);
    let line = |name: &'static str, series: usize, value: &dyn Fn(&Row) -> f64| Line {
        name,
        series,
        points: of.iter().map(|row| (row.tolerance.unwrap_or(0.0), value(row))).collect(),
    };
    let bandwidth = line("bandwidth given up", 0, &given_up);
    let label = "mean bandwidth given up, %";
    page.figure(label, &lines(&[bandwidth], &x, &Axis::count(label, most(&given_up)), 220.0));
    let blocked = line("blocked time saved", 1, &saved_s);
    let label = "blocked time saved";
    page.figure(label, &lines(&[blocked], &x, &Axis::duration_s(label, most(&saved_s)), 220.0));
    page.section("Price", "");
    let mut exchange = Line { name: "exchange", series: 2, points: Vec::new() };
    exchange.points = of.iter().map(|row| (given_up(row), saved_s(row))).collect();
    exchange.points.sort_by(|a, b| a.0.total_cmp(&b.0));
    let x = Axis::count("mean bandwidth given up, %", most(&given_up));
    page.figure(
        "What it buys",
        &lines(&[exchange], &x, &Axis::duration_s(label, most(&saved_s)), 220.0),
    );
    for row in of {
        page.text(&format!(
            "{} %: {:.1} GB/s, blocked for {}, AFR {:.4}, mean JCT {:.0} s.",
            row.tolerance.unwrap_or(0.0),
            row.busbw,
            span(row.blocked_s),
            row.afr,
            row.jct_s
        ));
    }
    page.finish()
}
