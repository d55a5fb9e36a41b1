use super::*;

/// Written by hand in the documented form of 23.11 and later; not the output of a cluster.
const NEW_NODES: &str = r#"{"nodes": [
  {"name": "h1", "state": ["MIXED", "DRAIN"], "reason": "fan", "cpus": 64, "alloc_cpus": 8, "real_memory": 1000,
   "alloc_memory": 10, "active_features": ["h100", "ib"], "partitions": ["gpu"], "free_mem": {"set": true, "infinite": false, "number": 5},
   "gres": "gpu:h100:8(S:0-1)", "gres_used": "gpu:h100:2(IDX:0,7)", "of_a_later_version": {"x": [1]}}],
 "last_update": {"set": true, "infinite": false, "number": 1796063660}, "meta": {}, "errors": [], "warnings": []}"#;

/// Likewise.
const NEW_JOBS: &str = r#"{"jobs": [
  {"job_id": 101, "name": "a", "user_name": "ann", "job_state": ["RUNNING"], "nodes": "h[1-2]",
   "gres_detail": ["gpu:h100:2(IDX:0,7)", "gpu:h100:1(IDX:3)"], "priority": {"set": true, "infinite": false, "number": 7},
   "time_limit": {"set": true, "infinite": false, "number": 90}, "node_count": {"set": true, "infinite": false, "number": 2},
   "cpus": {"set": true, "infinite": false, "number": 8}, "tasks": {"set": false, "infinite": false, "number": 0},
   "memory_per_node": {"set": true, "infinite": false, "number": 2048}, "memory_per_cpu": {"set": false, "infinite": false, "number": 0},
   "start_time": {"set": true, "infinite": false, "number": 1796063660}, "array_job_id": {"set": true, "infinite": false, "number": 99},
   "array_task_id": {"set": true, "infinite": false, "number": 0}, "array_task_string": "", "het_job_id": {"set": true, "infinite": false, "number": 0},
   "job_resources": {"select_type": ["CORE"], "nodes": {"count": 2, "list": "h[1-2]", "whole": false, "allocation": []}}},
  {"job_id": 102, "job_state": ["PENDING"], "nodes": "", "gres_detail": [], "time_limit": {"set": false, "infinite": true, "number": 0},
   "het_job_id": {"set": true, "infinite": false, "number": 102}, "het_job_offset": {"set": true, "infinite": false, "number": 0},
   "tres_per_node": "gres/gpu:h100:2", "state_reason": "Resources"},
  {"job_id": 103, "job_state": ["COMPLETED", "COMPLETING"], "nodes": "h1", "gres_detail": ["gpu:h100:1(IDX:5)"]},
  {"job_id": 104, "job_state": ["CANCELLED"], "nodes": "h1", "gres_detail": ["gpu:h100:1(IDX:6)"]}]}"#;

#[test]
fn the_form_of_23_11_is_read() {
    let read = hosts(NEW_NODES);
    assert_eq!(read.diagnostics, []);
    let host = &read.value[0];
    assert_eq!((host.closed_by(), host.reason.as_str()), (Some("DRAIN"), "fan"));
    assert_eq!((host.cpus, host.cpus_in_use, host.gpus.len()), (64, 8, 8));
    assert_eq!(host.gpus_in_use().to_string(), "0,7");
    assert_eq!(host.features, ["h100", "ib"]);
    let read = jobs(NEW_JOBS);
    assert_eq!(read.diagnostics, []);
    let [running, waiting, completing, over] = read.value.as_slice() else { unreachable!() };
    assert_eq!(running.gpus, [("h1".to_owned(), GpuMask(0x81)), ("h2".to_owned(), GpuMask(8))]);
    assert_eq!((running.label(), running.priority), ("99_0".to_owned(), 7));
    assert_eq!((running.request.hosts, running.request.cpus, running.request.tasks), (2, 8, None));
    assert_eq!(
        (running.request.memory_mib_per_host, running.request.memory_mib_per_cpu),
        (Some(2048), None)
    );
    assert_eq!(running.request.time_limit, Limit::Seconds(5400));
    assert_eq!((waiting.state, waiting.request.time_limit), (JobState::Pending, Limit::Unlimited));
    assert_eq!(waiting.label(), "102+0");
    assert_eq!((completing.state, completing.gpus.len()), (JobState::Completing, 1));
    assert_eq!((over.state, over.gpus.len()), (JobState::Finished, 0));
}

#[test]
fn what_is_wrong_is_named_by_its_path() {
    let text = NEW_JOBS
        .replace(r#""user_name": "ann""#, r#""user_name": 7"#)
        .replace(r#""job_state": ["PENDING"]"#, r#""job_state": ["DANCING"]"#)
        .replace("(IDX:0,7)", "(IDX:0)");
    let read = jobs(&text);
    let fields: Vec<&str> = read.diagnostics.iter().map(|d| d.field.as_str()).collect();
    assert_eq!(fields, ["jobs[0].gres_detail", "jobs[0].user_name", "jobs[1].job_state"]);
    assert_eq!(read.value[0].unnamed_gpus, 1);
    let cut = jobs("{\"jobs\": [\n{\"job_id\": ");
    assert_eq!((cut.value.len(), cut.diagnostics[0].line), (0, 2));
    assert_eq!(hosts(r#"{"sinfo": []}"#).diagnostics[0].message, "has no list 'nodes'");
    assert_eq!(
        jobs(r#"{"jobs": [], "errors": [{"error": "down"}]}"#).diagnostics[0].message,
        "down"
    );
}

#[test]
fn damaged_texts_never_panic() {
    for text in [NEW_NODES, NEW_JOBS] {
        for (at, byte) in text.bytes().enumerate() {
            for with in [b'0', b'"', b'[', b'9'] {
                let mut bytes = text.as_bytes().to_vec();
                bytes[at] = if byte == with { b'-' } else { with };
                let damaged = String::from_utf8_lossy(&bytes).into_owned();
                hosts(&damaged);
                jobs(&damaged);
            }
        }
    }
}
