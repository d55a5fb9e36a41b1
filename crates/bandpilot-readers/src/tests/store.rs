use bandpilot_core::{Collective, GpuMask};
use proptest::prelude::*;

use super::*;

fn measurement(line: u64, busbw: f64) -> Measurement {
    Measurement {
        collective: Collective::AllReduce,
        bytes: Some(1 << 24),
        placement: vec![("h1".into(), GpuMask(15)), ("h2".into(), GpuMask(3))],
        busbw_gbytes_per_s: busbw,
        source: "t \"é\".csv".into(),
        line,
    }
}

fn shown(diagnostics: &[Diagnostic]) -> String {
    let lines: Vec<String> = diagnostics.iter().map(|d| d.display("s").to_string()).collect();
    lines.join("\n")
}

#[test]
fn the_documented_form() {
    let text = append_text("", &[measurement(4, 41.62)]).unwrap().text;
    assert_eq!(
        text,
        "# bandpilot measurements v1\n{\"op\":\"all_reduce\",\"bytes\":16777216,\"placement\":\"h1:0-3,h2:0-1\",\"busbw_gbytes_per_s\":41.62,\"source\":\"t \\\"é\\\".csv\",\"line\":4}\n"
    );
    assert_eq!(parse(&text).value, [measurement(4, 41.62)]);
}

#[test]
fn the_same_file_twice_adds_nothing() {
    let all = [measurement(4, 1.5), measurement(5, 1.5), measurement(4, 1.5)];
    let first = append_text("", &all).unwrap();
    assert_eq!((first.added, first.already_present), (2, 1));
    let again = append_text(&first.text, &all).unwrap();
    assert_eq!(again, Addition { text: String::new(), added: 0, already_present: 3 });
}

#[test]
fn what_was_piped_in_is_of_any_file() {
    let named = measurement(3, 9.5);
    let piped = Measurement { source: STDIN.to_owned(), ..named.clone() };
    for (first, then) in [(&named, &piped), (&piped, &named)] {
        let store = append_text("", std::slice::from_ref(first)).unwrap();
        let again = append_text(&store.text, std::slice::from_ref(then)).unwrap();
        assert_eq!((again.added, again.already_present), (0, 1));
    }
    let store = append_text("", &[named.clone(), piped]).unwrap();
    assert_eq!(store.added, 1);
    let other = Measurement { source: "other".to_owned(), ..named };
    assert_eq!(append_text(&store.text, &[other]).unwrap().added, 1);
}

#[test]
fn a_torn_tail_is_reported_and_never_glued() {
    let whole = append_text("", &[measurement(4, 1.5), measurement(5, 2.5)]).unwrap().text;
    for cut in 0..whole.len() {
        if !whole.is_char_boundary(cut) {
            continue;
        }
        let torn = &whole[..cut];
        let before = parse(torn);
        assert!(!before.has_errors(), "{torn}\n{}", shown(&before.diagnostics));
        let more = append_text(torn, &[measurement(9, 3.5)]).unwrap();
        let after = parse(&format!("{torn}{}", more.text));
        assert!(!after.has_errors(), "{cut}: {}", shown(&after.diagnostics));
        assert_eq!(after.value.len(), before.value.len() + 1, "{cut}");
        let again = append_text(&format!("{torn}{}", more.text), &[measurement(9, 3.5)]).unwrap();
        assert_eq!(again.text, "", "{cut}");
    }
}

#[test]
fn wrong_lines_are_named_and_the_others_kept() {
    let good = append_text("", &[measurement(4, 1.5)]).unwrap().text;
    let line = good.lines().nth(1).unwrap();
    for (from, to, part) in [
        ("all_reduce", "all_red", "s:3: error: op: 'all_red' is not a collective"),
        ("16777216", "-1", "s:3: error: bytes: is missing or not a whole number"),
        ("h1:0-3", "h1:0-99", "s:3: error: placement: GPU index 99"),
        ("1.5", "\"x\"", "s:3: error: busbw_gbytes_per_s: is missing"),
        ("1.5", "-1.5", "s:3: error: busbw_gbytes_per_s: is missing"),
        ("\"line\":4", "\"row\":4", "s:3: error: line: is missing"),
        ("{", "[", "s:3: error: not a line of JSON"),
        ("\"line\":4", "\"line\":4,\"when\":1", "s:3: warning: when: unknown key"),
    ] {
        let text = format!("{good}{}\n{line}\n", line.replacen(from, to, 1));
        let read = parse(&text);
        assert!(shown(&read.diagnostics).contains(part), "{}", shown(&read.diagnostics));
        assert!(read.value.len() >= 2, "{to}");
    }
}

#[test]
fn other_files_and_newer_versions_are_refused() {
    for (text, part) in [
        ("op,bytes\n", "s:1:1: error: the file is not a measurement store"),
        (
            "# bandpilot measurements v2\n{}\n",
            "s:1:1: error: the store is of version '2', this program reads 1",
        ),
    ] {
        assert!(shown(&parse(text).diagnostics).contains(part));
        assert!(parse(text).value.is_empty());
        assert!(append_text(text, &[measurement(1, 1.0)]).is_err());
    }
}

#[test]
fn real_tables_round_trip() {
    let Some(data) = bandpilot_testdata::require_data("store::real_tables_round_trip") else {
        return;
    };
    let path = data.join("nccl-bandpilot/cross_H100_32gpu.csv");
    let text = bandpilot_testdata::read(&path).unwrap();
    let rows = crate::import("cross.csv", &text, &crate::ImportOptions::default()).measurements;
    let store = append_text("", &rows).unwrap();
    assert_eq!(store.added, 1006);
    assert_eq!(parse(&store.text).value, rows);
    assert_eq!(append_text(&store.text, &rows).unwrap().already_present, 1006);
}

proptest! {
    #[test]
    fn any_measurement_round_trips(
        op in prop::sample::select(Collective::ALL.to_vec()),
        bytes in prop::option::of(any::<u64>()),
        hosts in prop::collection::btree_map("[a-z][a-z0-9.-]{0,6}", 1_u64.., 1..5),
        busbw in 0.0_f64..99_999.0,
        source in ".{0,12}",
        line in any::<u64>(),
    ) {
        let placement = hosts.into_iter().map(|(name, bits)| (name, GpuMask(bits))).collect();
        let m = Measurement { collective: op, bytes, placement, busbw_gbytes_per_s: busbw, source, line };
        let text = append_text("", std::slice::from_ref(&m)).unwrap().text;
        prop_assert_eq!(parse(&text).value, vec![m.clone()]);
        prop_assert_eq!(append_text(&text, &[m]).unwrap().added, 0);
    }
}
