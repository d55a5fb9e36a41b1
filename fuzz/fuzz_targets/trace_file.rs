#![no_main]
use bandpilot_readers::trace_file;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    let read = trace_file::read(text);
    let jobs = &read.value.jobs;
    assert!(jobs.is_sorted_by(|a, b| (a.submit_s, a.line) < (b.submit_s, b.line)));
    assert!(jobs.iter().all(|job| job.gpus <= trace_file::MAX_JOB_GPUS));
    assert!(read.value.bad_rows == 0 || !read.diagnostics.is_empty());
});
