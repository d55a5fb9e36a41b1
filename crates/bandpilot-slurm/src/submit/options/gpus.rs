//! How many GPUs, from the options that say so together.

use super::values::GpuType;
use crate::submit::ask::{Ask, GpuCount, Hosts};

/// What the options say of GPUs. Lists are not empty.
#[derive(Debug, Clone, Default)]
pub(super) struct Said {
    pub total: Option<Vec<GpuType>>,
    pub per_node: Option<Vec<GpuType>>,
    pub gres: Option<Vec<GpuType>>,
    pub per_task: Option<Vec<GpuType>>,
    pub tasks_per_gpu: Option<usize>,
}

/// What is wrong: the option, and what with it.
pub(super) type Wrong = (&'static str, String);

impl Said {
    /// Completes an [`Ask`] of which hosts and tasks are known, and gives the GPUs by type.
    pub fn resolve(&self, ask: &mut Ask) -> Result<Vec<GpuType>, Wrong> {
        if self.per_node.is_some() && self.gres.is_some() {
            return Err(wrong(
                "--gres",
                "and --gpus-per-node both say how many GPUs a host gives: use one of them",
            ));
        }
        let per_host = self.per_node.as_ref().or(self.gres.as_ref());
        let types = self.types(per_host)?;
        ask.gpu_model = match &types[..] {
            [one] => one.name.clone(),
            _ => None,
        };
        self.exclude_each_other(ask)?;
        ask.tasks_per_gpu = self.tasks_per_gpu;
        let (total, per_host, per_task) =
            (sum(self.total.as_ref()), sum(per_host), sum(self.per_task.as_ref()));
        if let (Some(total), Some(per_host)) = (total, per_host) {
            let hosts = whole(total, per_host, "--gpus", "the GPUs of a host")?;
            let fits = ask.hosts.is_none_or(|h| (h.least..=h.most).contains(&hosts));
            if !fits {
                return Err(wrong(
                    "--nodes",
                    &format!("does not hold the {hosts} hosts that follow from the GPUs"),
                ));
            }
            ask.hosts = Some(Hosts { least: hosts, most: hosts });
        }
        ask.gpus = match (total, per_host, per_task) {
            (_, Some(per_host), Some(per_task)) => {
                let tasks = whole(per_host, per_task, "--gpus-per-node", "--gpus-per-task")?;
                settle(&mut ask.tasks_per_host, tasks, "--ntasks-per-node")?;
                GpuCount::PerHost(per_host)
            }
            (_, Some(per_host), None) => GpuCount::PerHost(per_host),
            (total, None, Some(per_task)) => {
                Self::tasks(ask, total, per_task)?;
                GpuCount::PerTask(per_task)
            }
            (Some(total), None, None) => GpuCount::Total(total),
            (None, None, None) => GpuCount::Total(self.of_tasks(ask)?),
        };
        self.follow_tasks(ask)?;
        Ok(types)
    }

    /// The GPUs by type; of several options, those of the one that names types.
    fn types(&self, per_host: Option<&Vec<GpuType>>) -> Result<Vec<GpuType>, Wrong> {
        let lists = [self.total.as_ref(), per_host, self.per_task.as_ref()];
        let lists: Vec<&Vec<GpuType>> = lists.into_iter().flatten().collect();
        let names = |list: &Vec<GpuType>| {
            list.iter().filter_map(|gpus| gpus.name.clone()).collect::<Vec<String>>()
        };
        let named: Vec<&&Vec<GpuType>> =
            lists.iter().filter(|list| !names(list).is_empty()).collect();
        if named.windows(2).any(|pair| names(pair[0]) != names(pair[1])) {
            return Err(wrong("--gpus", "and the other options name different types of GPUs"));
        }
        if lists.len() > 1 && lists.iter().any(|list| list.len() > 1) {
            return Err(wrong(
                "--gpus",
                "lists types beside another option for GPUs: use one option",
            ));
        }
        Ok(named
            .first()
            .map(|list| (**list).clone())
            .or_else(|| lists.first().map(|list| (*list).clone()))
            .unwrap_or_default())
    }

    fn exclude_each_other(&self, ask: &Ask) -> Result<(), Wrong> {
        let other = match self.tasks_per_gpu {
            Some(_) if self.per_task.is_some() => "--gpus-per-task",
            Some(_) if ask.tasks_per_host.is_some() => "--ntasks-per-node",
            _ => return Ok(()),
        };
        Err(wrong("--ntasks-per-gpu", &format!("and {other} exclude each other")))
    }

    /// Tasks of a job whose GPUs are counted by task.
    fn tasks(ask: &mut Ask, total: Option<usize>, per_task: usize) -> Result<(), Wrong> {
        if let Some(total) = total {
            let tasks = whole(total, per_task, "--gpus", "--gpus-per-task")?;
            return settle(&mut ask.tasks, tasks, "--ntasks");
        }
        if ask.tasks.is_none() {
            let fixed = ask.hosts.filter(|hosts| hosts.least == hosts.most);
            ask.tasks = fixed
                .zip(ask.tasks_per_host)
                .map(|(hosts, tasks)| hosts.least.saturating_mul(tasks));
        }
        match ask.tasks {
            Some(_) => Ok(()),
            None => Err(wrong(
                "--gpus-per-task",
                "does not say for how many tasks: add --ntasks or --gpus",
            )),
        }
    }

    /// GPUs of a job that says only how many tasks share one.
    fn of_tasks(&self, ask: &Ask) -> Result<usize, Wrong> {
        let per_gpu = self.tasks_per_gpu.unwrap_or(1);
        let tasks = ask.tasks.ok_or_else(|| {
            wrong("--ntasks-per-gpu", "does not say how many GPUs: add --gpus or --ntasks")
        })?;
        whole(tasks, per_gpu, "--ntasks", "--ntasks-per-gpu")
    }

    /// Tasks that follow from the GPUs.
    fn follow_tasks(&self, ask: &mut Ask) -> Result<(), Wrong> {
        let Some(per_gpu) = self.tasks_per_gpu else { return Ok(()) };
        match ask.gpus {
            GpuCount::Total(gpus) => {
                settle(&mut ask.tasks, gpus.saturating_mul(per_gpu), "--ntasks")
            }
            GpuCount::PerHost(gpus) => {
                ask.tasks_per_host = Some(gpus.saturating_mul(per_gpu));
                Ok(())
            }
            GpuCount::PerTask(_) => Ok(()),
        }
    }
}

fn wrong(field: &'static str, message: &str) -> Wrong {
    (field, message.to_owned())
}

fn sum(list: Option<&Vec<GpuType>>) -> Option<usize> {
    list.map(|list| list.iter().map(|gpus| gpus.count).sum())
}

fn whole(all: usize, each: usize, field: &'static str, by: &str) -> Result<usize, Wrong> {
    if each > 0 && all.is_multiple_of(each) && all > 0 {
        Ok(all / each)
    } else {
        Err((field, format!("{all} is no multiple of {by}, {each}")))
    }
}

fn settle(value: &mut Option<usize>, follows: usize, field: &'static str) -> Result<(), Wrong> {
    match *value {
        Some(said) if said != follows => {
            Err((field, format!("{said} contradicts the {follows} that follow from the GPUs")))
        }
        _ => {
            *value = Some(follows);
            Ok(())
        }
    }
}
