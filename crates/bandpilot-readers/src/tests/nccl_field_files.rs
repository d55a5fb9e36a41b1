//! Every real log, reviewed by eye, with the figures that are known of it.

use std::fmt::Write as _;

use super::*;

/// What is known of the field files besides their text.
fn known(name: &str) -> ImportOptions {
    let (op, place) = [
        ("Azure", "all_reduce", "h[1-4]:0-3"),
        ("GoogleCloudPlatform", "all_gather", "h[1-2]:0-7"),
        ("NVIDIA-deepops", "all_reduce", "h[1-2]:0-7"),
        (
            "aws-samples-awsome-distributed-training-micro-benchmarks-nccl-tests-README",
            "",
            "h[1-2]:0-7",
        ),
        (
            "aws-samples-awsome-distributed-training-micro-benchmarks-nccl-tests-slurm",
            "",
            "h[1-16]:0-7",
        ),
        ("coreweave-nccl-tests-README.md-L135", "", "h[1-12]:0-7"),
        ("coreweave-nccl-tests-README.md-L298", "", "h[100-459]:0-3"),
        ("eth-cscs", "", ""),
        ("h20-2node", "all_reduce", "h[1-2]:0-7"),
        ("json-of", "alltoall", "h1:0-7"),
        ("microsoft-superbenchmark-tests-data-nccl-allgather", "all_gather", ""),
        ("microsoft", "", ""),
        ("mi300x", "all_reduce", ""),
        ("op-all", "all_reduce", "h[1-2]:0-7"),
        ("oracle-quickstart-oci-hpc-documentation", "all_reduce", ""),
        ("oracle-quickstart-oci-hpc-oke", "", "h[1-2]:0-7"),
        ("rccl-tests", "", "h1:0-3"),
        ("reduce-scatter", "", "h1:0-7"),
        ("v100-pcie", "all_reduce", ""),
    ]
    .into_iter()
    .find(|(prefix, ..)| name.starts_with(prefix))
    .map_or(("all_reduce", "h1:0-7"), |(_, op, place)| (op, place));
    options(op, place)
}

fn outcome(import: &Import) -> String {
    let mut text = format!(
        "imported {}, skipped {}, refused rows {}{}\n",
        import.measurements.len(),
        import.skipped_rows,
        import.refused_rows,
        if import.refused { ", FILE REFUSED" } else { "" }
    );
    let (first, last) = (import.measurements.first(), import.measurements.last());
    for m in first.into_iter().chain(last) {
        let bytes = m.bytes.map_or(0, |bytes| bytes);
        let place = crate::hostlist::compress(m.placement.iter().map(|(name, _)| name.as_str()));
        writeln!(
            text,
            "  line {}: {} of {bytes} over {} GPUs on {place}: {}",
            m.line,
            m.collective,
            m.gpus(),
            m.busbw_gbytes_per_s
        )
        .unwrap();
    }
    for d in &import.diagnostics {
        writeln!(text, "{}", d.display("FILE")).unwrap();
    }
    text
}

#[test]
fn field_files() {
    let Some(data) = bandpilot_testdata::require_data("nccl_tests::field_files") else { return };
    let files = bandpilot_testdata::files(&data.join("field-files/nccl-tests"));
    assert!(files.len() >= 30, "{}", files.len());
    insta::with_settings!({ snapshot_path => "snapshots", prepend_module_to_snapshot => false, omit_expression => true }, {
        for path in files {
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            let text = bandpilot_testdata::read(&path).unwrap();
            let alone = outcome(&read(&name, &text, &ImportOptions::default()));
            let helped = outcome(&read(&name, &text, &known(&name)));
            let short = name.trim_end_matches(".txt").replace('.', "-");
            insta::assert_snapshot!(format!("nccl_{short}"), format!("alone: {alone}with help: {helped}"));
        }
    });
}

#[test]
fn the_ratio_tells_a_wrong_number_of_ranks_in_a_field_file() {
    let Some(data) = bandpilot_testdata::require_data("nccl_tests::the_ratio") else { return };
    let path = data.join("field-files/nccl-tests/coreweave-nccl-tests-README.md-L135.txt");
    let text = bandpilot_testdata::read(&path).unwrap();
    // The page speaks of 64 GPUs; the table is of 96.
    let wrong = read("f", &text, &options("all_reduce", "h[1-8]:0-7"));
    assert!(wrong.refused, "{}", shown(&wrong));
    let right = read("f", &text, &options("all_reduce", "h[1-12]:0-7"));
    assert_eq!(right.measurements.len(), 5, "{}", shown(&right));
}

/// Largest size and its bus bandwidth of the file with this prefix.
fn largest(test: &str, prefix: &str) -> Option<(u64, f64, usize)> {
    let data = bandpilot_testdata::require_data(test)?;
    let files = bandpilot_testdata::files(&data.join("field-files/nccl-tests"));
    let name = |path: &std::path::Path| path.file_name().unwrap().to_string_lossy().into_owned();
    let path = files.iter().find(|path| name(path).starts_with(prefix)).unwrap();
    let text = bandpilot_testdata::read(path).unwrap();
    let import = read("f", &text, &known(&name(path)));
    let last = import.measurements.iter().max_by_key(|m| m.bytes).unwrap();
    Some((last.bytes.unwrap(), last.busbw_gbytes_per_s, last.gpus()))
}

#[test]
fn published_figures_come_out() {
    for (prefix, bytes, busbw, gpus) in [
        ("microsoft-superbenchmark-tests-data-nccl-allreduce", 8 << 30, 235.26, 8),
        ("microsoft-superbenchmark-tests-data-nccl-allgather", 8 << 30, 223.39, 8),
        (
            "aws-samples-awsome-distributed-training-micro-benchmarks-nccl-tests-README.md-L157",
            2 << 30,
            78.33,
            16,
        ),
        (
            "aws-samples-awsome-distributed-training-micro-benchmarks-nccl-tests-README.md-L268",
            2 << 30,
            437.79,
            16,
        ),
        (
            "aws-samples-awsome-distributed-training-micro-benchmarks-nccl-tests-slurm",
            16 << 30,
            369.86,
            128,
        ),
        ("GoogleCloudPlatform-cluster-toolkit-examples-gke-consumption", 8 << 30, 328.85, 16),
        ("GoogleCloudPlatform-cluster-toolkit-examples-gke-a3-highgpu", 512 << 20, 70.90, 16),
        ("coreweave-nccl-tests-README.md-L298", 16 << 30, 405.74, 1440),
        ("eth-cscs-cscs-docs-docs-software-communication-nccl.md", 128 << 20, 122.57, 8),
        ("oracle-quickstart-oci-hpc-documentation", 16 << 30, 471.22, 16),
        ("NVIDIA-deepops-docs-k8s-cluster-nvidia", 4 << 30, 188.53, 16),
        ("json-of", 64 << 20, 20.628_529, 8),
    ] {
        let Some(found) = largest("nccl_tests::published_figures", prefix) else { return };
        assert_eq!(found, (bytes, busbw, gpus), "{prefix}");
    }
}
