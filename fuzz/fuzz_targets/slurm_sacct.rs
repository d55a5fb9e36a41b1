#![no_main]
use bandpilot_readers::trace_file;
use bandpilot_slurm::trace::{Choice, History, Tenant, sacct, samples};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &str| {
    for runs in [sacct::runs(input).value, samples::runs(input).value.0] {
        let history = History::of(runs, &Choice::default());
        assert!(history.jobs.iter().all(|job| job.gpus > 0 && job.wait_s >= 0));
        // Whatever it was made of, it is a trace.
        for anonymous in [false, true] {
            let read = trace_file::read(&history.write(Tenant::Account, anonymous));
            assert_eq!((read.value.jobs.len(), read.value.bad_rows), (history.jobs.len(), 0));
        }
    }
});
