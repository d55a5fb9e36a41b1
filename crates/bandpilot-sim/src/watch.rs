//! Looking on at a run.

use crate::fragmentation::Standing;
use crate::idle::Grant;
use crate::series::Recorder;

/// Is told what happens in a run and may end it. Nothing that is simulated depends on it.
pub trait Watcher {
    /// Jobs were added to those that wait, or taken from them (below 0); of so many thousandths of a GPU.
    fn waits(&mut self, _now_s: f64, _jobs: i32, _milli: i64) {}

    /// A job was given its GPUs.
    fn takes(&mut self, _now_s: f64, _grant: &Grant) {}

    /// A job has given its GPUs back.
    fn gives(&mut self, _now_s: f64, _grant: &Grant) {}

    /// The hosts stand so from now on. Only said where grants name hosts.
    fn stands(&mut self, _now_s: f64, _standing: &Standing) {}

    /// A job is done, or was refused.
    fn settled(&mut self) {}

    /// Asked between any two steps; with true the run ends at once as [`Broken::Stopped`](crate::Broken::Stopped).
    fn stop(&mut self) -> bool {
        false
    }
}

/// Nobody looks on.
impl Watcher for () {}

impl Watcher for Recorder {
    fn waits(&mut self, now_s: f64, jobs: i32, milli: i64) {
        self.waits(now_s, jobs, milli);
    }

    fn takes(&mut self, now_s: f64, grant: &Grant) {
        self.takes(now_s, grant);
    }

    fn gives(&mut self, now_s: f64, grant: &Grant) {
        self.gives(now_s, grant);
    }

    fn stands(&mut self, now_s: f64, standing: &Standing) {
        self.stands(now_s, standing);
    }
}
