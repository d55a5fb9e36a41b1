#![no_main]
use bandpilot_core::Links;
use bandpilot_readers::topo;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    for rails in [false, true] {
        let options = topo::TopoOptions { rails, ..topo::TopoOptions::default() };
        for dump in topo::read(text, &options).value.into_iter().filter_map(|section| section.dump)
        {
            let Links::Matrix(cells) = dump.links else { continue };
            for a in 0..dump.gpus {
                assert!((0..a).all(|b| cells[a * dump.gpus + b] == cells[b * dump.gpus + a]));
            }
        }
    }
});
