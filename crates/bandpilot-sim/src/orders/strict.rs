//! The first waiting job blocks all others.

use std::collections::BTreeSet;

use super::{By, Order};
use crate::desk::Desk;
use crate::ids::JobId;
use crate::jobs::Jobs;

/// `fifo`: jobs start in order of arrival; while the first one does not fit nobody starts. `sjf-strict`: the same by work
/// left, least first: a shorter job that arrives becomes the head. `priority`: the same by priority plus age. Nobody is preempted.
#[derive(Debug)]
pub struct Strict {
    by: By,
    queue: BTreeSet<(u64, JobId)>,
}

impl Strict {
    /// An empty queue.
    pub const fn new(by: By) -> Self {
        Self { by, queue: BTreeSet::new() }
    }
}

impl Order for Strict {
    fn enqueue(&mut self, job: JobId, jobs: &Jobs) {
        self.queue.insert((self.by.key(job, jobs), job));
    }

    fn head(&self) -> Option<JobId> {
        self.queue.first().map(|(_, job)| *job)
    }

    fn waiting(&self) -> usize {
        self.queue.len()
    }

    fn plan(&mut self, desk: &mut Desk<'_>) {
        while let Some((_, job)) = self.queue.first()
            && desk.start(*job)
        {
            self.queue.pop_first();
        }
    }
}
