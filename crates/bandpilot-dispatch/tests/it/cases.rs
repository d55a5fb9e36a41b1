//! Cases from files: a cluster, a state, a request, and what is expected. Add a file to `tests/cases` to add a case.

use std::path::Path;

use bandpilot_core::{ClusterState, Request};
use bandpilot_dispatch::{AnswerOptions, dispatch};
use bandpilot_model::Predictor;
use bandpilot_model::model::BandwidthModel;
use bandpilot_readers::{cluster_file, placement, state_file};
use serde::Deserialize;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Case {
    /// What the case shows, for people.
    #[expect(dead_code, reason = "for whoever reads the file")]
    about: String,
    cluster: String,
    state: Option<String>,
    free: Option<String>,
    request: Wanted,
    expect: Expected,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Wanted {
    gpus: usize,
    #[serde(default)]
    uniform: bool,
    hosts: Option<usize>,
    max_hosts: Option<usize>,
    gpu_model: Option<String>,
    include: Option<String>,
    exclude: Option<String>,
    min_busbw: Option<f64>,
    bytes: Option<u64>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Expected {
    placement: Option<String>,
    /// Least and most of the effective bandwidth, GB/s.
    effective: Option<[f64; 2]>,
    /// Part of the bottleneck's name.
    bottleneck: Option<String>,
    /// The constraint that makes it impossible.
    impossible: Option<String>,
    /// Part of what would be possible.
    possible: Option<String>,
}

fn run(name: &str, text: &str) {
    let case: Case = toml::from_str(text).unwrap_or_else(|error| panic!("{name}: {error}"));
    let cluster = cluster_file::read(&case.cluster).into_result().unwrap().0;
    let state = match (&case.state, &case.free) {
        (Some(text), _) => state_file::read(text, &cluster).into_result().unwrap().0,
        (None, Some(text)) => state_file::free_form(text, &cluster).into_result().unwrap().0,
        (None, None) => ClusterState::idle(&cluster),
    };
    let list = |text: &Option<String>| {
        text.as_ref().map_or_else(Vec::new, |text| {
            placement::on_cluster(text, &cluster).into_result().unwrap().0.shares().to_vec()
        })
    };
    let wanted = &case.request;
    let request = Request {
        uniform: wanted.uniform,
        hosts: wanted.hosts,
        max_hosts: wanted.max_hosts,
        gpu_model: wanted.gpu_model.clone(),
        include: list(&wanted.include),
        exclude: list(&wanted.exclude),
        min_busbw_gbytes_per_s: wanted.min_busbw,
        bytes: wanted.bytes.unwrap_or(2 << 30),
        ..Request::gpus(wanted.gpus)
    };
    let model = BandwidthModel::closed_form();
    let predictor = Predictor::new(&model, &cluster, request.bytes);
    let answer = dispatch(&predictor, &state, &request, AnswerOptions::default());
    let expect = &case.expect;
    match (answer, &expect.impossible) {
        (Err(refusal), Some(constraint)) => {
            assert_eq!(refusal.constraint, constraint, "{name}: {refusal}");
            if let Some(part) = &expect.possible {
                assert!(refusal.possible.contains(part), "{name}: {}", refusal.possible);
            }
        }
        (Ok(answer), None) => {
            let shown = answer.chosen.placement.display(&cluster);
            if let Some(placement) = &expect.placement {
                assert_eq!(&shown, placement, "{name}");
            }
            if let Some([least, most]) = expect.effective {
                let value = answer.chosen.effective;
                assert!((least..=most).contains(&value), "{name}: {value} with {shown}");
            }
            if let Some(part) = &expect.bottleneck {
                assert!(
                    answer.grounds.bottleneck.contains(part),
                    "{name}: {}",
                    answer.grounds.bottleneck
                );
            }
            assert_eq!(answer.gap, Some(0.0), "{name}");
        }
        (Ok(answer), Some(constraint)) => {
            panic!("{name}: not refused by {constraint}: {:?}", answer.chosen)
        }
        (Err(refusal), None) => panic!("{name}: {refusal}; {}", refusal.possible),
    }
}

#[test]
fn every_case_file() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cases");
    let mut seen = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        run(&name, &std::fs::read_to_string(&path).unwrap());
        seen += 1;
    }
    assert!(seen >= 12, "{seen}");
}
