use bandpilot_core::ClusterBuilder;
use proptest::prelude::*;

use super::*;

fn gpus(text: &[(&str, &str)]) -> Vec<(String, GpuMask)> {
    let one = |(host, mask): &(&str, &str)| ((*host).to_owned(), GpuMask::parse(mask).unwrap());
    text.iter().map(one).collect()
}

fn planned() -> Planned {
    let mut list = HostGpus::list(&gpus(&[("h2", "0-3"), ("h1", "3")]), None);
    list[1].uuids.insert(3, "GPU-\"é\"".to_owned());
    Planned {
        user: "ann".to_owned(),
        program: "sbatch".to_owned(),
        asked: "5 GPUs".to_owned(),
        gpus: list,
        start: Start::After(vec!["11".to_owned()]),
        predicted: Some(Predicted { gbytes_per_s: 41.5, low: 40.0, high: 43.25 }),
        model: "m.json".to_owned(),
        snapshot_at_s: 1,
        ..Planned::default()
    }
}

fn entry(plan: &str, at_s: i64, what: What) -> Entry {
    Entry { plan: plan.to_owned(), at_s, what }
}

fn seen(agrees: Option<bool>) -> What {
    let gpus = Some(HostGpus::list(&gpus(&[("h1", "0,5")]), None));
    let differs = if agrees == Some(true) { "" } else { "h1: planned 3, has 0,5" };
    let (job, differs) = ("12".to_owned(), differs.to_owned());
    What::Fact(Seen { job, source: Source::Slurm, gpus, agrees, differs })
}

fn host(agrees: Option<bool>) -> What {
    let What::Fact(seen) = seen(agrees) else { unreachable!() };
    What::Fact(Seen { source: Source::Host, ..seen })
}

fn withdrawn() -> What {
    let replaced_by = Some("b".to_owned());
    What::Withdrawn { job: "12".to_owned(), why: "re-planned".to_owned(), replaced_by }
}

fn all() -> Vec<Entry> {
    vec![
        entry("a", 1, What::Plan(Box::new(planned()))),
        entry("a", 2, What::Submitted { job: "12_3".to_owned() }),
        entry("a", 3, withdrawn()),
        entry("a", 4, What::Failed { why: "Invalid\nqos".to_owned() }),
        entry("a", 5, seen(Some(false))),
        entry("a", 6, seen(None)),
    ]
}

fn shown(diagnostics: &[Diagnostic]) -> String {
    let lines: Vec<String> = diagnostics.iter().map(|d| d.display("a").to_string()).collect();
    lines.join("\n")
}

#[test]
fn the_documented_form() {
    let text = append("", &all()).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(
        lines,
        [
            HEADER,
            r#"{"what":"plan","plan":"a","at_s":1,"user":"ann","program":"sbatch","asked":"5 GPUs","gpus":[{"gpus":"0-3","host":"h2","uuids":{}},{"gpus":"3","host":"h1","uuids":{"3":"GPU-\"é\""}}],"whole_hosts":false,"start":["11"],"predicted":{"gbytes_per_s":41.5,"high":43.25,"low":40.0},"model":"m.json","snapshot_at_s":1,"array_task":null}"#,
            r#"{"what":"submitted","plan":"a","at_s":2,"job":"12_3"}"#,
            r#"{"what":"withdrawn","plan":"a","at_s":3,"job":"12","why":"re-planned","replaced_by":"b"}"#,
            r#"{"what":"failed","plan":"a","at_s":4,"why":"Invalid\nqos"}"#,
            r#"{"what":"fact","plan":"a","at_s":5,"job":"12","source":"slurm","gpus":[{"gpus":"0,5","host":"h1","uuids":{}}],"agrees":false,"differs":"h1: planned 3, has 0,5"}"#,
            r#"{"what":"fact","plan":"a","at_s":6,"job":"12","source":"slurm","gpus":[{"gpus":"0,5","host":"h1","uuids":{}}],"agrees":null,"differs":"h1: planned 3, has 0,5"}"#,
        ]
    );
    for (text, entry) in lines[1..].iter().zip(all()) {
        assert_eq!(line::read(text), Ok((entry, Vec::new())));
    }
}

#[test]
fn the_last_word_on_a_plan_counts() {
    let state = |entries: Vec<What>| {
        let mut audit = Audit::default();
        for what in entries {
            audit.add(entry("a", 1, what));
        }
        audit.plans[0].state
    };
    let submitted = || What::Submitted { job: "12".to_owned() };
    let failed = || What::Failed { why: "no".to_owned() };
    let plan = || What::Plan(Box::new(planned()));
    for (entries, expected) in [
        (vec![plan()], State::Planned),
        (vec![plan(), submitted()], State::Submitted),
        (vec![plan(), submitted(), withdrawn()], State::Withdrawn),
        (vec![plan(), failed()], State::Failed),
        // The answer was lost, and then the job was found.
        (vec![plan(), failed(), submitted()], State::Submitted),
        (vec![plan(), submitted(), seen(Some(true))], State::Verified),
        (vec![plan(), submitted(), seen(Some(true)), seen(None)], State::Verified),
        // A host tells of itself alone.
        (vec![plan(), submitted(), host(Some(true))], State::Submitted),
        (vec![plan(), submitted(), host(None), seen(Some(true))], State::Verified),
        (vec![plan(), submitted(), seen(Some(true)), host(Some(false))], State::Differs),
        (vec![plan(), submitted(), seen(Some(true)), seen(Some(false))], State::Differs),
        (vec![plan(), submitted(), seen(Some(false)), seen(Some(true))], State::Differs),
        (vec![plan(), submitted(), seen(None)], State::Unseen),
        (vec![plan(), submitted(), seen(None), seen(Some(true))], State::Verified),
        // Somebody looked before the submitter wrote down what it had done.
        (vec![plan(), seen(Some(true)), submitted()], State::Verified),
    ] {
        assert_eq!(state(entries.clone()), expected, "{entries:?}");
    }
}

#[test]
fn damage_is_named_by_its_line() {
    let good = append("", &all()).unwrap();
    let bad = good
        .replace("\"gpus\":\"0-3\"", "\"gpus\":\"0-99\"")
        .replace("\"job\":\"12_3\"", "\"job\":\"\"")
        .replace("\"what\":\"withdrawn\"", "\"what\":\"gone\"")
        .replace("\"why\":\"Invalid", "\"whom\":\"Invalid")
        .replace("\"agrees\":false", "\"agrees\":\"no\"");
    let read = read(&bad);
    let said: Vec<String> =
        read.diagnostics.iter().map(|d| format!("{} {} {}", d.line, d.field, d.message)).collect();
    assert_eq!(
        said,
        [
            "2 gpus[0].gpus GPU index 99 is above 63",
            "3 job is missing or not a job",
            "4 what is 'gone', none of plan, submitted, withdrawn, failed, fact",
            "5 why is missing or not a text",
            "6 agrees is missing or not true or false",
            "0 plan there is no line of plan 'a' itself",
        ]
    );
    assert_eq!(read.value.plans[0].state, State::Unseen);
    let twice = good.replace("\"host\":\"h2\"", "\"host\":\"h1\"");
    assert!(shown(&super::read(&twice).diagnostics).contains("gpus: h1 stands twice"));
}

#[test]
fn other_files_and_newer_versions_are_refused() {
    let newer = HEADER.replace(":1}", ":2}") + "\n";
    for (text, expected) in [
        ("# bandpilot measurements v1\n", "a:1:1: error: the file is not an audit"),
        (newer.as_str(), "a:1:1: error: version: the audit is of version 2, this program reads 1"),
    ] {
        assert!(shown(&read(text).diagnostics).starts_with(expected), "{text}");
        assert!(append(text, &all()).is_err());
    }
    let odd = append("", &all()).unwrap().replace("\"user\":", "\"shoe\":1,\"user\":");
    assert_eq!(shown(&read(&odd).diagnostics), "a:2: warning: shoe: unknown key, not used");
}

#[test]
fn a_torn_tail_is_reported_and_never_glued() {
    let whole = append("", &all()[..2]).unwrap();
    for cut in (0..=whole.len()).filter(|cut| whole.is_char_boundary(*cut)) {
        let torn = &whole[..cut];
        let text = torn.to_owned() + &append(torn, &all()[2..3]).unwrap();
        let read = read(&text);
        let last = read.value.plan("a").unwrap();
        assert_eq!(last.replaced_by.as_deref(), Some("b"), "{text}");
        assert!(!read.has_errors(), "{text}\n{}", shown(&read.diagnostics));
        assert!(super::read(torn).diagnostics.len() <= 2);
    }
}

#[test]
fn uuids_come_from_the_cluster_file() {
    let mut cluster = ClusterBuilder::new("c").host_type("dgx", "H100", 8).hosts("h", 1, 2).build();
    let id = |at: usize| (at != 2).then(|| format!("GPU-{at}"));
    cluster.hosts[1].gpu_ids =
        (0..8).map(|at| bandpilot_core::GpuIdentity { pci_bus_id: None, uuid: id(at) }).collect();
    let list = HostGpus::list(&gpus(&[("h2", "1-3"), ("h1", "0"), ("h9", "0")]), Some(&cluster));
    let uuids: Vec<Vec<&str>> =
        list.iter().map(|one| one.uuids.values().map(String::as_str).collect()).collect();
    assert_eq!(uuids, [vec!["GPU-1", "GPU-3"], vec![], vec![]]);
}

#[test]
fn facts_are_judged() {
    let planned = planned();
    let judged = |fact: Fact| planned.judge("12", &fact).map(|seen| (seen.agrees, seen.differs));
    let right = gpus(&[("h1", "3"), ("h2", "0-3")]);
    let runs = |gpus: &[(String, GpuMask)], unnamed| Fact::Runs { gpus: gpus.to_vec(), unnamed };
    let over = |gpus| Fact::Over { state: "COMPLETED".to_owned(), gpus };
    let said = |agrees, differs: &str| Some((agrees, differs.to_owned()));
    assert_eq!(judged(Fact::Waits("Resources".to_owned())), None);
    assert_eq!(judged(runs(&right, 0)), said(Some(true), ""));
    assert_eq!(judged(over(Some(right.clone()))), said(Some(true), ""));
    assert_eq!(judged(runs(&right[..1], 0)), said(Some(false), "h2: planned 0-3, has none"));
    assert_eq!(judged(runs(&[], 5)), said(None, "the indexes of 5 GPUs are not told"));
    assert_eq!(
        judged(runs(&right, 1)),
        said(Some(false), "has 1 GPUs more, whose indexes are not told")
    );
    assert_eq!(judged(over(Some(Vec::new()))), said(None, "over (COMPLETED), it never had GPUs"));
    assert_eq!(judged(over(None)), said(None, "over (COMPLETED), never seen while it ran"));
    assert_eq!(judged(Fact::Unknown), said(None, "over, never seen while it ran"));
}

#[test]
fn comments_name_the_plan() {
    assert_eq!(plan_of_comment(&comment("7f3a")), Some("7f3a"));
    assert_eq!(plan_of_comment("night run bandpilot:7f3a x"), Some("7f3a"));
    for none in ["", "bandpilot:", "7f3a", "xbandpilot:7f3a"] {
        assert_eq!(plan_of_comment(none), None);
    }
    assert_eq!(task_id("7f3a", 3), "7f3a_3");
}

/// Any entry of one plan.
fn any_what() -> impl Strategy<Value = What> {
    let text = "[a-z0-9 \\PC]{0,6}";
    prop_oneof![
        (text, any::<u16>(), any::<bool>()).prop_map(|(user, mask, whole_hosts)| {
            let gpus = HostGpus::list(&[("h1".to_owned(), GpuMask(mask as u64 | 1))], None);
            What::Plan(Box::new(Planned { user, gpus, whole_hosts, ..Planned::default() }))
        }),
        (1_u32..99).prop_map(|job| What::Submitted { job: job.to_string() }),
        text.prop_map(|why| What::Failed { why }),
        text.prop_map(|why| What::Withdrawn { job: "3".to_owned(), why, replaced_by: None }),
        any::<Option<bool>>().prop_map(seen),
    ]
}

proptest! {
    #[test]
    fn lines_are_read_as_they_were_written(whats in prop::collection::vec(any_what(), 1..6)) {
        for what in whats {
            let entry = entry("p", 7, what);
            let text = line(&entry);
            prop_assert_eq!(text.matches('\n').count(), 1);
            prop_assert_eq!(line::read(&text), Ok((entry, Vec::new())));
        }
    }

    /// Several submitters append to one file: what a plan comes to depends on its own lines alone.
    #[test]
    fn a_plan_does_not_depend_on_the_lines_of_others(
        lines in prop::collection::vec((0_usize..4, any_what()), 0..30),
    ) {
        let entries: Vec<Entry> = lines
            .into_iter()
            .zip(0..)
            .map(|((plan, what), at_s)| entry(&format!("p{plan}"), at_s, what))
            .collect();
        let together = read(&append("", &entries).unwrap()).value;
        for known in &together.plans {
            let own: Vec<Entry> =
                entries.iter().filter(|entry| entry.plan == known.id).cloned().collect();
            let alone = read(&append("", &own).unwrap()).value;
            prop_assert_eq!(&alone.plans, std::slice::from_ref(known));
        }
    }

    #[test]
    fn damaged_texts_never_panic(at in 0_usize..2000, with in "\\PC{0,3}") {
        let mut text = append("", &all()).unwrap();
        let at = (0..=at.min(text.len())).rev().find(|at| text.is_char_boundary(*at)).unwrap();
        text.insert_str(at, &with);
        read(&text);
        let _ = append(&text, &all());
    }
}
