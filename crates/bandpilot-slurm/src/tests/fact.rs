use std::fmt::Write as _;

use super::*;

/// Of 22.05: a job with a comment, of these lines only the changing ones.
fn job(id: &str, state: &str, hosts: &str, in_all: &str, gpus: &[(&str, &str)]) -> String {
    let mut text = format!(
        "JobId={id} JobName=wrap\n   JobState={state} Reason=Resources Dependency=(null)\n   NodeList={hosts}\n"
    );
    if !in_all.is_empty() {
        writeln!(text, "   JOB_GRES={in_all}").unwrap();
    }
    for (nodes, gres) in gpus {
        writeln!(text, "     Nodes={nodes} CPU_IDs=0 Mem=0 GRES={gres}").unwrap();
    }
    text + "   Comment=night bandpilot:7f3a \n\n"
}

fn read(text: &str) -> Jobs {
    let nodes = "NodeName=h1\n   Gres=gpu:g0:1,gpu:g1:1,gpu:g2:1\n   State=IDLE\n\
                 NodeName=h2\n   Gres=gpu:g2:1,gpu:g1:1,gpu:g0:1\n   State=IDLE\n\
                 NodeName=h3\n   Gres=gpu:a:2,gpu:g0:1\n   State=IDLE\n";
    let jobs = text::details(text);
    assert_eq!(jobs.diagnostics, []);
    Jobs {
        at_s: 1,
        jobs: jobs.value,
        hosts: text::hosts(nodes).value,
        whole: true,
        remarks: vec![],
    }
}

fn shown(fact: &Fact) -> String {
    let list = |gpus: &Gpus| {
        let one = |(host, mask): &(String, GpuMask)| format!("{host}:{mask}");
        gpus.iter().map(one).collect::<Vec<_>>().join(" ")
    };
    match fact {
        Fact::Waits(reason) => format!("waits {reason}"),
        Fact::Runs { gpus, unnamed } => format!("runs {} +{unnamed}", list(gpus)),
        Fact::Over { state, gpus } => {
            format!("{state} {}", gpus.as_ref().map_or("?".to_owned(), list))
        }
        Fact::Unknown => "unknown".to_owned(),
    }
}

#[test]
fn what_a_job_has_or_had() {
    let over = |in_all: &str, hosts| job("7", "COMPLETED", hosts, in_all, &[(hosts, "")]);
    let cases = [
        (job("7", "PENDING", "", "", &[]), "waits Resources"),
        (job("7", "RUNNING", "h1", "gpu:g1:1", &[("h1", "gpu:g1:1(IDX:1)")]), "runs h1:1 +0"),
        (job("7", "RUNNING", "h1", "gpu:2", &[("h1", "gpu:2")]), "runs  +2"),
        (job("7", "RUNNING", "h1", "", &[]), "runs h1: +0"),
        (job("7", "CANCELLED", "", "", &[]), "CANCELLED "),
        (over("gpu:g1:1", "h1"), "COMPLETED h1:1"),
        // The index of a type is another one on the second host.
        (over("gpu:g1:2,gpu:g0:2", "h[1-2]"), "COMPLETED h1:0-1 h2:1-2"),
        // On which of the two?
        (over("gpu:g1:1", "h[1-2]"), "COMPLETED ?"),
        // Which of the two?
        (over("gpu:a:1", "h3"), "COMPLETED ?"),
        (over("gpu:1", "h1"), "COMPLETED ?"),
        // Hosts that are gone.
        (over("gpu:g1:1", "h9"), "COMPLETED ?"),
        // It ran, and without GPUs.
        (job("7", "FAILED", "h1", "", &[]), "FAILED h1:"),
        (job("8", "RUNNING", "h1", "", &[]), "unknown"),
    ];
    for (text, expected) in cases {
        assert_eq!(shown(&read(&text).fact("7")), expected, "{text}");
    }
}

#[test]
fn components_are_one_job() {
    let part = |id: u32, state, host, gres: &str, shown: &str| {
        let text = job(&id.to_string(), state, host, gres, &[(host, shown)]);
        let offset = id - 7;
        text.replace(" JobName", &format!(" HetJobId=7 HetJobOffset={offset} JobName"))
    };
    let running = part(7, "RUNNING", "h1", "gpu:g0:1", "gpu:g0:1(IDX:0)")
        + &part(8, "RUNNING", "h2", "gpu:g2:1", "gpu:g2:1(IDX:0)");
    let jobs = read(&running);
    assert_eq!(shown(&jobs.fact("7")), "runs h1:0 h2:0 +0");
    assert_eq!(shown(&jobs.fact("7+1")), "runs h2:0 +0");
    assert_eq!(jobs.of_plan("7f3a", None), ["7"]);
    let over =
        part(7, "COMPLETED", "h1", "gpu:g0:1", "") + &part(8, "NODE_FAIL", "h2", "gpu:g2:1", "");
    assert_eq!(shown(&read(&over).fact("7")), "NODE_FAIL h1:0 h2:0");
    assert_eq!(read(&over).exit_code("7"), Some(0));
    let half = part(7, "COMPLETED", "h1", "gpu:g0:1", "")
        + &part(8, "RUNNING", "h2", "gpu:g2:1", "gpu:g2:1(IDX:0)");
    assert_eq!(shown(&read(&half).fact("7")), "runs h1:0 h2:0 +0");
}

#[test]
fn the_exit_code_is_that_of_the_worst_part() {
    let task = |id: &str, index, state, exit: &str| {
        let text = job(id, state, "h1", "", &[]);
        let more = format!(" ArrayJobId=5 ArrayTaskId={index} ExitCode={exit} JobName");
        text.replace(" JobName", &more)
    };
    let (done, worse) = (task("6", 1, "COMPLETED", "0:0"), task("5", 2, "FAILED", "3:0"));
    let killed = task("7", 3, "CANCELLED", "0:15");
    let cases = [
        (done.clone(), Some(0)),
        (done.clone() + &worse, Some(3)),
        (done.clone() + &killed, Some(1)),
        (done.clone() + &worse + &task("7", 3, "RUNNING", "0:0"), None),
        (done + &task("7", 3, "COMPLETING", "0:0"), None),
        (String::new(), Some(1)),
    ];
    for (text, expected) in cases {
        assert_eq!(read(&text).exit_code("5"), expected, "{text}");
    }
}

#[test]
fn tasks_of_an_array_are_told_apart() {
    let task = |id: &str, tasks: &str, state, host| {
        let text = job(id, state, host, "", &[]);
        text.replace(" JobName", &format!(" ArrayJobId=5 ArrayTaskId={tasks} JobName"))
    };
    let jobs = read(&(task("5", "2-8:3,20%1", "PENDING", "") + &task("9", "1", "RUNNING", "h1")));
    assert_eq!(shown(&jobs.fact("5_1")), "runs h1: +0");
    assert_eq!(shown(&jobs.fact("5_8")), "waits Resources");
    assert_eq!(shown(&jobs.fact("5_20")), "waits Resources");
    assert_eq!(shown(&jobs.fact("5_3")), "unknown");
    assert_eq!(jobs.of_plan("7f3a_1", Some(1)), ["5_1"]);
    assert_eq!(jobs.of_plan("7f3a_5", Some(5)), ["5_5"]);
    assert!(jobs.of_plan("7f3a_3", Some(3)).is_empty());
    assert!(jobs.of_plan("7f3b_1", Some(1)).is_empty());
    assert!(!jobs.is_of_another_plan("5_1", "7f3a_1"));
    assert!(jobs.is_of_another_plan("5_1", "7f3a_2"));
    // Once it has its GPUs it carries its own id.
    let own = task("9", "1", "RUNNING", "h1").replace(":7f3a ", ":7f3a_1 ");
    assert_eq!(read(&own).of_plan("7f3a_1", Some(1)), ["5_1"]);
    assert!(!read(&own).is_of_another_plan("5_1", "7f3a_1"));
    let cut = read(&task("5", "2-8,...", "PENDING", ""));
    assert_eq!(shown(&cut.fact("5_77")), "waits Resources");
}

#[test]
fn a_gpu_in_two_jobs_is_named() {
    let one = |id, gpus| job(id, "RUNNING", "h1", "", &[("h1", gpus)]);
    let text = one("7", "gpu:2(IDX:0-1)") + &one("8", "gpu:2(IDX:1-2)") + &one("9", "gpu:1(IDX:3)");
    let double = read(&text).double_bookings();
    let jobs = vec!["7".to_owned(), "8".to_owned()];
    assert_eq!(double, [DoubleBooking { host: "h1".to_owned(), gpu: 1, jobs }]);
    assert!(read(&text.replace("(IDX:1-2)", "(IDX:2,4)")).double_bookings().is_empty());
}

#[test]
fn only_jobs_are_jobs() {
    for text in ["12", "12_3", "12+1"] {
        assert!(is_job(text), "{text}");
    }
    for text in ["", "-1", "+1", "_", "12_", "12_a", "1 2", "99999999999", "--help"] {
        assert!(!is_job(text), "{text}");
    }
}
