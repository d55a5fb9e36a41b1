//! The adapter interface.

use bandpilot_core::GpuMask;
use bandpilot_readers::Diagnostic;

/// Which GPUs a job is to get.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Plan {
    /// Found again in the manager's queue: a submit whose answer was lost is not made twice.
    pub id: String,
    /// Its GPUs host by host, in the order of ranks.
    pub gpus: Vec<(String, GpuMask)>,
    /// The job takes its hosts whole (exclusive): it may be given more GPUs of them than the plan names.
    pub whole_hosts: bool,
}

/// What a manager says of a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fact {
    /// It waits, and why in the manager's word.
    Waits(String),
    /// It holds these GPUs.
    Runs {
        /// By host, in the manager's order.
        gpus: Vec<(String, GpuMask)>,
        /// GPUs that it holds whose indexes the manager does not tell.
        unnamed: usize,
    },
    /// It is over.
    Over {
        /// The manager's word for how it ended.
        state: String,
        /// What it held by host, where that can still be known; `None` if not. Empty if it never ran.
        gpus: Option<Vec<(String, GpuMask)>>,
    },
    /// The manager knows no such job (any more).
    Unknown,
}

/// What became of a commit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Committed<J> {
    /// The job.
    pub job: J,
    /// What the manager says of it.
    pub fact: Fact,
    /// What else it said to the user; may be empty.
    pub said: String,
}

/// What became of an undo.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Undone {
    /// The job is out of the queue and never held a GPU.
    Withdrawn,
    /// It had already begun and was left alone.
    Started(Fact),
}

/// Why a manager did not do what was asked.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum ManagerError {
    /// It does not answer, or not with what can be read: what was said, each with the command.
    #[error("the cluster manager does not answer")]
    NoAnswer(Vec<(String, Diagnostic)>),
    /// It refuses the job, in its own words. Nothing is queued.
    #[error("{0}")]
    Refused(String),
    /// What the plan stands on does not hold in the snapshot. Nothing was asked of the manager.
    #[error("{0}")]
    Stale(String),
}

/// An adapter to a cluster manager.
pub trait Manager {
    /// What it has at one moment.
    type Snapshot;
    /// A planned job in its own words.
    type Order;
    /// How it names a job.
    type Job;

    /// What there is.
    ///
    /// # Errors
    /// If the manager does not answer.
    fn observe(&mut self) -> Result<Self::Snapshot, ManagerError>;

    /// Hands a planned job over. The manager has to keep to the named GPUs: if one of them was taken since `on`, the
    /// job waits for it and is never given another. A plan that names what was not there in `on` is not handed over.
    ///
    /// # Errors
    /// If the plan does not fit the snapshot, the manager refuses, or does not answer. If an answer was lost, the job
    /// is looked for by its plan's id before an error is given.
    fn commit(
        &mut self,
        order: &Self::Order,
        on: &Self::Snapshot,
    ) -> Result<Committed<Self::Job>, ManagerError>;

    /// What a job was given.
    ///
    /// # Errors
    /// If the manager does not answer.
    fn verify(&mut self, job: &Self::Job) -> Result<Fact, ManagerError>;

    /// Takes a job back that has not started; one that has is left alone.
    ///
    /// # Errors
    /// If the manager does not answer.
    fn undo(&mut self, job: &Self::Job) -> Result<Undone, ManagerError>;
}

impl Plan {
    /// Why a job that holds these GPUs does not have what was planned; `None` if it does.
    pub fn differs(&self, held: &[(String, GpuMask)]) -> Option<String> {
        let of = |list: &[(String, GpuMask)], name: &str| {
            let masks = list.iter().filter(|(host, _)| host == name).map(|(_, mask)| *mask);
            masks.fold(GpuMask::EMPTY, GpuMask::union)
        };
        let mut names: Vec<&str> =
            self.gpus.iter().chain(held).map(|(host, _)| host.as_str()).collect();
        names.sort_unstable();
        names.dedup();
        names.into_iter().find_map(|name| {
            let (planned, has) = (of(&self.gpus, name), of(held, name));
            let more = self.whole_hosts && !planned.is_empty() && planned.without(has).is_empty();
            (planned != has && !more).then(|| {
                let or_none = |mask: GpuMask| {
                    if mask.is_empty() { "none".to_owned() } else { mask.to_string() }
                };
                format!("{name}: planned {}, has {}", or_none(planned), or_none(has))
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gpus(text: &[(&str, &str)]) -> Vec<(String, GpuMask)> {
        let one = |(host, mask): &(&str, &str)| ((*host).to_owned(), GpuMask::parse(mask).unwrap());
        text.iter().map(one).collect()
    }

    #[test]
    fn a_plan_is_compared_host_by_host() {
        let mut plan = Plan { gpus: gpus(&[("b", "0-1"), ("a", "3")]), ..Plan::default() };
        assert_eq!(plan.differs(&gpus(&[("a", "3"), ("b", "0"), ("b", "1")])), None);
        let differs = |plan: &Plan, held| plan.differs(&gpus(held)).unwrap();
        assert_eq!(differs(&plan, &[("a", "3")]), "b: planned 0-1, has none");
        assert_eq!(
            differs(&plan, &[("a", "3"), ("b", "0-1"), ("c", "7")]),
            "c: planned none, has 7"
        );
        assert_eq!(differs(&plan, &[("a", "3"), ("b", "0-2")]), "b: planned 0-1, has 0-2");
        plan.whole_hosts = true;
        assert_eq!(plan.differs(&gpus(&[("a", "0-7"), ("b", "0-7")])), None);
        assert_eq!(differs(&plan, &[("a", "0-2"), ("b", "0-7")]), "a: planned 3, has 0-2");
    }
}
