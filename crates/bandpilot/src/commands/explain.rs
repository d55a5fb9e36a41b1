//! `bandpilot explain`.

use std::io::{self, Write};

use bandpilot_core::{
    Cluster, ClusterState, Collective, GpuMask, Placement, Request, format_bytes,
};
use bandpilot_dispatch::explain::{HostPart, with_set_free};
use bandpilot_dispatch::{AnswerOptions, Explained};
use bandpilot_model::Predictor;
use bandpilot_readers::{Diagnostic, state_file};
use serde_json::{Value, json};

use crate::cli::Explain;
use crate::commands::ground::{self, Deadline, Ground, Models, Remarks};
use crate::commands::parts;
use crate::exit::{Code, Failure};
use crate::output::{Done, Output, counted, remarks_json, table, write_table};

/// Explains a set of GPUs.
///
/// # Errors
/// If an argument or file is wrong, or another job holds GPUs of the set.
pub fn explain(args: &Explain) -> Result<Done, Failure> {
    let deadline = Deadline::from_now(args.deadline_ms);
    let mut remarks = Remarks::new();
    let ground = Ground::read(&args.files, &mut remarks)?;
    let models = Models::read(&args.files.model, &ground.cluster, &mut remarks)?;
    let set = set(args, &ground, &mut remarks)?;
    let job = ground.state.jobs.iter().find(|job| job.placement == set);
    let job = job.map(|job| job.name.clone());
    if job.is_none() {
        remarks.extend(unavailable(&ground.cluster, &ground.state, &set));
    }
    let state = with_set_free(&ground.state, &set)
        .map_err(|(gpus, holder)| held(&ground.cluster, &gpus, &holder))?;
    let model = models.of(args.op, "--op", &mut remarks);
    let predictor = Predictor::new(&model, &ground.cluster, args.bytes);
    let request = Request { bytes: args.bytes, ..Request::gpus(set.gpus()) };
    let passed = || deadline.has_passed();
    let options = AnswerOptions {
        should_stop: deadline.is_given().then_some(&passed),
        ..AnswerOptions::default()
    };
    let explained = bandpilot_dispatch::explain(&predictor, &state, &set, &request, options);
    let output = Shown {
        explained,
        others: state,
        job,
        bytes: args.bytes,
        collective: model.collective,
        model: model.description.clone(),
        ground,
        remarks: remarks.clone(),
    };
    Ok(Done { remarks, ..Done::ok(output) })
}

/// The set that was named.
fn set(args: &Explain, ground: &Ground, remarks: &mut Remarks) -> Result<Placement, Failure> {
    let Ground { cluster, state, .. } = ground;
    if let Some(text) = &args.placement {
        // GPUs to explain are to be healthy, just as those that are said to be free.
        let read = state_file::free_form(text, cluster);
        let named = ground::settle(read, "--placement", Code::BadInput, remarks)?;
        return Ok(Placement::new(cluster.host_ids().zip(named.free)));
    }
    let name = args.job.as_deref().unwrap_or("");
    if let Some(job) = state.jobs.iter().find(|job| job.name == name) {
        return Ok(job.placement.clone());
    }
    let names: Vec<&str> = state.jobs.iter().map(|job| job.name.as_str()).take(20).collect();
    let more = if state.jobs.len() > names.len() { ", ..." } else { "" };
    let help = if names.is_empty() {
        "no job runs; name them in a state file (--state)".to_owned()
    } else {
        format!("the running jobs are {}{more}", names.join(", "))
    };
    let reason = Diagnostic::error("", format!("no running job is called '{name}'")).help(help);
    Err(Failure::new(Code::BadInput, "--job", reason))
}

fn held(cluster: &Cluster, gpus: &Placement, job: &str) -> Failure {
    let message = format!("job '{job}' holds {}", gpus.display(cluster));
    let help = format!("leave these GPUs out, or explain the job itself with --job '{job}'");
    Failure::new(Code::BadInput, "--placement", Diagnostic::error("", message).help(help))
}

/// A remark if GPUs of the set are neither free nor in a job.
fn unavailable(
    cluster: &Cluster,
    state: &ClusterState,
    set: &Placement,
) -> Option<(String, Diagnostic)> {
    let in_jobs = |host| {
        let masks = state.jobs.iter().map(|job| job.placement.on(host));
        masks.fold(GpuMask::EMPTY, GpuMask::union)
    };
    let lacking = Placement::new(set.shares().iter().map(|(host, mask)| {
        (*host, mask.without(state.free[host.index()]).without(in_jobs(*host)))
    }));
    let message = format!("{} is not free; explained as if it were", lacking.display(cluster));
    let remark = || ("--placement".to_owned(), Diagnostic::note("", message));
    (lacking.gpus() > 0).then(remark)
}

struct Shown {
    explained: Explained,
    /// The snapshot without the set's own job.
    others: ClusterState,
    job: Option<String>,
    bytes: u64,
    collective: Collective,
    model: String,
    ground: Ground,
    remarks: Remarks,
}

impl Output for Shown {
    fn human(&self, w: &mut dyn Write) -> io::Result<()> {
        let explained = &self.explained;
        let set = &explained.set;
        parts::write_head(w, &self.ground, &[&self.model])?;
        write!(w, "{}", counted(set.placement.gpus(), "GPU"))?;
        if let Some(job) = &self.job {
            write!(w, " of job '{job}'")?;
        }
        writeln!(w, " with {} of {}", self.collective, format_bytes(self.bytes))?;
        parts::write_set(w, &self.ground.cluster, &set.placement)?;
        parts::write_worth(w, set, &explained.grounds)?;
        self.write_better(w)?;
        self.write_hosts(w)?;
        parts::write_harm(w, &self.others, &explained.harm)
    }

    fn json(&self) -> Value {
        let explained = &self.explained;
        let cluster = &self.ground.cluster;
        let mut object = parts::worth_json(&explained.set, &explained.grounds);
        let keys = [
            ("cluster", json!(cluster.name)),
            ("model", json!(self.model)),
            (
                "request",
                json!({
                    "gpus": explained.set.placement.gpus(),
                    "job": self.job,
                    "bytes": self.bytes,
                    "collective": self.collective.name(),
                }),
            ),
            ("placement", json!(parts::gpus_json(cluster, &explained.set.placement))),
            ("hosts", explained.hosts.iter().map(|part| self.host_json(part)).collect()),
            ("harm", json!(parts::harm_json(&explained.harm))),
            ("better", self.better_json()),
            ("diagnostics", json!(remarks_json(&self.remarks))),
        ];
        object.extend(keys.into_iter().map(|(key, value)| (key.to_owned(), value)));
        Value::from(object)
    }
}

impl Shown {
    fn write_better(&self, w: &mut dyn Write) -> io::Result<()> {
        let explained = &self.explained;
        let gpus = explained.set.placement.gpus();
        if gpus < 2 {
            return Ok(());
        }
        let best = match &explained.better {
            Ok(best) => best,
            Err(impossible) => return writeln!(w, "better      unknown: {}", impossible.message),
        };
        match explained.gain().filter(|gain| *gain > 1e-9) {
            Some(gain) => writeln!(
                w,
                "better      {} reaches {:.1} GB/s, {} more",
                best.chosen.placement.display(&self.ground.cluster),
                best.chosen.effective,
                parts::per_cent(gain)
            )?,
            None if best.gap.is_some_and(|gap| gap <= 0.0) => {
                writeln!(w, "better      nothing: it is the best under the model")?;
            }
            None => writeln!(w, "better      nothing was found")?,
        }
        parts::write_certificate(w, best, &format!(" of {gpus} GPUs"))
    }

    fn write_hosts(&self, w: &mut dyn Write) -> io::Result<()> {
        if self.explained.set.placement.gpus() < 2 {
            return Ok(());
        }
        let header = ["HOST", "GPUS", "NICS", "NICS GB/S", "INSIDE", "WITHOUT IT", "JOBS BESIDE"];
        let mut rows = table(&header);
        for part in &self.explained.hosts {
            rows.add_row([
                self.ground.cluster.host(part.host).name.clone(),
                self.explained.set.placement.on(part.host).to_string(),
                part.rails.to_string(),
                format!("{:.0}", part.nic_gbytes_per_s),
                parts::gbytes(part.inside.unwrap_or(0.0)),
                parts::gbytes(part.without.unwrap_or(0.0)),
                if part.jobs.is_empty() { "-".to_owned() } else { part.jobs.join(", ") },
            ]);
        }
        writeln!(w)?;
        write_table(w, &rows)
    }

    fn host_json(&self, part: &HostPart) -> Value {
        let gpus = self.explained.set.placement.on(part.host);
        json!({
            "host": self.ground.cluster.host(part.host).name,
            "gpus": gpus.iter().collect::<Vec<_>>(),
            "nics": part.rails,
            "nics_gbytes_per_s": part.nic_gbytes_per_s,
            "inside_gbytes_per_s": part.inside,
            "without_gbytes_per_s": part.without,
            "jobs": part.jobs,
        })
    }

    fn better_json(&self) -> Value {
        let best = self.explained.better.as_ref().ok();
        let none = Placement::default();
        let set = best.map_or(&none, |best| &best.chosen.placement);
        json!({
            "placement": parts::gpus_json(&self.ground.cluster, set),
            "isolated_gbytes_per_s": best.map(|best| best.chosen.isolated),
            "effective_gbytes_per_s": best.map(|best| best.chosen.effective),
            "gain": self.explained.gain(),
            "upper_bound_gbytes_per_s": best.and_then(|best| best.upper_bound),
            "gap": best.and_then(|best| best.gap),
        })
    }
}
