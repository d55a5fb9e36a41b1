use std::fmt::Write as _;

use bandpilot_core::LinkClass;
use proptest::prelude::*;

use super::*;
use crate::Severity;

fn plain() -> TopoOptions {
    TopoOptions::default()
}

fn rails() -> TopoOptions {
    TopoOptions { rails: true, ..TopoOptions::default() }
}

fn words(links: &Links, gpus: usize) -> String {
    let Links::Matrix(cells) = links else { return "links nvswitch\n".to_owned() };
    let mut text = "links\n".to_owned();
    for (a, row) in cells.chunks(gpus).enumerate() {
        let word = |(b, class): (usize, &LinkClass)| {
            if a == b { "X".to_owned() } else { class.to_string() }
        };
        let row: Vec<String> = row.iter().enumerate().map(word).collect();
        writeln!(text, "  {}", row.join(" ")).unwrap();
    }
    text
}

/// Everything that was read and said, as text.
fn shown(read: &Parsed<Vec<Section>>) -> String {
    let mut text = String::new();
    for Section { dump, facts } in &read.value {
        if let Some(dump) = dump {
            writeln!(text, "line {}: {} GPUs, hosts {:?}", dump.line, dump.gpus, dump.hosts)
                .unwrap();
            writeln!(text, "prompt {:?} {:?}", dump.prompt_host, dump.command).unwrap();
            text += &words(&dump.links, dump.gpus);
            for nic in &dump.nics {
                writeln!(text, "nic {} serves {}", nic.name, nic.gpus).unwrap();
            }
        }
        if !facts.is_empty() {
            writeln!(text, "models {:?}", facts.models).unwrap();
            writeln!(text, "ids {:?} rates {:?}", facts.ids, facts.rates).unwrap();
        }
    }
    for remark in &read.diagnostics {
        writeln!(text, "{}", remark.display("f")).unwrap();
    }
    text
}

/// The only dump of a text that must be read without a warning.
fn good(text: &str) -> Dump {
    let read = read(text, &plain());
    assert!(read.diagnostics.iter().all(|d| d.severity == Severity::Note), "{}", shown(&read));
    assert_eq!(read.value.len(), 1, "{}", shown(&read));
    read.value.into_iter().next().unwrap().dump.unwrap()
}

fn field_files(test: &str) -> Vec<(String, String)> {
    let Some(data) = bandpilot_testdata::require_data(test) else { return Vec::new() };
    let paths = bandpilot_testdata::files(&data.join("field-files/nvidia-smi-topo"));
    let files: Vec<(String, String)> = paths
        .iter()
        .map(|path| {
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            (name, bandpilot_testdata::read(path).unwrap())
        })
        .collect();
    assert!(files.len() >= 19);
    files
}

#[test]
fn every_field_file() {
    for (name, text) in field_files("topo::every_field_file") {
        let mut outcome = shown(&read(&text, &plain()));
        let told = shown(&read(&text, &rails()));
        if told != outcome {
            write!(outcome, "--- with --rails\n{told}").unwrap();
        }
        let name = name.trim_end_matches(".txt").replace(['.', ' '], "-");
        insta::with_settings!({ prepend_module_to_snapshot => false, omit_expression => true, snapshot_path => "snapshots" }, {
            insta::assert_snapshot!(format!("topo_{name}"), outcome);
        });
    }
}
