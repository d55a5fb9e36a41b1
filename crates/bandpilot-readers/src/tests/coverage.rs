use super::*;
use crate::{ImportOptions, MissingBytes, import};

fn tables(names: &[&str]) -> Option<Vec<Measurement>> {
    let data = bandpilot_testdata::require_data("coverage")?;
    let options = ImportOptions { bytes: MissingBytes::Unknown, ..ImportOptions::default() };
    let mut all = Vec::new();
    for name in names {
        let text = bandpilot_testdata::read(&data.join("nccl-bandpilot").join(name)).unwrap();
        all.extend(import(name, &text, &options).measurements);
    }
    Some(all)
}

const H100: [&str; 4] =
    ["host_H100_26.csv", "host_H100_27.csv", "host_H100_28.csv", "host_H100_29.csv"];

fn outlier_lines(summary: &Summary) -> String {
    let lines: Vec<String> = summary
        .outliers
        .iter()
        .map(|o| {
            let m = &o.measurement;
            format!(
                "{}: {} of {:.2}",
                crate::placement::format(&m.placement),
                m.busbw_gbytes_per_s,
                o.median_gbytes_per_s
            )
        })
        .collect();
    lines.join("\n")
}

#[test]
fn the_six_odd_pairs_of_the_h100_hosts_are_found_and_nothing_else() {
    let Some(all) = tables(&H100) else { return };
    insta::assert_snapshot!(outlier_lines(&summarise(&all)), @r"
    H100_27:1,5: 124.28 of 205.80
    H100_27:4,6: 111.93 of 205.80
    H100_28:0,3: 165.03 of 205.80
    H100_28:6-7: 112.91 of 205.80
    H100_29:1-2: 129.54 of 205.80
    H100_29:5-6: 117.91 of 205.80
    ");
    for name in H100 {
        let alone = summarise(&tables(&[name]).unwrap());
        let expected =
            summarise(&all).outliers.iter().filter(|o| o.measurement.source == name).count();
        assert_eq!(alone.outliers.len(), expected, "{name}");
    }
}

#[test]
fn hosts_with_unlike_links_raise_no_false_alarms() {
    for (name, at_most) in
        [("host_4090.csv", 0), ("host_A6000.csv", 0), ("host_V100.csv", 0), ("host_A800.csv", 4)]
    {
        let Some(all) = tables(&[name]) else { return };
        let summary = summarise(&all);
        assert!(summary.outliers.len() <= at_most, "{name}: {}", outlier_lines(&summary));
    }
}

#[test]
fn counts_and_noise_of_the_cross_table() {
    let Some(all) = tables(&["cross_H100_32gpu.csv"]) else { return };
    let summary = summarise(&all);
    let lines: Vec<String> = summary.counts.iter().map(|c| format!("{c:?}")).collect();
    insta::assert_snapshot!(format!("{}\n{:.4?}", lines.join("\n"), summary.repeats));
    assert!(summary.outliers.is_empty());
}

#[test]
fn nothing_is_nothing() {
    let summary = summarise(&[]);
    assert_eq!((summary.measurements, summary.counts.len(), summary.repeats), (0, 0, None));
}

#[test]
fn quantiles() {
    assert_eq!(quantile(&[], 0.5), 0.0);
    assert_eq!(quantile(&[1.0, 2.0, 4.0, 8.0], 0.5), 3.0);
    assert_eq!(quantile(&[1.0, 2.0, 4.0, 8.0], 1.0), 8.0);
}
