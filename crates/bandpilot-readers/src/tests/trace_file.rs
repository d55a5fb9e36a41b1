use std::io::Read as _;

use proptest::prelude::*;

use super::*;

const HEAD: &str = "job_id,submit_s,duration_s,gpus";

fn one(columns: &str, cells: &str) -> Parsed<Trace> {
    read(&format!("{HEAD}{columns}\na,1,2,8{cells}\n"))
}

/// Line, field and message of every remark.
fn remarks(read: &Parsed<Trace>) -> Vec<(u32, &str, &str)> {
    let all = read.diagnostics.iter();
    all.map(|d| (d.line, d.field.as_str(), d.message.as_str())).collect()
}

#[test]
fn columns_are_found_by_name_and_jobs_are_sorted() {
    let text = "tenant,gpus,phase,submit_s,duration_s,priority,comm_share,job_id,gpu_type,qos\n\
                t1,8,x,10,5.5,-3,0.25,late,V100,p0\nt1,1,x,0,1,,,first,,\n\nt2,2.0,x,0,1e3,,,second,,\n";
    let read = read(text);
    assert_eq!(read.diagnostics, []);
    let names: Vec<&str> = read.value.jobs.iter().map(|job| &*job.name).collect();
    assert_eq!(names, ["first", "second", "late"]);
    let late = &read.value.jobs[2];
    assert_eq!((late.submit_s, late.duration_s, late.gpus, late.line), (10.0, 5.5, 8, 2));
    assert_eq!((late.priority, late.comm_share, late.gpu_milli), (Some(-3), Some(0.25), 1000));
    let words = [late.gpu_type, late.qos, late.tenant].map(|id| read.value.word(id));
    assert_eq!(words, ["V100", "p0", "t1"]);
    assert_eq!(late.tenant, read.value.jobs[0].tenant);
    assert_eq!(read.value.words().count(), 5);
    assert_eq!((read.value.jobs[1].gpus, read.value.jobs[1].duration_s), (2, 1000.0));
}

#[test]
fn wrong_rows_are_listed_and_counted() {
    let text = format!(
        "{HEAD},gpu_milli,comm_share,priority\na,1,2,8,,,\nb,-1,2,8,,,\nc,1,,8,,,\nd,1,2,0.5,,,\ne,1,2,8,0,,\n\
         f,1,2,8,,1.5,\ng,1,2,8,,,high\nh,1,2\na,5,6,1,,,\ni,1700000000000,2,1,,,\nj,1,NaN,1,,,\nk,1,2,1,1000,1,1\n"
    );
    let read = read(&text);
    let expected = [
        (3, "submit_s", "'-1' is not a number of seconds from 0 to 10^10"),
        (4, "duration_s", "is empty"),
        (5, "gpus", "'0.5' is not a whole number from 0 to 1000000"),
        (6, "gpu_milli", "'0' is not a whole number from 1 to 1000"),
        (7, "comm_share", "'1.5' is not a share from 0 to 1"),
        (8, "priority", "'high' is not a whole number from -2147483648 to 2147483647"),
        (9, "", "3 cells below 7 columns"),
        (10, "job_id", "'a' stands in line 2 already"),
        (11, "submit_s", "'1700000000000' is not a number of seconds from 0 to 10^10"),
        (12, "duration_s", "'NaN' is not a number of seconds from 0 to 10^10"),
    ];
    assert_eq!(remarks(&read), expected);
    assert_eq!((read.value.jobs.len(), read.value.bad_rows), (2, 10));
}

#[test]
fn many_wrong_rows_are_all_counted() {
    let text = format!("{HEAD}\n{}", "x,1,2,?\n".repeat(250));
    let read = read(&text);
    assert_eq!((read.value.bad_rows, read.diagnostics.len()), (250, 101));
    assert_eq!(read.diagnostics[100].message, "150 further rows are wrong");
}

#[test]
fn a_wrong_header_names_the_columns() {
    for (text, expected) in [
        ("", vec![(0, "", "the file is empty")]),
        ("\n \n", vec![(0, "", "the file is empty")]),
        (
            "\njob,sumbit_s,duration_s\n1,2,3\n",
            vec![
                (2, "submit_s", "the table has no such column"),
                (2, "gpus", "the table has no such column"),
            ],
        ),
        ("submit_s,duration_s,gpus,\"gpus\"\n", vec![(1, "gpus", "the column stands twice")]),
    ] {
        let read = read(text);
        assert_eq!(remarks(&read), expected);
        assert!(read.value.jobs.is_empty());
    }
    assert_eq!(read("sumbit_s,duration_s,gpus\n").diagnostics[0].help, "is it 'sumbit_s'?");
}

#[test]
fn instances_and_total_must_agree() {
    let shape = |columns: &str, cells: &str| {
        let read = one(columns, cells);
        let job = read.value.jobs.first();
        job.map(|job| (job.gpus, job.gpus_per_instance))
            .ok_or_else(|| read.diagnostics[0].field.clone())
    };
    let both = ",instances,gpus_per_instance";
    assert_eq!(shape("", ""), Ok((8, None)));
    assert_eq!(shape(both, ",2,4"), Ok((8, Some(4))));
    assert_eq!(shape(both, ",3,3"), Ok((8, Some(3))));
    assert_eq!(shape(both, ",3,"), Ok((8, Some(3))));
    assert_eq!(shape(both, ",,3"), Ok((8, Some(3))));
    assert_eq!(shape(both, ",,16"), Ok((8, Some(16))));
    for wrong in [",2,3", ",9,1", ",5,", ",0,1", ",1,0"] {
        assert!(shape(both, wrong).is_err(), "{wrong}");
    }
    let text =
        "submit_s,duration_s,instances,gpus_per_instance\n1,2,3,4\n1,2,3,\n1,2,999999,999999\n";
    let read = read(text);
    assert_eq!((read.value.jobs[0].gpus, &*read.value.jobs[0].name), (12, "line 2"));
    assert_eq!(remarks(&read)[0], (3, "gpus", "is empty"));
    assert_eq!(remarks(&read)[1].1, "instances");
}

#[test]
fn every_real_trace_is_read_whole() {
    let Some(data) = bandpilot_testdata::require_data("trace_file::every_real_trace") else {
        return;
    };
    for (file, jobs, gpus) in [
        ("philly-2017-82k", 82_247, 128),
        ("philly-vc-ee9e8c-1511", 1_511, 128),
        ("muri-philly-trace2", 5_755, 32),
        ("elasticflow-philly-103959-deadlines", 876, 4),
        ("openb-2023-8152-pods", 8_152, 8),
    ] {
        let packed = std::fs::File::open(data.join(format!("traces/{file}.csv.gz"))).unwrap();
        let mut text = String::new();
        flate2::read::GzDecoder::new(packed).read_to_string(&mut text).unwrap();
        let whole = read(&text);
        assert_eq!(whole.diagnostics, [], "{file}");
        assert_eq!(whole.value.jobs.len(), jobs, "{file}");
        assert_eq!(whole.value.jobs.iter().map(|job| job.gpus).max(), Some(gpus), "{file}");
        assert!(whole.value.jobs.is_sorted_by(|a, b| a.submit_s <= b.submit_s));
        // Cut anywhere: what is read of whole rows is what the whole file says.
        for cut in (0..text.len()).step_by(text.len() / 7 + 1) {
            let head = read(&text[..cut]);
            assert!(head.value.bad_rows <= 1);
            let rows = text[..cut].lines().count().saturating_sub(1);
            assert_eq!(
                head.value.jobs.len() + head.value.bad_rows,
                if cut == 0 { 0 } else { rows }
            );
        }
    }
}

/// Damages one row of a small good trace.
fn damaged() -> impl Strategy<Value = String> {
    let cell = prop_oneof![
        "[0-9]{1,3}",
        Just(String::new()),
        Just("1e400".to_owned()),
        Just("-0".to_owned()),
        Just("NaN".to_owned()),
        "\\PC{0,6}",
    ];
    let row = proptest::collection::vec(cell, 6..9).prop_map(|cells| cells.join(","));
    proptest::collection::vec(row, 0..12).prop_map(|rows| {
        format!("{HEAD},gpu_milli,instances,gpus_per_instance\n{}\n", rows.join("\n"))
    })
}

proptest! {
    #[test]
    fn no_row_is_dropped_silently(text in damaged()) {
        let rows = text.lines().skip(1).filter(|line| !line.trim().is_empty()).count();
        let read = read(&text);
        prop_assert_eq!(read.value.jobs.len() + read.value.bad_rows, rows);
        prop_assert_eq!(read.diagnostics.len(), read.value.bad_rows);
        for job in &read.value.jobs {
            prop_assert!((0.0..=MAX_SECONDS).contains(&job.submit_s) && job.submit_s.is_sign_positive());
            prop_assert!((0.0..=MAX_SECONDS).contains(&job.duration_s));
            prop_assert!(job.gpus <= MAX_JOB_GPUS && job.gpu_milli <= 1000);
            prop_assert!(job.gpus_per_instance != Some(0));
        }
        prop_assert!(read.value.jobs.is_sorted_by(|a, b| (a.submit_s, a.line) < (b.submit_s, b.line)));
    }

    #[test]
    fn any_text_is_survived(text in "\\PC*") {
        let _ = read(&text);
        let _ = read(&format!("{HEAD}\n{text}"));
    }
}

#[test]
fn another_separator_or_encoding_is_named() {
    let comma = "job_id,submit_s,duration_s,gpus\na,0,1,1\n";
    for (separator, what) in [(";", "';'"), ("\t", "tabs")] {
        let diagnostics = read(&comma.replace(',', separator)).diagnostics;
        assert_eq!(diagnostics.len(), 1);
        let message = format!("its columns are separated by {what}, not by commas");
        assert_eq!((&diagnostics[0].message, diagnostics[0].line), (&message, 1));
    }
    let wide: Vec<u8> = comma.encode_utf16().flat_map(u16::to_le_bytes).collect();
    let diagnostics = read(&String::from_utf8_lossy(&wide)).diagnostics;
    assert_eq!(diagnostics[0].message, "the text is UTF-16, not UTF-8");
    assert_eq!(read("name\nx\n").diagnostics.len(), 3);
}
