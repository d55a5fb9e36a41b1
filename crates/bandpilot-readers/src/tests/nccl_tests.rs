use std::fmt::Write as _;

use proptest::prelude::*;

use super::*;
use crate::Severity;

const HEADER: &str = "#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong\n#        (B)    (elements)                               (us)  (GB/s)  (GB/s)            (us)  (GB/s)  (GB/s)\n";

fn devices(hosts: usize, gpus: usize) -> String {
    let mut text = "# Using devices\n".to_owned();
    for rank in 0..hosts * gpus {
        let (host, device) = (rank / gpus + 1, rank % gpus);
        writeln!(
            text,
            "#  Rank {rank:2} Group  0 Pid 1 on h{host} device {device:2} [0x0f] NVIDIA H100"
        )
        .unwrap();
    }
    text
}

/// Rows as nccl-tests would print them at these algorithm bandwidths.
fn rows(op: Collective, ranks: usize, speeds: &[f64]) -> String {
    let mut text = String::new();
    for (at, algbw) in speeds.iter().enumerate() {
        let gathers =
            matches!(op, Collective::AllGather | Collective::ReduceScatter | Collective::AllToAll);
        let parts = if gathers { ranks as u64 } else { 1 };
        let count = 1_u64 << (18 + at);
        let size = count * 4 * parts;
        let (time, busbw) = (size as f64 / algbw / 1e3, algbw * op.busbw_factor(ranks));
        let half = format!("{time:7.1} {algbw:7.2} {busbw:7.2} {:>6}", "0");
        writeln!(text, "{size:12} {count:12} float sum -1 {half} {half}").unwrap();
    }
    text
}

fn options(op: &str, placement: &str) -> ImportOptions {
    ImportOptions {
        op: (!op.is_empty()).then(|| op.parse().unwrap()),
        placement: (!placement.is_empty()).then(|| crate::placement::by_name(placement).value),
        ..ImportOptions::default()
    }
}

fn shown(import: &Import) -> String {
    let lines: Vec<String> =
        import.diagnostics.iter().map(|d| d.display("o.txt").to_string()).collect();
    lines.join("\n")
}

fn good() -> String {
    devices(2, 8) + HEADER + &rows(Collective::AllReduce, 16, &[10.0, 20.0, 123.456])
}

#[test]
fn takes_the_out_of_place_bandwidth() {
    let import = read("o.txt", &good(), &options("all_reduce", ""));
    assert_eq!(shown(&import), "");
    assert_eq!(import.measurements.len(), 3);
    let first = &import.measurements[0];
    assert_eq!(first.bytes, Some(1 << 20));
    assert_eq!(first.busbw_gbytes_per_s, 18.75);
    assert_eq!((first.source.as_str(), first.line), ("o.txt", 20));
    assert_eq!(crate::placement::format(&first.placement), "h1:0-7,h2:0-7");
}

#[test]
fn nothing_is_guessed() {
    let no_op = read("o.txt", &good(), &options("", ""));
    assert!(no_op.refused);
    assert!(shown(&no_op).contains("does not say which collective"), "{}", shown(&no_op));
    let table = HEADER.to_owned() + &rows(Collective::AllReduce, 16, &[10.0]);
    let no_place = read("o.txt", &table, &options("all_reduce", ""));
    assert!(shown(&no_place).contains("does not list its devices"), "{}", shown(&no_place));
    assert_eq!(read("o.txt", &table, &options("all_reduce", "a[1-2]:0-7")).measurements.len(), 1);
}

#[test]
fn file_and_caller_must_agree() {
    let stated = "# Collective test starting: all_reduce_perf\n".to_owned() + &good();
    assert_eq!(read("o.txt", &stated, &options("", "")).measurements.len(), 3);
    for (op, place, part) in [
        ("all_gather", "", "the file is of all_reduce, but all_gather was given"),
        ("", "a:0-7,b:0-6", "the device list is h1:0-7,h2:0-7, but a:0-7,b:0-6 was given"),
    ] {
        let import = read("o.txt", &stated, &options(op, place));
        assert!(import.refused && shown(&import).contains(part), "{}", shown(&import));
    }
    let named = read("o.txt", &stated, &options("", "a:0-7,b:0-7"));
    assert_eq!(crate::placement::format(&named.measurements[0].placement), "a:0-7,b:0-7");
}

#[test]
fn a_table_that_contradicts_is_refused() {
    let table = HEADER.to_owned() + &rows(Collective::AllReduce, 16, &[10.0, 50.0]);
    for (op, place, part) in [
        ("all_reduce", "a:0-7", "busbw / algbw is 1.8750, but 1.7500 for all_reduce over 8 GPUs"),
        ("all_gather", "a:0-7,b:0-7", "the size is 1 times count, but 16 times for all_gather"),
        ("broadcast", "a:0-7,b:0-7", "busbw / algbw is 1.8750, but 1.0000 for broadcast"),
    ] {
        let import = read("o.txt", &table, &options(op, place));
        assert!(import.refused && import.measurements.is_empty());
        assert!(shown(&import).contains(part), "{}", shown(&import));
    }
}

#[test]
fn many_slow_rows_do_not_outvote_the_fast_ones() {
    let mut speeds = vec![0.3; 30];
    speeds.extend([10.0, 20.0]);
    let table = HEADER.to_owned() + &rows(Collective::AllReduce, 16, &speeds);
    let import = read("o.txt", &table, &options("all_reduce", "a:0-7"));
    assert!(import.refused && import.measurements.is_empty(), "{}", shown(&import));
}

#[test]
fn each_bad_row_is_named_and_the_others_are_kept() {
    let good_rows = rows(Collective::AllReduce, 16, &[10.0, 20.0, 40.0, 80.0]);
    let lines: Vec<&str> = good_rows.lines().collect();
    let third = lines[2];
    for (bad, part) in [
        (third.replacen("40.00", "XX.XX", 1), "algbw: 'XX.XX' is masked"),
        (third.replacen("40.00", "nan", 1), "algbw: 'nan' is not a number"),
        (third.replacen("40.00", "90.00", 1), "algbw: 90 GB/s, but size / time is 39.98"),
        (third.replacen("75.00", "95.00", 1), "busbw / algbw is 2.3750"),
        (third.replacen("75.00", "999999999.00", 1), "busbw: 999999999 GB/s cannot be"),
        (third.replacen("     0 ", "     7 ", 1), "#wrong: '7' wrong values"),
        (third[..third.len() - 4].to_owned(), "13 cells"),
        (third[..60].to_owned(), "cells"),
        (third.replacen("sum", "sum sum", 1), "the row has 14 of 13 cells"),
    ] {
        assert_ne!(bad, third);
        let text = devices(2, 8) + HEADER + &good_rows.replace(third, &bad);
        let import = read("o.txt", &text, &options("all_reduce", ""));
        assert_eq!(
            (import.measurements.len(), import.refused_rows),
            (3, 1),
            "{bad}: {}",
            shown(&import)
        );
        assert!(shown(&import).contains("o.txt:22: error: "), "{}", shown(&import));
        assert!(shown(&import).contains(part), "{}", shown(&import));
    }
}

#[test]
fn other_lines_are_counted_or_named() {
    let table = rows(Collective::AllReduce, 16, &[10.0, 20.0]);
    let text = format!(
        "$ srun all_reduce_perf -b 8\n{}{HEADER}h1:1:2 [0] NCCL INFO busy\n           0             0     float     sum      -1     0.02    0.00    0.00      0     0.01    0.00    0.00      0\n{table}...\n# Out of bounds values : 1 FAILED\n# Avg bus bandwidth    : 1\n",
        devices(2, 8)
    );
    let import = read("o.txt", &text, &options("all_reduce", ""));
    assert_eq!(import.measurements.len(), 2);
    insta::assert_snapshot!(shown(&import), @r"
    o.txt:1: note: 2 lines that are no part of the output are ignored
    o.txt:22: note: 1 rows of size 0 are skipped
    o.txt:25: warning: rows were left out here
    o.txt:26: warning: #wrong: the test itself reports wrong results
    ");
}

#[test]
fn several_tables_must_be_of_one_collective() {
    let run = |name: &str| format!("# Collective test starting: {name}_perf\n{}", good());
    let twice = run("all_reduce") + &run("all_reduce");
    assert_eq!(read("o.txt", &twice, &options("", "")).measurements.len(), 6);
    let mixed = run("all_reduce") + &run("all_gather");
    let import = read("o.txt", &mixed, &options("", ""));
    assert!(import.refused && import.measurements.is_empty());
    assert!(shown(&import).contains("a table of all_gather after one of all_reduce"));
}

#[test]
fn device_lists_that_do_not_say_where_it_ran() {
    let table = HEADER.to_owned() + &rows(Collective::AllReduce, 4, &[10.0]);
    let line = |rank: u32, host: &str, device: u32| {
        format!("#  Rank {rank} Pid 1 on {host} device {device} [0x00] X\n")
    };
    for (list, part) in [
        (line(0, "a", 0) + &line(1, "a", 1) + &line(3, "a", 3), "has 3 of ranks 0 to 3"),
        (line(0, "a", 0) + &line(0, "a", 1), "rank 0 stands twice"),
        (line(0, "a", 0) + &line(1, "a", 0), "device 0 of a is listed twice"),
        (line(0, "a", 64), "no device number below 64"),
        (line(0, "a:b", 0), "'a:b' is not a host name"),
        (line(0, "a", 0) + "...\n", "is not complete"),
        (
            "# Rank 0 Group 0 Pid 1 on a device 0\n# Rank 1 Group 1 Pid 1 on a device 1\n".into(),
            "several groups",
        ),
    ] {
        let text = list + &table;
        let import = read("o.txt", &text, &options("all_reduce", ""));
        assert!(import.refused && shown(&import).contains(part), "{}", shown(&import));
        let helped = read("o.txt", &text, &options("all_reduce", "b:0-3"));
        assert_eq!(helped.measurements.len(), 1, "{}", shown(&helped));
        assert!(shown(&helped).contains("the given placement is used"));
    }
}

#[test]
fn labels_of_srun_are_cut_off() {
    let text = "0: ".to_owned() + &good().trim_end().replace('\n', "\n0: ");
    assert_eq!(read("o.txt", &text, &options("all_reduce", "")).measurements.len(), 3);
}

/// What is known of the field files besides their text.
fn known(name: &str) -> ImportOptions {
    let (op, place) = [
        ("Azure", "all_reduce", "h[1-4]:0-3"),
        ("GoogleCloudPlatform", "all_gather", "h[1-2]:0-7"),
        (
            "aws-samples-awsome-distributed-training-micro-benchmarks-nccl-tests-README.md-L157",
            "all_reduce",
            "h[1-2]:0-7",
        ),
        (
            "aws-samples-awsome-distributed-training-micro-benchmarks-nccl-tests-slurm",
            "all_reduce",
            "h[1-16]:0-7",
        ),
        ("coreweave-nccl-tests-README.md-L135", "all_reduce", "h[1-12]:0-7"),
        ("coreweave-nccl-tests-README.md-L298", "all_reduce", "h[1-360]:0-3"),
        ("oracle-quickstart-oci-hpc-documentation", "all_reduce", ""),
        ("oracle-quickstart-oci-hpc-oke", "", "h[1-2]:0-7"),
        ("v100-pcie", "all_reduce", ""),
        ("mi300x", "all_reduce", ""),
        ("a10g", "all_reduce", ""),
        ("reduce-scatter", "reduce_scatter", "h1:0-7"),
        ("eth-cscs-cscs-docs-docs-software-communication-nccl", "", ""),
        ("eth-cscs-cscs-docs-docs-software-container", "", ""),
    ]
    .into_iter()
    .find(|(prefix, ..)| name.starts_with(prefix))
    .map_or(("all_reduce", "h1:0-7"), |(_, op, place)| (op, place));
    options(op, place)
}

fn outcome(import: &Import) -> String {
    let mut text = format!(
        "imported {}, skipped {}, refused rows {}{}\n",
        import.measurements.len(),
        import.skipped_rows,
        import.refused_rows,
        if import.refused { ", FILE REFUSED" } else { "" }
    );
    let (first, last) = (import.measurements.first(), import.measurements.last());
    for m in first.into_iter().chain(last) {
        let bytes = m.bytes.map_or(0, |bytes| bytes);
        let place = crate::hostlist::compress(m.placement.iter().map(|(name, _)| name.as_str()));
        writeln!(
            text,
            "  line {}: {} of {bytes} over {} GPUs on {place}: {}",
            m.line,
            m.collective,
            m.gpus(),
            m.busbw_gbytes_per_s
        )
        .unwrap();
    }
    for d in &import.diagnostics {
        writeln!(text, "{}", d.display("FILE")).unwrap();
    }
    text
}

#[test]
fn field_files() {
    let Some(data) = bandpilot_testdata::require_data("nccl_tests::field_files") else { return };
    let files = bandpilot_testdata::files(&data.join("field-files/nccl-tests"));
    assert!(files.len() >= 30, "{}", files.len());
    insta::with_settings!({ snapshot_path => "snapshots", prepend_module_to_snapshot => false, omit_expression => true }, {
        for path in files {
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            let text = bandpilot_testdata::read(&path).unwrap();
            let alone = outcome(&read(&name, &text, &ImportOptions::default()));
            let helped = outcome(&read(&name, &text, &known(&name)));
            let short = name.trim_end_matches(".txt").replace('.', "-");
            insta::assert_snapshot!(format!("nccl_{short}"), format!("alone: {alone}with help: {helped}"));
        }
    });
}

#[test]
fn the_ratio_tells_a_wrong_number_of_ranks_in_a_field_file() {
    let Some(data) = bandpilot_testdata::require_data("nccl_tests::the_ratio") else { return };
    let path = data.join("field-files/nccl-tests/coreweave-nccl-tests-README.md-L135.txt");
    let text = bandpilot_testdata::read(&path).unwrap();
    // The page speaks of 64 GPUs; the table is of 96.
    let wrong = read("f", &text, &options("all_reduce", "h[1-8]:0-7"));
    assert!(wrong.refused, "{}", shown(&wrong));
    let right = read("f", &text, &options("all_reduce", "h[1-12]:0-7"));
    assert_eq!(right.measurements.len(), 5, "{}", shown(&right));
}

proptest! {
    #[test]
    fn what_the_program_would_print_is_read_exactly(
        op in prop::sample::select(Collective::ALL.to_vec()),
        hosts in 1_usize..5,
        gpus in 1_usize..9,
        speeds in prop::collection::vec(0.01_f64..900.0, 1..12),
    ) {
        prop_assume!(hosts * gpus > 1);
        let ranks = hosts * gpus;
        let text = format!("# Collective test starting: {op}_perf\n{}{HEADER}{}", devices(hosts, gpus), rows(op, ranks, &speeds));
        let import = read("o", &text, &ImportOptions::default());
        prop_assert!(!import.diagnostics.iter().any(|d| d.severity > Severity::Note), "{}", shown(&import));
        prop_assert_eq!(import.measurements.len(), speeds.len());
        for (m, algbw) in import.measurements.iter().zip(&speeds) {
            prop_assert!((m.busbw_gbytes_per_s - algbw * op.busbw_factor(ranks)).abs() <= 0.0051);
            prop_assert_eq!(m.gpus(), ranks);
        }
    }
}
