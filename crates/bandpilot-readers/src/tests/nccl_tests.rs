use std::fmt::Write as _;

use bandpilot_core::Collective;
use proptest::prelude::*;

use super::*;
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
fn what_is_not_said_is_inferred_only_if_one_answer_is_left() {
    let told = read("o.txt", &good(), &options("", ""));
    assert_eq!(told.measurements.len(), 3);
    assert_eq!(
        shown(&told),
        "o.txt:18: note: op: all_reduce, the only collective with these numbers"
    );
    let table = HEADER.to_owned() + &rows(Collective::AllReduce, 16, &[10.0, 80.0]);
    let no_place = read("o.txt", &table, &options("all_reduce", ""));
    assert!(no_place.refused);
    assert!(
        shown(&no_place).contains("does not list its devices; its rows are of 16 GPUs"),
        "{}",
        shown(&no_place)
    );
    assert_eq!(read("o.txt", &table, &options("all_reduce", "a[1-2]:0-7")).measurements.len(), 2);
    let gathers = devices(2, 8)
        + HEADER
        + &rows(Collective::AllGather, 16, &[10.0]).replace(" sum ", " none ");
    let import = read("o.txt", &gathers, &options("", ""));
    assert!(import.refused);
    insta::assert_snapshot!(shown(&import), @r"
    o.txt:18: error: op: the file does not say which collective was run
      help: its numbers fit all_gather, alltoall; give the one, for example --op all_gather
    ");
}

#[test]
fn file_and_caller_must_agree() {
    let stated = "# Collective test starting: all_reduce_perf\n".to_owned() + &good();
    assert_eq!(read("o.txt", &stated, &options("", "")).measurements.len(), 3);
    for (op, place, part) in [
        ("all_gather", "", "the file is of all_reduce, but all_gather was given"),
        (
            "",
            "a:0-7,b:0-6",
            "the device list has 16 GPUs (8 of h1, 8 of h2), but a:0-7,b:0-6 was given",
        ),
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
    o.txt:21: note: ignored: 1 line besides the output
    o.txt:22: note: skipped: 1 row of size 0
    o.txt:25: warning: rows were left out here
    o.txt:26: warning: #wrong: the test itself reports wrong results
    ");
}

#[test]
fn several_tables_each_have_their_own_collective_and_fate() {
    let run = |op: Collective| {
        let table = HEADER.to_owned() + &rows(op, 16, &[10.0, 20.0]);
        format!("# Collective test starting: {op}_perf\n{}{table}", devices(2, 8))
    };
    let all: String = Collective::ALL.into_iter().map(run).collect();
    let import = read("o.txt", &all, &options("", ""));
    assert_eq!((import.measurements.len(), shown(&import).as_str()), (14, ""));
    let mixed = run(Collective::AllReduce)
        + &run(Collective::AllGather).replace("starting: all_gather", "starting: hypercube")
        + &run(Collective::Broadcast);
    let import = read("o.txt", &mixed, &options("", ""));
    assert_eq!((import.measurements.len(), import.refused_rows, import.refused), (4, 2, false));
    assert!(shown(&import).contains("op: 'hypercube_perf' is not a collective"));
}

#[test]
fn device_lists_that_do_not_say_where_it_ran() {
    let table = HEADER.to_owned() + &rows(Collective::AllReduce, 4, &[10.0]);
    let line = |rank: u32, host: &str, device: u32| {
        format!("#  Rank {rank} Pid 1 on {host} device {device} [0x00] X\n")
    };
    let of_four = |host: &str, devices: [u32; 4]| -> String {
        (0..).zip(devices).map(|(rank, device)| line(rank, host, device)).collect()
    };
    for (list, part) in [
        (line(0, "a", 0) + &line(1, "a", 1) + &line(3, "a", 3), "has 3 of ranks 0 to 3"),
        (of_four("a", [0, 1, 2, 0]), "device 0 of a is listed twice"),
        (of_four("a", [0, 1, 2, 64]), "no device number below 64"),
        (of_four("a:b", [0, 1, 2, 3]), "'a:b' is not a host name"),
        ("# Rank 0 Pid on a device 0\n".into(), "does not list its devices"),
        (line(0, "a", 0) + "...\n", "is not complete"),
        (
            "# Rank 0 Group 0 Pid 1 on a device 0\n# Rank 1 Group 1 Pid 1 on a device 1\n".into(),
            "several groups",
        ),
    ] {
        let text = list.clone() + &table;
        let import = read("o.txt", &text, &options("all_reduce", ""));
        assert!(import.refused && shown(&import).contains(part), "{}", shown(&import));
        let helped = read("o.txt", &text, &options("all_reduce", "b:0-3"));
        assert_eq!(helped.measurements.len(), 1, "{}", shown(&helped));
        let complete = list.lines().count() == 4 || part.contains("does not list");
        assert_eq!(shown(&helped).contains("the given placement is used"), !complete);
    }
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

#[path = "nccl_field_files.rs"]
mod field_files;
#[path = "nccl_forms.rs"]
mod forms;
