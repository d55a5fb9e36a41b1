//! The examples of the reference pages are read without a remark.

use bandpilot_readers::{cluster_file, state_file, store};

/// The first block of a page in this language.
fn block<'a>(page: &'a str, language: &str) -> &'a str {
    let (_, after) = page.split_once(&format!("```{language}\n")).unwrap_or(("", ""));
    after.split_once("```").map_or("", |(block, _)| block)
}

#[test]
fn examples_are_read_without_a_remark() {
    let cluster =
        cluster_file::read(block(include_str!("../../../docs/reference/cluster-file.md"), "toml"));
    assert_eq!(cluster.diagnostics, []);
    assert_eq!(cluster.value.gpu_count(), 17 * 8 + 4);

    let four = cluster_file::read(
        "name = 'd'\nhost_type = [{ name = 't', gpu_model = 'H100', gpus = 8, links = 'nvswitch', rails = { gbit_per_s = 400 } }]\nhosts = [{ names = 'h[1-4]', type = 't' }]",
    );
    assert_eq!(four.diagnostics, []);
    let text = block(include_str!("../../../docs/reference/state-file.md"), "toml");
    let state = state_file::read(text, &four.value);
    assert_eq!(state.diagnostics, []);
    assert_eq!(state.value.free_gpus(), 32 - 8 - 8 - 2);

    let text = block(include_str!("../../../docs/reference/measurement-store.md"), "text");
    let stored = store::parse(text);
    assert_eq!(stored.diagnostics, []);
    assert_eq!(stored.value.len(), 1);
}
