#![no_main]
use bandpilot_core::GpuMask;
use bandpilot_manager::audit::HostGpus;
use bandpilot_slurm::host::{Environment, devices, judge, usable};
use libfuzzer_sys::fuzz_target;

// The first line is CUDA_VISIBLE_DEVICES, the rest what the driver says.
fuzz_target!(|input: &str| {
    let (visible, xml) = input.split_once('\n').unwrap_or(("", input));
    let devices = devices(xml).value;
    assert!(devices.len() <= 64);
    let environment =
        Environment { visible: Some(visible.to_owned()), order: "PCI_BUS_ID".to_owned() };
    let has = usable(&devices, &environment);
    assert!(has.as_ref().map_or(0, Vec::len) <= devices.len());
    let planned = HostGpus { host: "h1".to_owned(), gpus: GpuMask(5), ..HostGpus::default() };
    judge("12", &planned, false, &has);
});
