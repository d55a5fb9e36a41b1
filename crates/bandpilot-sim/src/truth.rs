//! The truth about one job.

use crate::outcome::JobResult;
use crate::progress::Progress;
use crate::speed::Pace;

/// Everything that is booked of a job, and how it gets on now.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Truth {
    pub(crate) progress: Progress,
    pub(crate) first_start_s: f64,
    pub(crate) finish_s: f64,
    /// When it last started.
    since_s: f64,
    held_s: f64,
    worked_s: f64,
    contention_s: f64,
    /// Bandwidth x time, GB.
    busbw_gbytes: f64,
    /// Share of the rate alone that it does not reach now.
    contended: f32,
    /// Bandwidth now, GB/s; not a number where there is none.
    busbw: f32,
    pub(crate) hosts: u32,
    pub(crate) preemptions: u32,
    pub(crate) migrations: u32,
    pub(crate) faults: u32,
    /// Entries in the list of ends with another version are void.
    pub(crate) version: u32,
}

impl Truth {
    pub(crate) const fn new(work_s: f64) -> Self {
        Self {
            progress: Progress::new(work_s),
            first_start_s: f64::NAN,
            finish_s: f64::NAN,
            since_s: 0.0,
            held_s: 0.0,
            worked_s: 0.0,
            contention_s: 0.0,
            busbw_gbytes: 0.0,
            contended: 0.0,
            busbw: f32::NAN,
            hosts: 0,
            preemptions: 0,
            migrations: 0,
            faults: 0,
            version: 0,
        }
    }

    pub(crate) const fn is_done(&self) -> bool {
        !self.finish_s.is_nan()
    }

    /// Gets its GPUs; begins to work `delay_s` later.
    pub(crate) fn start(&mut self, now_s: f64, delay_s: f64, hosts: u32) {
        self.since_s = now_s;
        if self.first_start_s.is_nan() {
            self.first_start_s = now_s;
        }
        self.hosts = hosts;
        (self.contended, self.busbw) = (0.0, f32::NAN);
        self.progress.start(now_s + delay_s);
        self.version += 1;
    }

    /// Loses its GPUs; gives the work done since its pace last changed.
    pub(crate) fn stop(&mut self, now_s: f64) -> f64 {
        self.held_s += now_s - self.since_s;
        self.book(now_s, 0.0)
    }

    /// Goes on at another pace; gives the work done since it last changed.
    pub(crate) fn set_pace(&mut self, now_s: f64, pace: Pace) -> f64 {
        let done_s = self.book(now_s, pace.rate);
        self.contended = (1.0 - pace.rate / pace.alone).max(0.0) as f32;
        self.busbw = pace.busbw_gbytes_per_s.map_or(f32::NAN, |busbw| busbw as f32);
        done_s
    }

    fn book(&mut self, now_s: f64, rate: f64) -> f64 {
        let worked_s = self.progress.worked_s(now_s);
        self.worked_s += worked_s;
        self.contention_s += worked_s * f64::from(self.contended);
        if !self.busbw.is_nan() {
            self.busbw_gbytes += worked_s * f64::from(self.busbw);
        }
        self.version += 1;
        self.progress.set_rate(now_s, rate)
    }

    pub(crate) fn result(&self) -> JobResult {
        let known = |seconds: f64| Some(seconds).filter(|seconds| !seconds.is_nan());
        // What has no bandwidth now had none before: the number of its GPUs never changes.
        let busbw = known(self.busbw_gbytes / self.worked_s).filter(|_| !self.busbw.is_nan());
        JobResult {
            first_start_s: known(self.first_start_s),
            finish_s: known(self.finish_s),
            held_s: self.held_s,
            worked_s: self.worked_s,
            contention_s: self.contention_s,
            hosts: self.hosts,
            preemptions: self.preemptions,
            migrations: self.migrations,
            faults: self.faults,
            busbw_gbytes_per_s: busbw,
        }
    }
}
