#![no_main]
use bandpilot_slurm::config::{Granularity, Input, Options, Text, config};
use libfuzzer_sys::fuzz_target;

fn text(text: &str) -> Option<Text<'_>> {
    Some(Text { file: "f", text })
}

// A slurm.conf and a gres.conf, divided by a line of dashes.
fuzz_target!(|input: &str| {
    let (slurm, gres) = input.split_once("\n---\n").unwrap_or((input, ""));
    let input = Input { slurm: text(slurm), gres: text(gres), ..Input::default() };
    for granularity in [Granularity::Gpu, Granularity::Island] {
        let options = Options { granularity, ..Options::default() };
        let Some(made) = config(&input, &options).0 else { return };
        // What was made has all GPUs, and is read without an error.
        let gpus = |made: &bandpilot_slurm::config::Fragments| -> usize {
            let types = made.groups.iter().flat_map(|group| &group.types);
            types.map(|(_, gpus)| gpus.count()).sum()
        };
        let again = Input {
            slurm: text(&made.slurm_conf),
            gres: text(&made.gres_conf),
            ..Input::default()
        };
        let twice = config(&again, &options).0.expect("it reads back");
        assert_eq!(gpus(&made), gpus(&twice));
    }
});
