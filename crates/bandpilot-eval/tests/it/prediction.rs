//! How far off predictions of unseen sets are.

use std::collections::BTreeSet;

use bandpilot_core::{Cluster, Collective, GpuMask, HostId, Measurement, Placement};
use bandpilot_eval::ClusterName;
use bandpilot_eval::protocol::trained;
use bandpilot_eval::truth::{BYTES, Counts, all_counts};
use bandpilot_model::{FitOptions, Predictor, fit};
use bandpilot_readers::{ImportOptions, csv_tables, import};
use rustc_hash::FxHashMap;

use crate::{median, text, truth};

fn sorted(mut counts: Counts) -> Counts {
    counts.sort_unstable_by(|a, b| b.cmp(a));
    counts
}

fn first_gpus(counts: Counts) -> Placement {
    Placement::new(
        counts
            .iter()
            .enumerate()
            .map(|(host, count)| (HostId(host as u32), GpuMask::first(*count as usize))),
    )
}

fn across_hosts(counts: Counts) -> bool {
    counts.iter().filter(|count| **count > 0).count() > 1
}

#[test]
fn unseen_vectors_at_2_gib_with_95_trained() {
    let test = "unseen_vectors_at_2_gib_with_95_trained";
    let Some(truth) = truth(test, ClusterName::H100) else { return };
    let vectors: Vec<Counts> =
        all_counts().filter(|c| sorted(*c) == *c && across_hosts(*c)).collect();
    assert_eq!(vectors.len(), 486);
    let (mut medians, mut means) = (Vec::new(), Vec::new());
    for seed in 1..=10 {
        let seen: BTreeSet<Counts> = truth
            .training_draw(95, seed)
            .iter()
            .map(|m| {
                let mut counts = Counts::default();
                for (at, (_, mask)) in m.placement.iter().enumerate() {
                    counts[at] = mask.count() as u8;
                }
                sorted(counts)
            })
            .collect();
        assert_eq!(seen.len(), 95);
        let model = trained(&truth, 95, seed);
        let predictor = Predictor::new(&model, &truth.cluster, BYTES);
        let errors: Vec<f64> = vectors
            .iter()
            .filter(|counts| !seen.contains(*counts))
            .map(|&counts| {
                let predicted = predictor.isolated(&first_gpus(counts));
                100.0 * (predicted / truth.by_counts(counts) - 1.0).abs()
            })
            .collect();
        assert_eq!(errors.len(), 391);
        means.push(errors.iter().sum::<f64>() / errors.len() as f64);
        medians.push(median(errors));
    }
    let (median_error, mean_error) = (median(medians), median(means));
    println!("unseen vectors at 2GiB: median {median_error:.2} %, mean {mean_error:.2} %");
    assert!(median_error <= 1.5, "median {median_error:.3} %");
    assert!(mean_error <= 4.0, "mean {mean_error:.3} %");
}

/// The published table at one size, and the hosts' local tables as h1..h4.
struct Tables {
    cross: FxHashMap<Counts, f64>,
    local: Vec<Measurement>,
}

fn tables(data: &std::path::Path, bytes: u64) -> Tables {
    let read = |file: &str, options: &ImportOptions| {
        import(file, &text(data, file).unwrap(), options).measurements
    };
    let mut cross = FxHashMap::default();
    for m in read("cross_H100_32gpu.csv", &ImportOptions::default()) {
        if m.bytes == Some(bytes) {
            let mut counts = Counts::default();
            for (at, (_, mask)) in m.placement.iter().enumerate() {
                counts[at] = mask.count() as u8;
            }
            cross.entry(sorted(counts)).or_insert(m.busbw_gbytes_per_s);
        }
    }
    let local = (0..4)
        .flat_map(|host| {
            let mut options = ImportOptions::default();
            options.set_hosts(&format!("H100_{}=h{}", 26 + host, 1 + host)).unwrap();
            read(&format!("host_H100_{}.csv", 26 + host), &options)
        })
        .collect();
    Tables { cross, local }
}

fn masks(data: &std::path::Path, seed: u64, part: &str) -> Vec<Counts> {
    let file = format!("masks-seed{seed}-{part}.csv");
    let read = csv_tables::read_masks(&text(data, &file).unwrap());
    assert!(!read.has_errors(), "{file}");
    let counts = |row: &Vec<GpuMask>| {
        sorted(std::array::from_fn(|host| row.get(host).map_or(0, |mask| mask.count() as u8)))
    };
    read.value.iter().map(counts).collect()
}

struct MaskErrors {
    overall: f64,
    one_large_host: f64,
}

/// Mean absolute errors in per cent on one draw of `eval`.
fn mask_errors(
    cluster: &Cluster,
    tables: &Tables,
    data: &std::path::Path,
    seed: u64,
    bytes: u64,
) -> MaskErrors {
    let train: BTreeSet<Counts> =
        masks(data, seed, "train").into_iter().filter(|c| across_hosts(*c)).collect();
    let test = masks(data, seed, "test");
    assert_eq!(test.len(), 2500);
    let mut measurements = tables.local.clone();
    measurements.extend(train.iter().map(|counts| {
        Measurement {
            collective: Collective::AllReduce,
            bytes: Some(bytes),
            placement: first_gpus(*counts)
                .shares()
                .iter()
                .map(|(host, mask)| (cluster.host(*host).name.clone(), *mask))
                .collect(),
            busbw_gbytes_per_s: tables.cross[counts],
            source: "table".to_owned(),
            line: 0,
        }
    }));
    let options = FitOptions { folds: 0, ..FitOptions::default() };
    let (model, _) = fit(cluster, &measurements, &options, &mut |_| ()).unwrap();
    let predictor = Predictor::new(&model, cluster, bytes);
    let error = |counts: &Counts| {
        let predicted = predictor.isolated(&first_gpus(*counts));
        100.0 * (predicted / tables.cross[counts] - 1.0).abs()
    };
    let mean = |sets: &[Counts]| sets.iter().map(error).sum::<f64>() / sets.len() as f64;
    let one_large: Vec<Counts> = tables
        .cross
        .keys()
        .filter(|c| across_hosts(**c) && c.iter().filter(|n| **n > 1).count() == 1)
        .copied()
        .collect();
    assert_eq!(one_large.len(), 21);
    MaskErrors { overall: mean(&test), one_large_host: mean(&one_large) }
}

#[test]
fn masks_of_the_fixed_draws() {
    let Some(data) = bandpilot_testdata::require_data("masks_of_the_fixed_draws") else { return };
    let cluster = bandpilot_eval::clusters::h100_32();
    for (bytes, overall_bar, one_large_bar) in [(16 << 20, 3.0, 5.0), (2 << 30, 1.7, 8.0)] {
        let tables = tables(&data.join("nccl-bandpilot"), bytes);
        let errors: Vec<MaskErrors> = (1..=3)
            .map(|seed| mask_errors(&cluster, &tables, &data.join("eval"), seed, bytes))
            .collect();
        let overall = median(errors.iter().map(|e| e.overall).collect());
        let one_large = median(errors.iter().map(|e| e.one_large_host).collect());
        let size = bandpilot_core::format_bytes(bytes);
        let each: Vec<String> = errors.iter().map(|e| format!("{:.2}", e.overall)).collect();
        println!(
            "masks at {size}: {overall:.2} % overall ({}), {one_large:.2} % with one large host",
            each.join(", ")
        );
        assert!(overall <= overall_bar, "{bytes}: {overall:.3} % overall");
        assert!(one_large <= one_large_bar, "{bytes}: {one_large:.3} % with one large host");
    }
}
