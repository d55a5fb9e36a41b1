//! Checks of the service as such.

use super::{Exam, Verdict, error, ok, unknown, warning};

/// Clocks that differ by less are the same: an answer takes its time, and is given in whole seconds.
const SAME_S: i64 = 3;

pub(super) fn answers(exam: &Exam) -> Verdict {
    let mend = "start slurmctld, or set SLURM_CONF to the slurm.conf of this cluster";
    match (&exam.facts.ping, &exam.facts.config) {
        (Err(reason), _) | (_, Err(reason)) => error(reason.clone(), mend),
        (Ok(lines), Ok(_)) => {
            let controllers = lines.iter().filter(|line| line.contains("Slurmctld("));
            let down: Vec<&str> =
                controllers.filter(|line| !line.contains(" UP")).map(|line| line.trim()).collect();
            match &down[..] {
                [] => ok(lines.first().map_or("it answers", |line| line.trim())),
                down => warning(down.join("; "), "start the controller that is down"),
            }
        }
    }
}

pub(super) fn version(exam: &Exam) -> Verdict {
    let version = match &exam.facts.version {
        Ok(version) => version,
        Err(reason) => return unknown(reason.clone(), "see the checks 'answers' and 'commands'"),
    };
    let mut parts = version.split('.').map(|part| part.parse::<u32>().ok());
    match (parts.next().flatten(), parts.next().flatten()) {
        (Some(22), Some(5)) => ok(format!("{version}, which bandpilot is tested with")),
        (Some(major), Some(_)) if major >= 23 => warning(
            format!("{version}: its output is read as documented, no such cluster was at hand"),
            "look at bandpilot slurm state before you rely on it",
        ),
        (Some(_), Some(_)) => warning(
            format!("{version} is older than 22.05, which bandpilot is tested with"),
            "update Slurm; its command lines and JSON may differ",
        ),
        _ => unknown(format!("'{version}' is not a version"), "call scontrol -V by hand"),
    }
}

pub(super) fn commands(exam: &Exam) -> Verdict {
    let missing = &exam.facts.missing;
    if missing.is_empty() {
        return ok("sbatch, srun, scontrol, squeue, sinfo, sacct and scancel start");
    }
    let named: Vec<String> =
        missing.iter().map(|(command, reason)| format!("{command}: {reason}")).collect();
    let mend = "install Slurm's client programs, and put them on the PATH";
    if missing.iter().all(|(command, _)| *command == "sacct") {
        return warning(named.join("; "), "without sacct there is no trace of past jobs");
    }
    error(named.join("; "), mend)
}

pub(super) fn clock(exam: &Exam) -> Verdict {
    match exam.facts.ahead_s {
        None => unknown("the controller did not tell its time", ""),
        Some(ahead) if ahead.abs() <= SAME_S => ok("the controller's clock is that of this host"),
        Some(ahead) => warning(
            format!("the controller's clock differs from this host's by {} s", ahead.abs()),
            "run a time service (chrony, ntpd) on all hosts: munge refuses credentials whose time is off",
        ),
    }
}
