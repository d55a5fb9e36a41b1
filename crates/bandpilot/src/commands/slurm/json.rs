//! A snapshot for programs.

use bandpilot_slurm::{Host, Job, JobState, Limit, Observed, Reservation};
use serde_json::{Map, Value, json};

use crate::commands::ground::Remarks;
use crate::output::remarks_json;

pub fn value(observed: &Observed, out: Option<&str>, remarks: &Remarks) -> Value {
    let snapshot = &observed.snapshot;
    json!({
        "version": observed.version,
        "taken_at_s": snapshot.taken_at_s,
        "hosts": snapshot.hosts.iter().map(host).collect::<Vec<_>>(),
        "jobs": snapshot.jobs.iter().map(job).collect::<Vec<_>>(),
        "reservations": snapshot.reservations.iter().map(reservation).collect::<Vec<_>>(),
        "out": out,
        "diagnostics": remarks_json(remarks),
    })
}

fn host(host: &Host) -> Value {
    let gpus = host.gpus.iter().enumerate().map(|(index, gpu)| {
        json!({"index": index, "type": gpu.kind, "in_use": gpu.in_use, "job": gpu.job})
    });
    json!({
        "name": host.name,
        "state": host.state,
        "flags": host.flags,
        "closed_by": host.closed_by(),
        "reason": host.reason,
        "cpus": host.cpus,
        "cpus_in_use": host.cpus_in_use,
        "memory_mib": host.memory_mib,
        "memory_in_use_mib": host.memory_in_use_mib,
        "features": host.features,
        "partitions": host.partitions,
        "gpus": gpus.collect::<Vec<_>>(),
    })
}

fn job(job: &Job) -> Value {
    let gpus: Map<String, Value> = job
        .gpus
        .iter()
        .map(|(host, mask)| (host.clone(), Value::from(mask.iter().collect::<Vec<_>>())))
        .collect();
    let state = match job.state {
        JobState::Pending => "pending",
        JobState::Running => "running",
        JobState::Suspended => "suspended",
        JobState::Completing => "completing",
        JobState::Finished => "finished",
    };
    json!({
        "id": job.id,
        "label": job.label(),
        "name": job.name,
        "user": job.user,
        "account": job.account,
        "partition": job.partition,
        "qos": job.qos,
        "reservation": job.reservation,
        "state": state,
        "reason": job.reason,
        "priority": job.priority,
        "hosts": job.hosts,
        "gpus": gpus,
        "unnamed_gpus": job.unnamed_gpus,
        "request": request(job),
        "submit_s": job.submit_s,
        "eligible_s": job.eligible_s,
        "start_s": job.start_s,
        "end_s": job.end_s,
        "array_job": job.array.as_ref().map(|array| array.job),
        "array_tasks": job.array.as_ref().map(|array| array.tasks.as_str()),
        "het_job": job.het.map(|het| het.leader),
        "het_offset": job.het.map(|het| het.offset),
    })
}

fn request(job: &Job) -> Value {
    let request = &job.request;
    let limit = match request.time_limit {
        Limit::Unset => Value::Null,
        Limit::Seconds(seconds) => Value::from(seconds),
        Limit::Unlimited => Value::from("unlimited"),
    };
    json!({
        "hosts": request.hosts,
        "cpus": request.cpus,
        "tasks": request.tasks,
        "memory_mib_per_host": request.memory_mib_per_host,
        "memory_mib_per_cpu": request.memory_mib_per_cpu,
        "tres_per_host": request.tres_per_host,
        "tres_per_job": request.tres_per_job,
        "features": request.features,
        "named_hosts": request.named_hosts,
        "excluded_hosts": request.excluded_hosts,
        "time_limit_s": limit,
        "dependency": request.dependency,
    })
}

fn reservation(reservation: &Reservation) -> Value {
    json!({
        "name": reservation.name,
        "hosts": reservation.hosts,
        "active": reservation.active,
        "start_s": reservation.start_s,
        "end_s": reservation.end_s,
        "users": reservation.users,
        "accounts": reservation.accounts,
    })
}
