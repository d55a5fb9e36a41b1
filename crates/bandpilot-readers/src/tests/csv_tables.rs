use bandpilot_core::{GpuMask, LinkClass, Links};

use super::*;
use crate::MissingBytes;

const CROSS: &str = "row,message_bytes,num_gpus,num_hosts,n0,n1,gpus_h0,gpus_h1,sorted_counts,repeat,used_by_reference,busbw_GBps\n";
const HOST: &str = "host,gpu_type,num_gpus,bitmask,gpus,message_bytes,busbw_GBps\n";

fn shown(import: &Import) -> String {
    let lines: Vec<String> =
        import.diagnostics.iter().map(|d| d.display("t.csv").to_string()).collect();
    lines.join("\n")
}

fn hosts(names: &[&str]) -> ImportOptions {
    ImportOptions {
        hosts: names.iter().map(|name| (*name).to_owned()).collect(),
        ..ImportOptions::default()
    }
}

#[test]
fn cross_rows_name_their_hosts_by_column() {
    let text = CROSS.to_owned()
        + "1,16777216,3,2,2,1,0 1,0,2+1,1,1,41.62\n\n2,16777216,1,1,0,1,,3,1,1,1,0.00\n";
    let import = read("t.csv", &text, &hosts(&["b", "a"]));
    assert_eq!(
        (import.measurements.len(), import.skipped_rows, import.refused_rows),
        (1, 1, 0),
        "{}",
        shown(&import)
    );
    let m = &import.measurements[0];
    assert_eq!(crate::placement::format(&m.placement), "a:0,b:0-1");
    assert_eq!((m.busbw_gbytes_per_s, m.bytes, m.line), (41.62, Some(1 << 24), 2));
    let plain = read("t.csv", &text, &ImportOptions::default());
    assert_eq!(crate::placement::format(&plain.measurements[0].placement), "host0:0-1,host1:0");
}

#[test]
fn rows_that_contradict_themselves_are_refused() {
    let row = "1,16777216,3,2,2,1,0 1,0,2+1,1,1,41.62";
    for (from, to, part) in [
        ("16777216,3,", "16777216,4,", "num_gpus: 4, but the GPU lists give 3"),
        (",3,2,2,1", ",3,1,2,1", "num_hosts: 1, but the GPU lists give 2"),
        (",2,1,0 1", ",1,1,0 1", "n0: 1, but the GPU lists give 2"),
        ("2+1", "1+2", "sorted_counts: '1+2', but the GPU lists give '2+1'"),
        ("0 1,0,", "0 0,0,", "gpus_h0: GPU 0 stands twice"),
        ("0 1,0,", "0 x,0,", "gpus_h0: 'x' is not a GPU index"),
        ("0 1,0,", "0 64,0,", "gpus_h0: '64' is not a GPU index"),
        ("41.62", "nan", "busbw_GBps: 'nan' is not a bandwidth"),
        ("41.62", "-1", "busbw_GBps: '-1' is not a bandwidth"),
        ("41.62", "4162162.0", "busbw_GBps: '4162162.0' is not a bandwidth"),
        ("41.62", "0.00", "busbw_GBps: 0 GB/s for 3 GPUs"),
        ("16777216", "16x", "message_bytes: '16x' is not a whole number"),
        ("16777216", "0", "message_bytes: a message of 0 bytes"),
        (",41.62", "", "11 cells below 12 columns"),
    ] {
        let text = format!("{CROSS}{}\n", row.replacen(from, to, 1));
        let import = read("t.csv", &text, &ImportOptions::default());
        assert!(import.measurements.is_empty() && import.refused_rows == 1, "{to}");
        assert!(shown(&import).contains(&format!("t.csv:2: error: {part}")), "{}", shown(&import));
    }
}

#[test]
fn host_rows_and_their_masks() {
    let text = HOST.to_owned()
        + "h,H100,2,5,0 2,1024,9.5\nh,H100,2,3,0 2,1024,9.5\nh,H100,1,1,0,1024,0.00\n";
    let import = read("t.csv", &text, &ImportOptions::default());
    assert_eq!((import.measurements.len(), import.skipped_rows, import.refused_rows), (1, 1, 1));
    assert!(
        shown(&import).contains("t.csv:3: error: bitmask: 3 is GPUs '0-1', but gpus says '0,2'")
    );
    assert_eq!(read("t.csv", &text, &hosts(&["x"])).measurements[0].placement[0].0, "x");
    let renames =
        ImportOptions { renames: vec![("h".into(), "y".into())], ..ImportOptions::default() };
    assert_eq!(read("t.csv", &text, &renames).measurements[0].placement[0].0, "y");
    let two = text + "g,H100,2,5,0 2,1024,9.5\n";
    assert!(shown(&read("t.csv", &two, &hosts(&["x"]))).contains("would get the same name"));
}

#[test]
fn missing_sizes_are_one_error() {
    let text = HOST.to_owned() + "h,A,1,1,0,,0\nh,A,2,3,0 1,,9.5\nh,A,2,5,0 2,,9.5\n";
    let import = read("t.csv", &text, &ImportOptions::default());
    assert!(import.refused && import.measurements.is_empty());
    assert_eq!(shown(&import).matches("error").count(), 1, "{}", shown(&import));
    assert!(shown(&import).contains("t.csv:3: error: message_bytes: no message size in 2 rows"));
    for (bytes, expected) in [(MissingBytes::Unknown, None), (MissingBytes::Given(8), Some(8))] {
        let import = read("t.csv", &text, &ImportOptions { bytes, ..ImportOptions::default() });
        assert_eq!(import.measurements.iter().map(|m| m.bytes).collect::<Vec<_>>(), [expected; 2]);
    }
}

#[test]
fn the_file_as_a_whole_may_not_fit() {
    let text = CROSS.to_owned() + "1,16777216,3,2,2,1,0 1,0,2+1,1,1,41.62\n";
    let op = ImportOptions {
        op: Some(bandpilot_core::Collective::AllGather),
        ..ImportOptions::default()
    };
    for (import, part) in [
        (read("t.csv", &text, &op), "op: 'all_gather' was given"),
        (read("t.csv", &text, &hosts(&["a"])), "hosts: 1 host names for 2 host columns"),
        (read("t.csv", &text, &hosts(&["a", "a"])), "hosts: a host name stands twice"),
        (read("t.csv", &text, &hosts(&["a", "b c"])), "hosts: 'b c' is not a host name"),
        (
            read("t.csv", &text.replace("message_bytes", "bytes"), &ImportOptions::default()),
            "message_bytes: no message size in 1 row",
        ),
        (read("t.csv", "", &ImportOptions::default()), "the file is empty"),
        (
            read("t.csv", "gpu,GPU0\nGPU0,X\n", &ImportOptions::default()),
            "busbw_GBps: the table has no such column",
        ),
    ] {
        assert!(import.refused && shown(&import).contains(part), "{part}: {}", shown(&import));
    }
}

#[test]
fn links_and_masks() {
    let read = read_links("gpu,GPU0,GPU1\nGPU0,X,NV4\nGPU1,NV4,X\n");
    assert_eq!(
        read.value,
        Some(Links::Matrix(vec![
            LinkClass::Sys,
            LinkClass::Nv(4),
            LinkClass::Nv(4),
            LinkClass::Sys
        ]))
    );
    for text in [
        "",
        "a,b\n",
        "gpu,GPU0,GPU1\nGPU0,X,NV4\n",
        "gpu,GPU0\nGPU1,X\n",
        "gpu,GPU0,GPU1\nGPU0,X,NV4\nGPU1,SYS,X\n",
    ] {
        let read = read_links(text);
        assert!(read.value.is_none() && read.has_errors(), "{text}");
    }
    let masks = read_masks("m0,m1\n255,3\n0,0\nx,1\n4\n");
    assert_eq!(masks.value, [[GpuMask(255), GpuMask(3)]]);
    assert_eq!(masks.diagnostics.len(), 3);
}

#[test]
fn every_real_table_is_read_without_an_error() {
    let Some(data) = bandpilot_testdata::require_data("csv_tables::every_real_table") else {
        return;
    };
    let mut counts = Vec::new();
    for path in bandpilot_testdata::files(&data.join("nccl-bandpilot")) {
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        let text = bandpilot_testdata::read(&path).unwrap();
        if name.starts_with("topo_") {
            let read = read_links(&text);
            assert!(
                matches!(&read.value, Some(Links::Matrix(cells)) if cells.len() == 64),
                "{name}"
            );
        } else if name.starts_with("host_") || name.starts_with("cross_") {
            let options =
                ImportOptions { bytes: MissingBytes::Unknown, ..ImportOptions::default() };
            let import = read(&name, &text, &options);
            assert!(!import.has_errors(), "{name}: {}", shown(&import));
            counts.push(format!(
                "{name}: {} imported, {} skipped",
                import.measurements.len(),
                import.skipped_rows
            ));
        }
    }
    insta::assert_snapshot!(counts.join("\n"));
    for path in bandpilot_testdata::files(&data.join("eval")) {
        let read = read_masks(&bandpilot_testdata::read(&path).unwrap());
        assert!(!read.has_errors() && !read.value.is_empty());
        assert!(read.value.iter().all(|set| set.len() == 4));
    }
}
