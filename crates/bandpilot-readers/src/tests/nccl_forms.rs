//! One small log for each form that benchmarks and launchers give their output.

use std::sync::Arc;

use bandpilot_core::{Cluster, ClusterBuilder, GpuIdentity, GpuMask};
use serde_json::{Value, json};

use super::*;

/// Rows of a header's columns; times in microseconds, `verdict` in the place of `#wrong`.
fn table(header: &str, keys: &str, verdict: &str, extra: &str) -> String {
    let mut text = format!("# {header}\n");
    for (count, algbw) in [(1_u64 << 20, 10.0), (1 << 22, 40.0)] {
        let (size, milliseconds) = (count * 4, header.starts_with("bytes"));
        let time = size as f64 / algbw / if milliseconds { 1e6 } else { 1e3 };
        let half = format!("{time:.3} {algbw:.2} {:.2} {verdict}{extra}", algbw * 1.75);
        writeln!(text, "  {size} {count} float {keys} {half} {half}").unwrap();
    }
    text
}

fn values(import: &Import) -> Vec<(u64, f64)> {
    import.measurements.iter().map(|m| (m.bytes.unwrap(), m.busbw_gbytes_per_s)).collect()
}

const BOTH: [(u64, f64); 2] = [(1 << 22, 17.5), (1 << 24, 70.0)];

#[test]
fn columns_are_found_by_name_in_every_form() {
    let half = "time algbw busbw";
    for (header, keys, verdict, extra) in [
        (format!("bytes N type op {half} res {half} res"), "sum", "1e-06", ""),
        (format!("bytes N type op {half} res {half} res"), "sum", "N/A", ""),
        (format!("size count type redop {half} error {half} error"), "sum", "2e-07", ""),
        (format!("size count type redop root {half} #wrong {half} #wrong"), "sum -1", "0", ""),
        (
            format!(
                "size count type redop root {half} #wrong i_min i_max i_p99 i_cv% {half} #wrong i_min i_max i_p99 i_cv%"
            ),
            "sum -1",
            "0",
            " 400.1 470.2 460.0 3.10",
        ),
    ] {
        let text = devices(1, 8) + &table(&header, keys, verdict, extra);
        let import = read("o.txt", &text, &options("all_reduce", ""));
        assert_eq!(
            (values(&import).as_slice(), shown(&import).as_str()),
            (&BOTH[..], ""),
            "{header}"
        );
    }
}

#[test]
fn a_timestamp_and_units_below_the_header_are_known() {
    let header =
        "size count type redop root time algbw busbw #wrong time algbw busbw #wrong timestamp";
    let units =
        "#  (B)  (elements)  (us)  (GB/s)  (GB/s)  (us)  (GB/s)  (GB/s) %Y-%m-%d %H:%M:%S\n";
    let rows = table(header, "sum -1", "0", "").replace(" 0\n", " 0 2026-01-31 12:00:00\n");
    let (first, rest) = rows.split_once('\n').unwrap();
    let text = format!("{}{first}\n{units}{rest}", devices(1, 8));
    let import = read("o.txt", &text, &options("all_reduce", ""));
    assert_eq!((values(&import).as_slice(), shown(&import).as_str()), (&BOTH[..], ""));
    let other = text.replace("(GB/s)  (GB/s) %", "(GB/s)  (MB/s) %");
    let import = read("o.txt", &other, &options("all_reduce", ""));
    assert!(import.refused && shown(&import).contains("units must be B, us and GB/s"));
    assert_eq!(import.refused_rows, 2);
}

#[test]
fn times_of_calls_are_not_compared_with_bandwidths() {
    let header = "size count type redop root cputime algbw busbw #wrong cputime algbw busbw #wrong";
    let rows = table(header, "sum -1", "0", "").replace(" 419.430 ", " 9.1 ");
    let import = read("o.txt", &(devices(1, 8) + &rows), &options("all_reduce", ""));
    assert_eq!(values(&import), BOTH);
    assert!(shown(&import).contains("note: time: the times are those of the calls"));
}

#[test]
fn deviations_beyond_rounding_are_wrong_results() {
    let header = "size count type redop time algbw busbw error time algbw busbw error";
    for (verdict, good) in [("0e+00", 2), ("7e-05", 2), ("8e-05", 0), ("1e+00", 0), ("nan", 0)] {
        let text = devices(1, 8) + &table(header, "sum", verdict, "");
        let import = read("o.txt", &text, &options("all_reduce", ""));
        assert_eq!(
            (import.measurements.len(), import.refused_rows),
            (good, 2 - good),
            "{verdict}: {}",
            shown(&import)
        );
    }
}

const PREFIXES: [&str; 6] = [
    "0: ",
    "[1,0]<stdout>:",
    "[0] ",
    "2026-01-31T12:00:00.5Z ",
    "\u{1b}[1m",
    "[pod/launcher-0/main] ",
];

#[test]
fn what_launchers_write_before_each_line_is_taken_off() {
    for prefix in PREFIXES {
        let lines: Vec<String> = good().lines().map(|line| format!("{prefix}{line}")).collect();
        let text = lines.join("\n");
        let import = read("o.txt", &text, &options("all_reduce", ""));
        assert_eq!((import.measurements.len(), shown(&import).as_str()), (3, ""), "{prefix}");
        let lost: String = text.replace('#', "").replace("wrong", "#wrong");
        let import = read("o.txt", &lost, &options("all_reduce", ""));
        assert_eq!(import.measurements.len(), 3, "{prefix}: {}", shown(&import));
    }
}

#[test]
fn rows_that_other_output_tore_are_put_together() {
    let whole = good();
    for (torn, notes) in [
        (whole.replacen("sum -1 ", "sum -1h1:7:8 [0] NCCL INFO 4 Bytes\n", 1), 1),
        (
            whole.replacen(
                "sum -1 ",
                "sum -1[0] h1:7:8 [0] NCCL INFO a\nh1:7:8 [0] NCCL INFO b\n[0] ",
                1,
            ),
            2,
        ),
        (whole.replacen("sum -1 ", "sum -1[1,0]<stdout>: ", 1), 0),
        (whole.replacen("sum -1 ", "sum\n-1\n", 1), 1),
    ] {
        assert_ne!(torn, whole);
        let import = read("o.txt", &torn, &options("all_reduce", ""));
        let first = read("o.txt", &whole, &options("all_reduce", ""));
        assert_eq!(values(&import), values(&first), "{torn}: {}", shown(&import));
        assert_eq!(import.diagnostics.len(), notes, "{}", shown(&import));
    }
    // The rest of a row never goes to another row's beginning.
    let cut = whole.replacen(" 18.75 ", "\n", 1);
    let import = read("o.txt", &cut, &options("all_reduce", ""));
    assert_eq!((import.measurements.len(), import.refused_rows), (2, 1), "{}", shown(&import));
}

#[test]
fn rows_without_their_header_are_checked_like_any() {
    let text: String = rows(Collective::AllReduce, 16, &[10.0, 20.0]);
    let import = read("o.txt", &text, &options("all_reduce", "h[1-2]:0-7"));
    assert_eq!(import.measurements.len(), 2, "{}", shown(&import));
    assert!(shown(&import).contains("no header stands above these rows"), "{}", shown(&import));
}

#[test]
fn several_reductions_of_one_table_are_repeats() {
    let both = rows(Collective::AllReduce, 16, &[10.0])
        + &rows(Collective::AllReduce, 16, &[11.0]).replace(" sum ", " max ");
    let import = read("o.txt", &(devices(2, 8) + HEADER + &both), &options("all_reduce", ""));
    assert_eq!(import.measurements.len(), 2);
    assert!(shown(&import).contains("rows of float max, float sum are taken as repeats"));
}

#[test]
fn tables_of_other_programs_and_failures_are_named() {
    for (text, part) in [
        (
            "size time algbw busbw\n(B) (us) (GB/s) (GB/s)\n32_768 43.83 0.75 1.31\n",
            "all_reduce_bench",
        ),
        (
            "size(B) count type scope latency(us) algbw(GB/s) busbw(GB/s)\n32 8 32-bit thread 116.2 0.000 0.000\n",
            "NVSHMEM",
        ),
        (
            "# bytes N type op time algbw busbw res time algbw busbw res\nNCCL failure all_reduce.cu:95 'x'\n",
            "the test failed here",
        ),
        (
            "# size count type redop root time algbw busbw #wrong time algbw\n8 2 float sum -1 1 1 1 0 1 1\n",
            "the header is cut off",
        ),
    ] {
        let import = read("o.txt", text, &options("all_reduce", "h1:0-7"));
        assert!(import.refused && import.measurements.is_empty(), "{text}");
        assert_eq!(import.diagnostics.len(), 1, "{}", shown(&import));
        assert!(shown(&import).contains(part), "{}", shown(&import));
    }
}

#[test]
fn two_tests_side_by_side_are_no_measurement() {
    let list = devices(1, 8);
    let rows = rows(Collective::AllReduce, 8, &[10.0, 20.0]);
    let (first, second) = rows.split_once('\n').unwrap();
    for text in [
        format!("{list}{list}{HEADER}{HEADER}{rows}{rows}"),
        format!("{list}{list}{HEADER}{first}\n{HEADER}{first}\n{second}{second}"),
    ] {
        for place in ["", "h1:0-7"] {
            let import = read("o.txt", &text, &options("all_reduce", place));
            assert!(import.refused && shown(&import).contains("build nccl-tests with MPI=1"));
        }
    }
}

#[test]
fn the_command_says_what_ran() {
    let plain = good();
    for command in [
        "$ mpirun -np 16 ./build/all_reduce_perf -b 8 -e 2G",
        "EXEC_CMD=/opt/nccl-tests/bin/all_reduce_perf_mpi",
        "+ srun 'all_reduce_perf' -g 1",
    ] {
        let import = read("o.txt", &format!("{command}\n{plain}"), &options("", ""));
        assert_eq!(import.measurements.len(), 3, "{}", shown(&import));
        assert!(shown(&import).contains("o.txt:1: note: op: all_reduce, from the command"));
        let import = read("o.txt", &format!("{command}\n{plain}"), &options("all_gather", ""));
        assert!(import.refused && shown(&import).contains("the file is of all_reduce"));
    }
    let other = format!("$ ./alltoallv_perf -b 8\n{plain}");
    assert!(read("o.txt", &other, &options("", "")).refused);
}

/// A cluster of two hosts; `ids` are the PCI bus ids of each host's GPUs.
fn cluster(ids: &[&str]) -> Arc<Cluster> {
    let builder = ClusterBuilder::new("c").host_type("dgx", "H100", 8).nvswitch().rails(400.0);
    let mut cluster = builder.hosts("h", 1, 2).build();
    for host in &mut cluster.hosts {
        let name = |id: &&str| GpuIdentity { pci_bus_id: Some((*id).to_owned()), uuid: None };
        host.gpu_ids = ids.iter().map(name).collect();
    }
    Arc::new(cluster)
}

const IDS: [&str; 8] = [
    "00000000:0F:00.0",
    "00000000:2D:00.0",
    "00000000:44:00.0",
    "00000000:5B:00.0",
    "00000000:89:00.0",
    "00000000:A8:00.0",
    "00000000:C0:00.0",
    "00000000:D8:00.0",
];

fn ranks_with(ids: [&str; 2], devices: [u32; 2], host: &str) -> String {
    let mut text = String::new();
    for (rank, (id, device)) in ids.iter().zip(devices).enumerate() {
        writeln!(text, "# Rank {rank} Group 0 Pid 1 on {host} device {device} [{id}] NVIDIA H100")
            .unwrap();
    }
    text + HEADER + &rows(Collective::AllReduce, 2, &[10.0])
}

#[test]
fn pci_bus_ids_say_which_gpus_ran() {
    let options = ImportOptions { cluster: Some(cluster(&IDS)), ..options("all_reduce", "") };
    let place = |text: &str| {
        let import = read("o.txt", text, &options);
        let place = import.measurements.first().map(|m| crate::placement::format(&m.placement));
        (place.unwrap_or_default(), shown(&import))
    };
    for ids in [["0x89", "0xd8"], ["0000:89:00", "0000:d8:00"]] {
        let (found, said) = place(&ranks_with(ids, [0, 1], "h1"));
        assert_eq!(found, "h1:4,7");
        assert_eq!(
            said,
            "o.txt:1: note: placement: devices 0,1 of h1 are its GPUs 4,7, by their PCI bus ids"
        );
    }
    // Processes that see one GPU each all call it 0.
    assert_eq!(place(&ranks_with(["0x0f", "0x2d"], [0, 0], "h1")).0, "h1:0-1");
    assert_eq!(
        place(&ranks_with(["0x0f", "0x2d"], [0, 1], "h1")),
        ("h1:0-1".into(), String::new())
    );
    let (found, said) = place(&ranks_with(["0x00", "0x00"], [2, 3], "h1"));
    assert_eq!(found, "h1:2-3");
    assert!(said.contains(
        "several ranks of h1 have the PCI bus id 0x00; the printed device numbers are taken"
    ));
    let (found, said) = place(&ranks_with(["0x0f", "0x77"], [0, 1], "h1"));
    assert!(found.is_empty() && said.contains("the PCI bus id 0x77 is of no GPU of h1"), "{said}");
    let (found, said) = place(&ranks_with(["0x0f", "0x2d"], [0, 1], "H1"));
    assert!(found.is_empty() && said.contains("--hosts H1=h1 renames the log's host"), "{said}");
    let renamed = ImportOptions { renames: vec![("H1".into(), "h2".into())], ..options.clone() };
    let import = crate::import("o.txt", &ranks_with(["0x0f", "0x2d"], [0, 1], "H1"), &renamed);
    assert_eq!(crate::placement::format(&import.measurements[0].placement), "h2:0-1");
    let elsewhere = ImportOptions {
        placement: Some(vec![("h9".into(), GpuMask::first(2))]),
        ..options.clone()
    };
    let import = read("o.txt", &ranks_with(["0x0f", "0x2d"], [0, 1], "x"), &elsewhere);
    assert!(import.refused && shown(&import).contains("the log ran on 'h9'"));
    let without = ImportOptions { cluster: Some(cluster(&[])), ..options.clone() };
    let import = read("o.txt", &ranks_with(["0x89", "0xd8"], [3, 9], "h1"), &without);
    assert!(import.refused && shown(&import).contains("h1 has no GPUs 9 in the cluster file"));
}

#[test]
fn the_whole_cluster_is_inferred_from_the_number_of_ranks() {
    let table =
        |ranks| HEADER.to_owned() + &rows(Collective::AllReduce, ranks, &[80.0, 123.4, 300.0]);
    let options = ImportOptions { cluster: Some(cluster(&[])), ..options("", "") };
    let import = read("o.txt", &table(16), &options);
    assert_eq!(import.measurements.len(), 3, "{}", shown(&import));
    insta::assert_snapshot!(shown(&import), @r"
    o.txt:1: note: op: all_reduce, the only collective with these numbers
    o.txt:1: note: placement: the file does not list its devices; its rows are of 16 GPUs, which are all of the cluster
    ");
    let import = read("o.txt", &table(8), &options);
    assert!(import.refused);
    insta::assert_snapshot!(shown(&import), @r"
    o.txt:1: error: placement: the file does not list its devices; its rows are of 8 GPUs, and the cluster has 16 in health
      help: give where it ran, for example --placement h1:0-7,h2:0-7
    ");
}

#[test]
fn an_incomplete_device_list_bounds_the_number_of_gpus() {
    let list = "...\n#  Rank 15 Group  0 Pid 9 on x device  7 [0x01] NVIDIA H100\n";
    let table = list.to_owned() + HEADER + &rows(Collective::SendRecv, 16, &[80.0, 123.4, 300.0]);
    let few = read("o.txt", &table, &options("sendrecv", "h[1-3]:0-4"));
    assert!(few.refused);
    assert!(
        shown(&few).contains("o.txt:2: error: placement: the device list names rank 15, so 16 or more GPUs ran, but the placement has 15"),
        "{}",
        shown(&few)
    );
    for enough in ["h[1-2]:0-7", "h[1-5]:0-3"] {
        assert_eq!(read("o.txt", &table, &options("sendrecv", enough)).measurements.len(), 3);
    }
    // Ranks count on from group to group, so they say nothing about one of them.
    let groups =
        table.replacen("...\n", "#  Rank 0 Group  1 Pid 9 on x device  0 [0x01] H100\n", 1);
    assert!(!read("o.txt", &groups, &options("sendrecv", "h1:0-7")).refused);
}

/// A document as `-J` of nccl-tests writes it: 8 GPUs, one process each unless told otherwise.
fn document(per_process: u64) -> Value {
    let devices: Vec<Value> = (0..8 / per_process)
        .map(|process| {
            let rank = process * per_process;
            json!({"rank": rank, "group": 0, "pid": 1, "hostname": "h1", "device": rank,
                   "device_hex": format!("0000:{:02x}:00", 16 + rank), "device_info": "NVIDIA H100"})
        })
        .collect();
    let results: Vec<Value> = [0_u64, 1 << 20, 1 << 22, 1 << 24]
        .into_iter()
        .map(|size| {
            let algbw = 100.5;
            let half = json!({"time": size as f64 / algbw / 1e3, "alg_bw": algbw, "bus_bw": algbw * 1.75, "nwrong": 0.0});
            json!({"size": size, "count": size / 4, "type": "float", "redop": "sum", "root": "    -1",
                   "out_of_place": half, "in_place": half, "actual_iterations": 20})
        })
        .collect();
    json!({"version": 2, "args": ["./build/all_reduce_perf", "-b", "8"], "env": ["A=b"], "nccl_version": 22807,
           "config": {"nthreads": 1, "ngpus": per_process, "devices": devices},
           "results": results, "out_of_bounds": {"count": 0, "okay": "true"},
           "average_bus_bandwidth": {"bandwidth": 175.875, "okay": "unchecked"}, "errors": [""]})
}

#[test]
fn the_json_of_nccl_tests_is_read() {
    let told = |document: &Value| read("o.json", &document.to_string(), &options("", ""));
    let import = told(&document(1));
    assert_eq!(values(&import), [20, 22, 24].map(|power| (1 << power, 175.875)));
    assert_eq!(crate::placement::format(&import.measurements[0].placement), "h1:0-7");
    assert_eq!(shown(&import), "o.txt:1: note: skipped: 1 row of size 0");
    // The document names only the first GPU of each process.
    let import = told(&document(4));
    assert_eq!(crate::placement::format(&import.measurements[0].placement), "h1:0-7");
    assert!(shown(&import).contains("the first of 4 GPUs of each process"));
    let pretty = format!("# Writing JSON output\n{:#}", document(1));
    assert_eq!(read("o.json", &pretty, &options("", "")).measurements.len(), 3);
}

#[test]
fn json_rows_are_refused_one_by_one() {
    for (path, value, part) in [
        ("/results/1/out_of_place/nwrong", json!(3.0), "results[1].#wrong: '3.0' wrong values"),
        ("/results/1/in_place/nwrong", json!(3.0), "results[1].#wrong"),
        ("/results/1/out_of_place/bus_bw", json!(1758.75), "busbw / algbw is"),
        ("/results/1/out_of_place/bus_bw", json!("nan"), "results[1].bus_bw: is not a number"),
        ("/results/1/out_of_place/time", json!(1), "results[1].algbw"),
        ("/results/1/out_of_place", json!(null), "there is no out-of-place result"),
        ("/results/1/size", json!(-1), "results[1].size: is not a whole number"),
        ("/results/1/count", json!(7), "the size is"),
    ] {
        let mut changed = document(1);
        *changed.pointer_mut(path).unwrap() = value;
        let import = read("o.json", &changed.to_string(), &options("", ""));
        assert_eq!(
            (import.measurements.len(), import.refused_rows),
            (2, 1),
            "{path}: {}",
            shown(&import)
        );
        assert!(shown(&import).contains(part), "{path}: {}", shown(&import));
    }
    let mut wrong = document(1);
    *wrong.pointer_mut("/out_of_bounds/okay").unwrap() = json!("false");
    assert!(
        shown(&read("o", &wrong.to_string(), &options("", ""))).contains("reports wrong results")
    );
}

#[test]
fn no_changed_number_of_a_json_document_becomes_a_measurement() {
    let whole = values(&read("o.json", &document(1).to_string(), &options("", "")));
    for row in 1..4 {
        for name in
            ["size", "count", "out_of_place/time", "out_of_place/alg_bw", "out_of_place/bus_bw"]
        {
            for factor in [10.0, 1000.0, 0.1, 1e300, -1.0, 0.0] {
                let mut changed = document(1);
                let value = changed.pointer_mut(&format!("/results/{row}/{name}")).unwrap();
                let by = value.as_f64().unwrap() * factor;
                *value = if by.fract() == 0.0 && by < 1e18 { json!(by as i64) } else { json!(by) };
                let import = read("o.json", &changed.to_string(), &options("", ""));
                let found = values(&import);
                assert!(
                    found.len() < whole.len() && found.iter().all(|value| whole.contains(value)),
                    "{row} {name} {factor}: {found:?}"
                );
            }
        }
    }
}

#[test]
fn a_json_document_that_is_cut_off_gives_what_is_whole() {
    let text = document(1).to_string();
    let all = values(&read("o.json", &text, &options("all_reduce", "h1:0-7")));
    for cut in 0..text.len() {
        let import = read("o.json", &text[..cut], &options("all_reduce", "h1:0-7"));
        let values = values(&import);
        assert!(values.iter().all(|value| all.contains(value)), "{cut}: {values:?}");
    }
    let bad = text.replacen("100.5", "1e400", 1);
    let import = read("o.json", &bad, &options("", ""));
    assert!(import.refused && shown(&import).contains("the JSON document cannot be read"));
}

#[test]
fn the_files_of_rccl_tests_are_read() {
    let row = |place: u32, size: u64, keys: &str| {
        let algbw = 50.25;
        format!(
            "{{{keys}\"size\":{size},\"type\":\"float\",\"redop\":\"sum\",\"inPlace\":{place},\"time\":{},\"algBw\":{algbw},\"busBw\":{}}}",
            size as f64 / algbw / 1e3,
            algbw * 1.75
        )
    };
    let old = |place| row(place, 1 << 20, "\"#wrong\":\"0\",\"gpus\":8,\"name\":\"AllReduce\",");
    let new = |place| {
        row(
            place,
            1 << 22,
            "\"numCycle\":1,\"name\":\"AllReduce\",\"nodes\":2,\"ranks\":8,\"ranksPerNode\":4,\"gpusPerRank\":1,\"wrong\":\"N/A\",",
        )
    };
    let csv = "numCycle,collective,gpus,size,type,redop,inplace,time,algbw,busbw,#wrong\n\
        1,\"AllReduce\",8,2097152,\"float\",\"sum\",0,41.7344,50.25,87.9375,\"0\"\n\
        1,\"AllReduce\",8,2097152,\"float\",\"sum\",1,41.7344,50.25,87.9375,\"0\"\n"
        .to_owned();
    let lines = format!("{}\n{}\n", old(0), old(1));
    let array = format!("[\n{},\n{}\n]\n", new(0), new(1));
    for (text, place, size) in
        [(&lines, "h1:0-7", 1 << 20), (&array, "h[1-2]:0-3", 1 << 22), (&csv, "h1:0-7", 1 << 21)]
    {
        let import = read("o", text, &options("", place));
        assert_eq!(values(&import), [(size, 50.25 * 1.75)], "{}", shown(&import));
        assert!(shown(&import).contains("left out: 1 row of in-place runs"));
        let import = read("o", text, &options("", ""));
        assert!(
            import.refused && shown(&import).contains("its rows are of 8 GPUs"),
            "{}",
            shown(&import)
        );
        let import = read("o", text, &options("", "h1:0-3"));
        assert!(
            import.refused
                && shown(&import).contains("the file is of 8 GPUs, but the placement has 4")
        );
    }
}

#[test]
fn a_fault_in_json_is_on_a_line_of_the_file() {
    let read = read("f", "{\"oop_busbw\": 1, \"a\n", &ImportOptions::default());
    assert!(read.refused);
    assert!(read.diagnostics.iter().all(|reason| reason.line <= 1), "{:?}", read.diagnostics);
}
