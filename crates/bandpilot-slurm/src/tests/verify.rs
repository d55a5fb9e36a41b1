use bandpilot_manager::audit::{self, Planned};
use bandpilot_readers::Severity;

use super::*;
use crate::text;

/// An audit of plans, each for GPU `at` of h1, with the jobs that they were submitted as.
fn audit_of(plans: &[(&str, &str, Option<&str>)]) -> Audit {
    let mut audit = Audit::default();
    for (plan, gpus, job) in plans {
        let gpus = vec![("h1".to_owned(), GpuMask::parse(gpus).unwrap())];
        let planned = Planned { gpus: HostGpus::list(&gpus, None), ..Planned::default() };
        let mut whats = vec![What::Plan(Box::new(planned))];
        whats.extend(job.map(|job| What::Submitted { job: job.to_owned() }));
        for what in whats {
            audit.add(Entry { plan: (*plan).to_owned(), at_s: 100, what });
        }
    }
    audit
}

fn jobs(list: &[(u32, &str, &str, &str)], at_s: i64) -> Jobs {
    let one = |(id, state, gpus, comment): &(u32, &str, &str, &str)| {
        let held = if gpus.is_empty() {
            String::new()
        } else {
            format!("   NodeList=h1\n     Nodes=h1 GRES=gpu:1(IDX:{gpus})\n")
        };
        format!(
            "JobId={id} JobName=a\n   JobState={state} Reason=Priority\n{held}   Comment={comment}\n"
        )
    };
    let read = text::details(&list.iter().map(one).collect::<String>());
    assert_eq!(read.diagnostics, []);
    Jobs { at_s, jobs: read.value, whole: true, ..Jobs::default() }
}

fn verdicts(verified: &Verified) -> Vec<(&str, Verdict)> {
    verified.rows.iter().map(|row| (row.plan.as_str(), row.verdict)).collect()
}

/// What the audit says once the entries are in it.
fn appended(mut audit: Audit, verified: &Verified) -> Audit {
    verified.entries.iter().cloned().for_each(|entry| audit.add(entry));
    let text = audit::append("", &verified.entries).unwrap();
    assert!(!audit::read(&text).has_errors());
    audit
}

#[test]
fn every_plan_gets_its_verdict_and_only_open_ones_are_asked_for() {
    let audit = audit_of(&[
        ("a", "0", Some("1")),
        ("b", "1", Some("2")),
        ("c", "2", Some("3")),
        ("d", "3", Some("4")),
        ("e", "4", Some("5")),
        ("f", "5", None),
        ("g", "6", None),
    ]);
    let seen = jobs(
        &[
            (1, "RUNNING", "0", ""),
            (2, "RUNNING", "7", ""),
            (3, "PENDING", "", ""),
            (4, "CANCELLED", "", ""),
            (8, "RUNNING", "6", "bandpilot:g"),
        ],
        200,
    );
    let first = verify(&audit, &seen, None);
    let expected = [
        ("a", Verdict::AsPlanned),
        ("b", Verdict::Differs),
        ("c", Verdict::Waits),
        ("d", Verdict::NeverRan),
        ("e", Verdict::Unseen),
        ("f", Verdict::NotSubmitted),
        ("g", Verdict::AsPlanned),
    ];
    assert_eq!(verdicts(&first), expected);
    assert!(first.bad() && first.open() && first.remarks.is_empty());
    assert_eq!(first.rows[1].why, "h1: planned 1, has 7");
    assert_eq!(first.rows[6].job.as_deref(), Some("8"));
    assert_eq!(first.entries.len(), 6);
    let audit = appended(audit, &first);
    let again = verify(&audit, &jobs(&[(3, "RUNNING", "2", "")], 300), None);
    assert_eq!(again.rows.iter().filter(|row| row.asked).count(), 1);
    assert_eq!(again.rows[2].verdict, Verdict::AsPlanned);
    // The others are as they were.
    let others = |verified: &Verified| {
        let rows = verified.rows.iter().filter(|row| row.plan != "c");
        rows.map(|row| Row { asked: false, ..row.clone() }).collect::<Vec<_>>()
    };
    assert_eq!(others(&again), others(&first));
    assert!(!again.open() && again.bad());
    assert_eq!(verdicts(&verify(&audit, &seen, Some("2"))), [("b", Verdict::Differs)]);
}

#[test]
fn a_task_that_was_never_given_its_gpus_is_named() {
    let audit = audit_of(&[("a", "0", Some("3_1"))]);
    let at = |at_s| {
        let mut seen = jobs(&[(3, "PENDING", "", "")], at_s);
        let job = &mut seen.jobs[0].job;
        job.array = Some(crate::ArrayTasks { job: 3, tasks: "0-4".to_owned() });
        job.start_s = Some(4_070_908_800);
        job.request.tres_per_host.clear();
        verify(&audit, &seen, None)
    };
    assert_eq!(at(101).rows[0].verdict, Verdict::BeingSubmitted);
    let late = at(101 + SUBMIT_S);
    assert_eq!(late.rows[0].verdict, Verdict::Stranded);
    assert!(late.bad() && late.rows[0].why.contains("scancel 3_1"), "{late:?}");
}

#[test]
fn a_submitter_has_a_while() {
    let audit = audit_of(&[("a", "0", None)]);
    let at = |at_s| verify(&audit, &jobs(&[], at_s), None).rows[0].verdict;
    assert_eq!(at(100 + SUBMIT_S), Verdict::BeingSubmitted);
    assert_eq!(at(101 + SUBMIT_S), Verdict::NotSubmitted);
}

#[test]
fn a_plan_that_stands_twice_in_the_queue_is_named() {
    let audit = audit_of(&[("a", "0", None)]);
    let twice = jobs(&[(1, "RUNNING", "0", "bandpilot:a"), (2, "PENDING", "", "bandpilot:a")], 200);
    let verified = verify(&audit, &twice, None);
    assert_eq!(verified.remarks[0].1.severity, Severity::Error);
    assert_eq!(verified.remarks[0].1.message, "plan a stands in the queue as jobs 1, 2");
}

#[test]
fn an_id_that_was_given_anew_is_another_job() {
    let audit = audit_of(&[("a", "0", Some("1"))]);
    let of = |comment| {
        let jobs = jobs(&[(1, "RUNNING", "0", comment)], 200);
        verify(&audit, &jobs, None).rows[0].verdict
    };
    assert_eq!(of("bandpilot:a"), Verdict::AsPlanned);
    assert_eq!(of("night"), Verdict::AsPlanned);
    assert_eq!(of("bandpilot:b"), Verdict::Unseen);
}

#[test]
fn what_could_not_be_read_is_not_settled() {
    let audit = audit_of(&[("a", "0", Some("1"))]);
    let verified = verify(&audit, &Jobs { whole: false, ..jobs(&[], 200) }, None);
    assert_eq!(verdicts(&verified), [("a", Verdict::Unread)]);
    assert!(verified.entries.is_empty() && verified.bad() && verified.open());
    let mut lost = Audit::default();
    let what = What::Submitted { job: "1".to_owned() };
    lost.add(Entry { plan: "a".to_owned(), at_s: 1, what });
    let verified = verify(&lost, &jobs(&[(1, "RUNNING", "0", "")], 200), None);
    assert_eq!(verdicts(&verified), [("a", Verdict::NoPlan)]);
}
