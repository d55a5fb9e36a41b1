use std::fmt::Write as _;

use bandpilot_core::ClusterBuilder;
use bandpilot_readers::trace_file;

use super::*;

const ACCOUNTS: &str = "\
JobID|User|Account|Partition|QOS|Submit|Eligible|Start|End|ElapsedRaw|State|AllocTRES|NNodes|NodeList
1|ann|ml|gpu|normal|2026-11-30T10:00:00|2026-11-30T10:00:00|2026-11-30T10:00:10|2026-11-30T10:10:10|600|COMPLETED|cpu=1,gres/gpu:g0=1,gres/gpu:g1=1,gres/gpu=2|1|h1
1.batch|||||2026-11-30T10:00:10|2026-11-30T10:00:10|2026-11-30T10:00:10|2026-11-30T10:10:10|600|COMPLETED|cpu=1,gres/gpu=2|1|h1
4+0|bob||gpu|normal|2026-11-30T10:00:00|2026-11-30T10:00:30|2026-11-30T10:01:00|2026-11-30T10:02:00|60|COMPLETED|gres/gpu:g0=3|1|h1
4+1|bob||gpu|normal|2026-11-30T10:00:00|2026-11-30T10:00:30|2026-11-30T10:01:00|2026-11-30T10:02:01|61|COMPLETED|gres/gpu=1|1|h2
6_3|ann|ml|gpu|low|2026-11-30T10:00:01|2026-11-30T10:00:01|2026-11-30T10:00:01|2026-11-30T10:00:03|2|FAILED|gres/gpu=16|2|h[1-2]
7|ann|ml|gpu|low|2026-11-30T10:00:01|2026-11-30T10:00:01|Unknown|2026-11-30T10:00:03|0|CANCELLED by 0||1|None assigned
8|ann|ml|gpu|low|2026-11-30T10:00:01|2026-11-30T10:00:01|Unknown|Unknown|0|PENDING||1|None assigned
9|ann|ml|cpu|low|2026-11-30T10:00:01|2026-11-30T10:00:01|2026-11-30T10:00:01|2026-11-30T10:00:03|2|COMPLETED|cpu=4|1|h1
10|ann|ml|gpu|low|2026-11-30T10:00:02|2026-11-30T10:00:02|2026-11-30T10:00:02|Unknown|100|RUNNING|gres/gpu=5|2|h[1-2]
11|ann|ml|gpu|low|2026-11-30T10:00:03|2026-11-30T10:00:03|2026-11-30T10:00:04|2026-11-30T10:30:04|1800|PREEMPTED|gres/gpu=4|1|h1
11|ann|ml|gpu|low|2026-11-30T10:30:04|2026-11-30T10:30:04|2026-11-30T10:40:00|2026-11-30T10:41:00|60|COMPLETED|gres/gpu=4|1|h2
11|cid|ml|gpu|low|2027-11-30T10:30:04|2027-11-30T10:30:04|2027-11-30T10:30:04|2027-11-30T10:31:00|56|TIMEOUT|gres/gpu=1|1|h9
";

fn history() -> History {
    let read = sacct::runs(ACCOUNTS);
    assert_eq!(read.diagnostics, []);
    History::of(read.value, &Choice::default())
}

#[test]
fn accounts_become_jobs() {
    let history = history();
    let shown: Vec<String> = history
        .jobs
        .iter()
        .map(|job| {
            let PastJob { name, gpus, wait_s, duration_s, state, .. } = job;
            let size = job.gpus_per_instance;
            format!("{name}: {gpus} in {size:?}, {wait_s}+{duration_s} {state}")
        })
        .collect();
    assert_eq!(
        shown,
        [
            "1: 2 in Some(2), 10+600 COMPLETED",
            "6_3: 16 in Some(8), 0+2 FAILED",
            "10: 5 in None, 0+100 RUNNING",
            "11: 4 in Some(4), 1+60 COMPLETED",
            "4: 4 in Some(3), 30+61 COMPLETED",
            "11.2: 1 in Some(1), 0+56 TIMEOUT",
        ]
    );
    let left_out = LeftOut { without_gpus: 1, never_started: 1, waiting: 1, ..LeftOut::default() };
    assert_eq!(history.left_out, left_out);
    assert_eq!(history.requeued, Requeued { jobs: 1, gpu_hours: 2.0 });
    assert_eq!(history.jobs[4].components, 2);
    let waits = history.waits().unwrap();
    assert_eq!((waits.p95_s, waits.max_s), (30, 30));
    assert!((waits.mean_s - 41.0 / 6.0).abs() < 1e-9);
    let seconds = 2 * 600 + 16 * 2 + 5 * 100 + 4 * 60 + 4 * 61 + 56;
    assert!((history.gpu_hours() * 3600.0 - f64::from(seconds)).abs() < 1e-6);
}

#[test]
fn the_table_is_a_trace() {
    let mut history = history();
    let builder = ClusterBuilder::new("c").host_type("dgx", "H100", 8).hosts("h", 1, 1);
    let cluster = builder.host_type("old", "V100", 8).hosts("h", 2, 1).build();
    let said = history.name_gpu_models(&cluster);
    assert_eq!(said.len(), 1);
    assert!(said[0].message.contains("h9"), "{said:?}");
    let text = history.write(Tenant::Account, false);
    let trace = trace_file::read(&text).into_result().unwrap().0;
    let words: Vec<(&str, &str, &str)> = trace
        .jobs
        .iter()
        .map(|job| (trace.word(job.gpu_type), trace.word(job.tenant), trace.word(job.qos)))
        .collect();
    assert_eq!(words[0], ("H100", "ml", "normal"));
    assert_eq!(words[1], ("H100|V100", "ml", "low"));
    assert_eq!(words[4], ("H100|V100", "bob", "normal"));
    assert_eq!(words[5], ("", "ml", "low"));
    assert_eq!((trace.jobs[0].submit_s, trace.jobs[4].submit_s), (36_000.0, 36_030.0));
    assert_eq!((trace.jobs[4].gpus, trace.jobs[4].gpus_per_instance), (4, Some(3)));
    let hidden = history.write(Tenant::User, true);
    assert!(!hidden.contains("ann") && !hidden.contains("bob") && !hidden.contains("low"));
    assert!(hidden.contains(",q2,t1,"), "{hidden}");
}

#[test]
fn only_what_was_chosen_is_taken() {
    let runs = sacct::runs(ACCOUNTS).value;
    let at = |text| crate::time::stamp(text);
    let choice = Choice {
        since_s: at("2026-11-30T10:00:01"),
        until_s: at("2026-11-30T10:00:03"),
        partitions: vec!["gpu".to_owned()],
    };
    let history = History::of(runs, &choice);
    let names: Vec<&str> = history.jobs.iter().map(|job| job.name.as_str()).collect();
    assert_eq!(names, ["6_3", "10"]);
    assert_eq!((history.left_out.other_time, history.left_out.other_partition), (4, 1));
}

#[test]
fn mistakes_in_accounts_are_said_where_they_are() {
    let said = |text: &str| {
        let read = sacct::runs(text);
        let said: Vec<String> =
            read.diagnostics.iter().map(|d| format!("{}:{}", d.line, d.field)).collect();
        (read.value.len(), said.join(" "))
    };
    let header = "JobID|Submit|Start|ElapsedRaw|State|AllocTRES|NodeList\n";
    let with = |row: &str| said(&format!("{header}{row}\n2|5|6|7|FAILED|gres/gpu=1|h1"));
    assert_eq!(with("1|5|6|7|COMPLETED|gres/gpu=1|h1"), (2, String::new()));
    assert_eq!(with("1|5|6|7|COMPLETED|gres/gpu=x|h1"), (1, "2:AllocTRES".into()));
    assert_eq!(with("1|5|6|7|COMPLETED|gres/gpu=9999999|h1"), (1, "2:AllocTRES".into()));
    assert_eq!(with("1|5|six|7|COMPLETED|gres/gpu=1|h1"), (1, "2:Start".into()));
    assert_eq!(with("1||6|7|COMPLETED|gres/gpu=1|h1"), (1, "2:Submit".into()));
    assert_eq!(with("1|5|6|-7|COMPLETED|gres/gpu=1|h1"), (1, "2:ElapsedRaw".into()));
    assert_eq!(with("1+x|5|6|7|COMPLETED|gres/gpu=1|h1"), (1, "2:JobID".into()));
    assert_eq!(with("x|5|6|7|COMPLETED|gres/gpu=1|h1"), (1, "2:JobID".into()));
    assert_eq!(with("1|5|6|7|COMPLETED|gres/gpu=1|h[1-"), (1, "2:NodeList".into()));
    assert_eq!(with("1|5|6|7|COMPLETED"), (1, "2:".into()));
    assert_eq!(said("JobID|Submit\n1|2\n").1, "1:Start 1:ElapsedRaw 1:State 1:AllocTRES");
    assert_eq!(said("").1, "0:");
    let many = header.to_owned() + &"x|5|6|7|COMPLETED|gres/gpu=1|h1\n".repeat(150);
    let read = sacct::runs(&many);
    assert_eq!(read.diagnostics.len(), 101);
    assert_eq!(read.diagnostics[100].message, "50 further rows are wrong");
}

#[test]
fn damaged_accounts_never_panic() {
    for at in 0..ACCOUNTS.len() {
        let (head, tail) = ACCOUNTS.split_at(at);
        for damaged in [head.to_owned(), format!("{head}9{}", tail.get(1..).unwrap_or(""))] {
            let history = History::of(sacct::runs(&damaged).value, &Choice::default());
            let trace = trace_file::read(&history.write(Tenant::Account, false));
            assert_eq!(trace.value.jobs.len(), history.jobs.len(), "{damaged}");
        }
    }
}

fn running(id: u32, start_s: i64, more: &str) -> String {
    format!(
        r#"{{"id":{id},"user":"ann","state":"running","submit_s":90,"start_s":{start_s},"hosts":"h1","gpus":2,"by_host":[2]{more}}}"#
    )
}

fn samples(lines: &[(i64, &[String])]) -> (History, samples::Sampled) {
    let mut text = samples::HEADER.to_owned() + "\n";
    for (at_s, jobs) in lines {
        writeln!(text, "{{\"at_s\":{at_s},\"jobs\":[{}]}}", jobs.join(",")).unwrap();
    }
    let read = samples::runs(&text);
    assert_eq!(read.diagnostics, []);
    (History::of(read.value.0, &Choice::default()), read.value.1)
}

#[test]
fn samples_tell_ends_as_well_as_they_can() {
    let waits = |id: u32| format!(r#"{{"id":{id},"state":"pending","submit_s":95}}"#);
    let over = running(5, 100, r#","end_s":130"#).replace("running", "finished");
    let cancelled = waits(6).replace("pending", "finished");
    let (history, sampled) = samples(&[
        (110, &[running(1, 100, ""), running(2, 100, r#","end_s":114"#), waits(3), waits(8)]),
        (120, &[running(4, 100, ""), running(5, 100, ""), waits(6), running(7, 101, "")]),
        (140, &[running(4, 100, ""), over, cancelled, waits(8), running(7, 130, "")]),
    ]);
    let shown: Vec<(&str, i64, i64, bool)> = history
        .jobs
        .iter()
        .map(|job| (job.name.as_str(), job.duration_s, job.uncertain_s, job.open))
        .collect();
    // Gone between 110 and 120; its limit was at 114; still there; the end was seen; begun anew.
    let expected = [
        ("1", 15, 5, false),
        ("2", 12, 2, false),
        ("4", 40, 0, true),
        ("5", 30, 0, false),
        ("7", 10, 0, true),
    ];
    assert_eq!(shown, expected);
    let left_out = LeftOut { never_started: 1, waiting: 1, unseen: 1, ..LeftOut::default() };
    assert_eq!(history.left_out, left_out);
    // Its first run ended between 120 and 140.
    assert_eq!(history.requeued.jobs, 1);
    assert!((history.requeued.gpu_hours * 3600.0 - 2.0 * 29.0).abs() < 1e-9);
    assert_eq!((sampled.samples, sampled.longest_gap_s), (3, 20));
}

#[test]
fn a_sample_that_cannot_be_read_is_left_out_and_said() {
    let good = format!("{{\"at_s\":110,\"jobs\":[{}]}}", running(1, 100, ""));
    let header = samples::HEADER;
    for (text, line) in [
        (format!("{header}\n{good}\n{{\"at_s\":12"), 3),
        (format!("{header}\n{{\"jobs\":[]}}\n{good}"), 2),
        (format!("{header}\n{{\"at_s\":1,\"jobs\":[{{}}]}}\n{good}"), 2),
        (format!("{header}\n{{\"at_s\":1,\"jobs\":[{{\"id\":1}}]}}\n{good}"), 2),
    ] {
        let read = samples::runs(&text);
        assert_eq!((read.value.0.len(), read.diagnostics.len()), (1, 1), "{text}");
        assert_eq!(read.diagnostics[0].line, line);
    }
    for bad in ["", "x", "{}", r#"{"format":"bandpilot-slurm-samples","version":2}"#] {
        assert!(samples::runs(bad).diagnostics[0].severity == bandpilot_readers::Severity::Error);
    }
    for at in 0..good.len() {
        let damaged = format!("{header}\n{}9{}\n", &good[..at], &good[at + 1..]);
        History::of(samples::runs(&damaged).value.0, &Choice::default());
    }
}
