//! What changes for users and for billing.

use super::{Granularity, Group, Options};

/// Where a statement comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    /// Seen on a real cluster of Slurm 22.05.8.
    Measured,
    /// Read in Slurm's manual pages of 22.05.
    Read,
}

/// One thing that changes, or expressly does not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// For whom: `users`, `billing`, `limits`, `running jobs`, `change-over`.
    pub subject: &'static str,
    /// What is written or done.
    pub what: String,
    /// What happens now.
    pub now: String,
    /// What to write or do instead; empty if nothing.
    pub instead: String,
    /// How it is known.
    pub source: Source,
}

/// What changes with these groups of hosts; `old` are the types that are there no more.
///
/// With `shards` there are GPUs that are given in parts.
pub fn changes(groups: &[Group], old: &[String], options: &Options, shards: bool) -> Vec<Change> {
    let example = groups.first().and_then(|group| group.types.first());
    let kind = example.map_or("g0", |(kind, _)| kind.as_str());
    let mut changes = for_users(kind, options);
    for kind in old {
        changes.extend(old_type(kind, groups));
    }
    changes.extend(billing(kind, old));
    changes.extend(change_over());
    if shards {
        changes.push(change(
            "users",
            "gres/shard beside types",
            "works: Slurm spreads the shards over the types (shard:g0:4, ...)",
            "",
            Source::Measured,
        ));
    }
    changes
}

fn change(
    subject: &'static str,
    what: impl Into<String>,
    now: impl Into<String>,
    instead: impl Into<String>,
    source: Source,
) -> Change {
    Change { subject, what: what.into(), now: now.into(), instead: instead.into(), source }
}

fn for_users(kind: &str, options: &Options) -> Vec<Change> {
    use Source::Measured;
    let names = match options.granularity {
        Granularity::Gpu => {
            "names this GPU on every host of the job; while it is in use the job waits"
        }
        Granularity::Island => "names the island; which GPUs of it the job gets is Slurm's choice",
    };
    let named = format!("--gres=gpu:{kind}:1");
    let mut changes = vec![
        change(
            "users",
            "--gres=gpu:4, --gpus=4, --gpus-per-node=4, --gpus-per-task=1",
            "start as before; the GPUs are Slurm's choice",
            "",
            Measured,
        ),
        change("users", named.as_str(), names, "", Measured),
        change(
            "users",
            format!("--gres=gpu:{kind}:1,gpu:2"),
            "is refused: Invalid GRES specification (with and without type identification)",
            "name all GPUs of a job or none",
            Measured,
        ),
    ];
    if options.granularity == Granularity::Gpu {
        let step = "Invalid generic resource (gres) specification: a step may ask for no more than the job has of one type";
        changes.extend([
            change(
                "users",
                "srun --exclusive --gres=gpu:8; sbatch --exclusive --gres=gpu:8 with srun in the script",
                format!("the job starts, its step is refused: {step}"),
                "--exclusive --gpus=8; or --gpus-per-node=8 without --exclusive",
                Measured,
            ),
            change(
                "users",
                "srun --gres=gpu:2 in a job with named GPUs",
                format!("is refused: {step}"),
                "srun without --gres (it gets all GPUs of the job) or with --gpus=2",
                Measured,
            ),
        ]);
    }
    changes.extend([
        change(
            "users",
            format!("scontrol update JobId=J Gres=gpu:{kind}:1 of a job that asked for gpu:2"),
            "is refused: Invalid GRES specification (with and without type identification)",
            "cancel the job and submit it anew",
            Measured,
        ),
        change(
            "users",
            format!("--gpus={kind}:2"),
            "takes the GPUs of this type on two hosts; uneven sets cannot be named so",
            "a heterogeneous job: one component for each set of GPUs",
            Measured,
        ),
    ]);
    changes
}

fn old_type(kind: &str, groups: &[Group]) -> Vec<Change> {
    let feature = kind.to_ascii_lowercase();
    let models: Vec<&String> = groups.iter().filter_map(|group| group.model.as_ref()).collect();
    let one = models.windows(2).all(|pair| pair[0] == pair[1]) && !models.is_empty();
    let instead =
        if one { "--gres=gpu:4".to_owned() } else { format!("--gres=gpu:4 -C {feature}") };
    let layer = format!(
        "for scripts that stay as they are: a job_submit plugin that turns gpu:{kind}:N into gpu:N and the feature {feature}"
    );
    vec![
        change(
            "users",
            format!("--gres=gpu:{kind}:4"),
            "is refused: Requested node configuration is not available",
            format!("{instead}; {layer}"),
            Source::Measured,
        ),
        change(
            "users",
            format!("scontrol update JobId=J Gres=gpu:{kind}:1"),
            "is taken, and the job never starts",
            "a type that exists",
            Source::Measured,
        ),
    ]
}

fn billing(kind: &str, old: &[String]) -> Vec<Change> {
    use Source::{Measured, Read};
    let mut changes = vec![
        change(
            "billing",
            "TRES gres/gpu, TRESBillingWeights=\"GRES/gpu=1.0\"",
            "count GPUs of every type, whether the job named them or not",
            "",
            Measured,
        ),
        change(
            "billing",
            format!("TRES gres/gpu:{kind}"),
            "counts the GPUs of the type that jobs got, named or not: AllocTRES of sacct shows them",
            "give it no weight beside gres/gpu: a GPU would be billed twice",
            Measured,
        ),
        change(
            "billing",
            "AccountingStorageTRES=gres/gpu without slurmdbd",
            "slurmctld ends: slurmdbd is required to run with TRES gres/gpu; so it is written only where slurm.conf has slurmdbd",
            "",
            Measured,
        ),
    ];
    for kind in old {
        changes.push(change(
            "limits",
            format!("QOS and association limits such as MaxTRESPerUser=gres/gpu:{kind}=8"),
            "hold nobody back: no job has the type any more",
            "MaxTRESPerUser=gres/gpu=8 in a QOS of the partition with these hosts",
            Read,
        ));
    }
    changes
}

fn change_over() -> Vec<Change> {
    use Source::{Measured, Read};
    vec![
        change(
            "change-over",
            "scontrol reconfigure",
            "does not take the types: the nodes keep the old ones",
            "restart slurmctld, then every slurmd, with the same files on all hosts",
            Measured,
        ),
        change(
            "running jobs",
            "jobs that run during the restart",
            "go on, and the GPUs that they have count as taken under the new types",
            "",
            Measured,
        ),
        change(
            "running jobs",
            "jobs that wait with a type that is gone",
            "stay in the queue with the reason BadConstraints and never start",
            "cancel and submit them anew; or drain the hosts and let the queue run empty before",
            Measured,
        ),
        change(
            "running jobs",
            "a change of the number of GPUs of a host",
            "ends the jobs that use them",
            "drain the host before; the types alone need no drain",
            Read,
        ),
    ]
}
