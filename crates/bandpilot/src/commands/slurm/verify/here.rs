//! `bandpilot slurm verify --here`: inside a job, what the driver of its host shows.

use std::env;
use std::io::{self, Write};

use bandpilot_core::{GpuMask, counted};
use bandpilot_manager::audit::{Audit, Entry, HostGpus, Seen, What};
use bandpilot_manager::exchange::{Reply, RunError};
use bandpilot_readers::{Diagnostic, Severity, placement};
use bandpilot_slurm::host::{COMMAND, Device, Environment, devices, judge, usable};
use serde_json::{Value, json};

use super::read;
use super::shown::clean;
use crate::cli::SlurmVerify;
use crate::commands::audit as audit_file;
use crate::commands::ground::Remarks;
use crate::commands::slurm::runner::Asked;
use crate::exit::{Code, Failure};
use crate::output::{Done, Output, remarks_json, table, write_table};

/// Compares what the driver shows with the plan of this job on this host.
///
/// # Errors
/// If this is no job, it has no plan, or the audit cannot be read or appended to.
pub fn here(args: &SlurmVerify) -> Result<Done, Failure> {
    let mut remarks = Remarks::new();
    let audit = match &args.audit {
        Some(file) => {
            let (audit, said) = read(file)?;
            remarks.extend(said);
            Some(audit)
        }
        None => None,
    };
    let job = job().ok_or_else(|| outside("SLURM_JOB_ID"))?;
    let host = variable("SLURMD_NODENAME").ok_or_else(|| outside("SLURMD_NODENAME"))?;
    let goal = goal(audit.as_ref(), &job, &host)?;
    let (record, replay) = (args.record.as_deref(), args.replay.as_deref());
    let asked = Asked { record, replay, ..Asked::default() };
    let (reply, at_s) =
        asked.with(args.timeout_s, |runner, code| driver(runner.run(&COMMAND), code))?;
    let environment = Environment {
        visible: env::var("CUDA_VISIBLE_DEVICES").ok(),
        order: env::var("CUDA_DEVICE_ORDER").unwrap_or_default(),
    };
    let command = COMMAND.join(" ");
    let shown = match reply {
        Ok(text) => {
            let read = devices(&text);
            remarks.extend(read.diagnostics.into_iter().map(|remark| (command.clone(), remark)));
            Some(read.value)
        }
        Err(said) => {
            let visible = environment.visible.as_deref().unwrap_or("not set");
            let help = format!(
                "CUDA_VISIBLE_DEVICES ({visible}) alone does not tell which GPUs these are"
            );
            remarks.push((command.clone(), Diagnostic::warning("", said).help(help)));
            None
        }
    };
    let broken = remarks.iter().any(|(_, remark)| remark.severity == Severity::Error);
    let has = shown.as_deref().filter(|_| !broken).map(|all| usable(all, &environment));
    let seen = has.as_ref().map(|has| judge(&job, &goal.planned, goal.whole_hosts, has));
    let used = has.as_ref().and_then(|has| has.as_ref().ok());
    let used =
        used.map_or(Vec::new(), |has| has.iter().map(|device| device.uuid.clone()).collect());
    let told = seen.as_ref().filter(|seen| seen.agrees.is_some() && args.replay.is_none());
    let mut appended = false;
    if let (Some(file), Some(seen), Some(plan)) = (&args.audit, told, &goal.plan) {
        audit_file::write(
            file,
            &[Entry { plan: plan.clone(), at_s, what: What::Fact(seen.clone()) }],
        )?;
        appended = true;
    }
    let bad = broken || seen.as_ref().is_some_and(|seen| seen.agrees == Some(false));
    let code = if bad { Code::Problems } else { Code::Ok };
    let output =
        Here { job, goal, environment, shown, used, seen, appended, remarks: remarks.clone() };
    Ok(Done { remarks, code, ..Done::ok(output) })
}

/// What the job is to have on this host.
struct Goal {
    plan: Option<String>,
    planned: HostGpus,
    whole_hosts: bool,
}

/// By the plan's id or the job in the audit, else by what the submit left in the environment.
fn goal(audit: Option<&Audit>, job: &str, host: &str) -> Result<Goal, Failure> {
    let id = variable("BANDPILOT_PLAN");
    let known = audit.and_then(|audit| match &id {
        Some(id) => audit.plan(id),
        None => audit.plans.iter().rev().find(|known| known.job.as_deref() == Some(job)),
    });
    let nothing = || HostGpus { host: host.to_owned(), ..HostGpus::default() };
    if let Some((known, planned)) = known.and_then(|known| Some((known, known.planned.as_ref()?))) {
        let on_host = planned.gpus.iter().find(|one| one.host == host).cloned();
        let plan = Some(known.id.clone());
        let planned_here = on_host.unwrap_or_else(nothing);
        return Ok(Goal { plan, planned: planned_here, whole_hosts: planned.whole_hosts });
    }
    let Some(text) = variable("BANDPILOT_GPUS") else {
        let reason = Diagnostic::error("", format!("job {job} has no plan here"));
        let help =
            "pass the --audit that it was submitted with, or set BANDPILOT_GPUS=host:0-3,...";
        return Err(Failure::new(Code::BadInput, "", reason.help(help)));
    };
    let read = placement::by_name(&text).into_result();
    let (list, _) =
        read.map_err(|reasons| Failure::all(Code::BadInput, "BANDPILOT_GPUS", reasons))?;
    let gpus = list.iter().find(|(name, _)| name == host).map_or(GpuMask::EMPTY, |(_, mask)| *mask);
    Ok(Goal { plan: id, planned: HostGpus { gpus, ..nothing() }, whole_hosts: false })
}

/// The job that this is a process of, as the audit names it.
fn job() -> Option<String> {
    let array = variable("SLURM_ARRAY_JOB_ID").zip(variable("SLURM_ARRAY_TASK_ID"));
    let array = array.map(|(job, task)| format!("{job}_{task}"));
    // The components of a heterogeneous job have ids of their own.
    array.or_else(|| variable("SLURM_JOB_ID_HET_GROUP_0")).or_else(|| variable("SLURM_JOB_ID"))
}

fn variable(name: &str) -> Option<String> {
    env::var(name).ok().filter(|value| !value.is_empty())
}

fn outside(name: &str) -> Failure {
    let help = "run it in a job: srun --ntasks-per-node=1 bandpilot slurm verify --here";
    Failure::usage("--here", format!("{name} is not set"), help)
}

/// What the driver says, or why it says nothing; and when.
fn driver(
    answer: Result<Reply, RunError>,
    code: Code,
) -> Result<(Result<String, String>, i64), Failure> {
    match answer {
        Ok(reply) if reply.code == Some(0) => Ok((Ok(reply.stdout), reply.at_s)),
        Ok(reply) => {
            let mut said = reply.stdout.lines().chain(reply.stderr.lines()).map(str::trim);
            let said = said.find(|line| !line.is_empty()).unwrap_or("no message");
            Ok((Err(format!("no GPU driver answers here: {}", clean(said))), reply.at_s))
        }
        Err(RunError::Start(why)) => Ok((Err(format!("no GPU driver answers here: {why}")), 0)),
        Err(error) => {
            let reason = Diagnostic::error("", error.to_string());
            Err(Failure::new(code, &COMMAND.join(" "), reason))
        }
    }
}

struct Here {
    job: String,
    goal: Goal,
    environment: Environment,
    /// What the driver shows; `None` if there is none.
    shown: Option<Vec<Device>>,
    /// UUIDs of what the job may use.
    used: Vec<String>,
    seen: Option<Seen>,
    appended: bool,
    remarks: Remarks,
}

impl Output for Here {
    fn human(&self, w: &mut dyn Write) -> io::Result<()> {
        let Goal { plan, planned, .. } = &self.goal;
        let plan = plan.as_deref().map_or(String::new(), |plan| format!(", plan {}", clean(plan)));
        let gpus =
            if planned.gpus.is_empty() { "none".to_owned() } else { planned.gpus.to_string() };
        writeln!(w, "job {}{plan} on {}: planned {gpus}", clean(&self.job), clean(&planned.host))?;
        if let Some(devices) = &self.shown {
            let mut rows = table(&["GPU", "BUS ID", "UUID", "MODEL", "OF THIS JOB"]);
            for device in devices {
                rows.add_row([
                    device.minor.map_or("?".to_owned(), |minor| minor.to_string()),
                    clean(&device.pci_bus_id),
                    clean(&device.uuid),
                    clean(&device.model),
                    if self.used.contains(&device.uuid) { "yes" } else { "-" }.to_owned(),
                ]);
            }
            writeln!(w, "the driver shows {}", counted(devices.len(), "GPU"))?;
            write_table(w, &rows)?;
        }
        let verdict = match &self.seen {
            None => "unknown: no GPU driver, or it could not be read".to_owned(),
            Some(seen) => match seen.agrees {
                Some(true) => "as planned".to_owned(),
                Some(false) => format!("differs: {}", clean(&seen.differs)),
                None => format!("unknown: {}", clean(&seen.differs)),
            },
        };
        writeln!(w, "{verdict}")
    }

    fn json(&self) -> Value {
        let device = |device: &Device| {
            json!({
                "index": device.minor,
                "uuid": device.uuid,
                "pci_bus_id": device.pci_bus_id,
                "model": device.model,
                "used": self.used.contains(&device.uuid),
            })
        };
        let planned = &self.goal.planned;
        json!({
            "job": self.job,
            "plan": self.goal.plan,
            "host": planned.host,
            "planned": planned.gpus.iter().collect::<Vec<_>>(),
            "cuda_visible_devices": self.environment.visible,
            "driver": self.shown.is_some(),
            "devices": self.shown.iter().flatten().map(device).collect::<Vec<_>>(),
            "agrees": self.seen.as_ref().and_then(|seen| seen.agrees),
            "why": self.seen.as_ref().map_or("", |seen| &seen.differs),
            "appended": self.appended,
            "diagnostics": remarks_json(&self.remarks),
        })
    }
}
