//! Whoever fits starts.

use super::queue::Queue;
use super::{By, Order};
use crate::desk::Desk;
use crate::ids::{JobId, ShapeId};
use crate::jobs::Jobs;

/// `fifo-skip`: waiting jobs in order of arrival; each that fits starts, the others are passed over. `sjf-skip`: the same by
/// work left, least first. Nobody is preempted; a large job may starve.
#[derive(Debug)]
pub struct Skip {
    by: By,
    queue: Queue,
    shapes: Vec<ShapeId>,
}

impl Skip {
    /// An empty queue.
    pub fn new(by: By) -> Self {
        Self { by, queue: Queue::default(), shapes: Vec::new() }
    }
}

impl Order for Skip {
    fn enqueue(&mut self, job: JobId, jobs: &Jobs) {
        self.queue.insert(self.by.key(job, jobs), job, jobs);
    }

    fn head(&self) -> Option<JobId> {
        self.queue.first()
    }

    fn waiting(&self) -> usize {
        self.queue.len()
    }

    fn plan(&mut self, desk: &mut Desk<'_>) {
        let idle = desk.idle_gpus();
        self.shapes.clear();
        let may_fit = |shape: &ShapeId| desk.jobs().shape(*shape).gpus() <= idle;
        self.shapes.extend(self.queue.shapes().filter(may_fit));
        while let Some((_, job, at)) = self.queue.first_of(&self.shapes) {
            if desk.start(job) {
                self.queue.pop(self.shapes[at]);
            } else {
                // What does not fit now does not fit when more has started.
                self.shapes.swap_remove(at);
            }
        }
    }
}
