#![no_main]
use bandpilot_readers::cluster_file;
use bandpilot_readers::cluster_import::{ClusterOptions, HostName, Source, import};
use libfuzzer_sys::fuzz_target;

// Whatever two texts (parted by a form feed) say: a cluster that is made of them reads back from its file.
fuzz_target!(|text: &str| {
    let texts = text.split_once('\u{c}').unwrap_or((text, ""));
    let source = |file: &str, text: &str| Source {
        file: file.to_owned(),
        text: text.to_owned(),
        host: HostName::File(file.to_owned()),
    };
    let options = ClusterOptions {
        name: "f".to_owned(),
        gpu_model: Some("H100".to_owned()),
        nic_gbit_per_s: Some(400.0),
        ..ClusterOptions::default()
    };
    let imported = import(&[source("a", texts.0), source("b", texts.1)], &options);
    if let Some(cluster) = imported.cluster {
        let read = cluster_file::read(&cluster_file::write(&cluster));
        assert!(!read.has_errors());
        assert_eq!(read.value, cluster);
    }
});
