//! How far a job is.

/// Work in seconds at rate 1, done at a rate that is constant between events.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Progress {
    work_s: f64,
    done_s: f64,
    /// When the rate last changed; later than now where it takes a while before it works.
    since_s: f64,
    rate: f64,
}

impl Progress {
    /// Nothing done yet, and not running.
    pub const fn new(work_s: f64) -> Self {
        Self { work_s, done_s: 0.0, since_s: 0.0, rate: 0.0 }
    }

    /// The work of the whole job.
    pub const fn work_s(&self) -> f64 {
        self.work_s
    }

    /// The rate now; 0 if it does not run.
    pub const fn rate(&self) -> f64 {
        self.rate
    }

    /// Work done until `now_s`. More than all of it if an estimate was too short.
    pub fn done_at(&self, now_s: f64) -> f64 {
        // At rate 1 the product is exact, and so is the sum of whole seconds.
        self.done_s + self.rate * self.worked_s(now_s)
    }

    /// For how long it has worked at the present rate, seconds.
    pub fn worked_s(&self, now_s: f64) -> f64 {
        (now_s - self.since_s).max(0.0)
    }

    /// Work left at `now_s`, at least 0.
    pub fn left_at(&self, now_s: f64) -> f64 {
        (self.work_s - self.done_at(now_s)).max(0.0)
    }

    /// When it will be over at this rate; infinite if it does not run.
    pub fn end_s(&self) -> f64 {
        if self.rate > 0.0 {
            self.since_s + (self.work_s - self.done_s).max(0.0) / self.rate
        } else {
            f64::INFINITY
        }
    }

    /// Goes on at another rate from `now_s` on, 0 to stop; gives the work done since the rate last changed.
    pub fn set_rate(&mut self, now_s: f64, rate: f64) -> f64 {
        let done_s = self.rate * self.worked_s(now_s);
        self.done_s += done_s;
        self.since_s = if rate > 0.0 { now_s.max(self.since_s) } else { now_s };
        self.rate = rate;
        done_s
    }

    /// Starts at rate 1, but does nothing before `from_s`.
    pub fn start(&mut self, from_s: f64) {
        self.since_s = from_s;
        self.rate = 1.0;
    }

    /// Takes back work that was done and is lost; it must not run.
    pub fn lose(&mut self, lost_s: f64) {
        self.done_s = (self.done_s - lost_s).max(0.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_change_on_the_way() {
        let mut job = Progress::new(10.0);
        assert_eq!((job.end_s(), job.left_at(99.0)), (f64::INFINITY, 10.0));
        job.start(5.0);
        assert_eq!((job.end_s(), job.left_at(7.0)), (15.0, 8.0));
        assert_eq!(job.set_rate(7.0, 0.5), 2.0);
        assert_eq!((job.end_s(), job.left_at(9.0)), (23.0, 7.0));
        assert_eq!(job.set_rate(9.0, 0.0), 1.0);
        assert_eq!((job.end_s(), job.left_at(50.0)), (f64::INFINITY, 7.0));
        job.start(50.0);
        assert_eq!((job.end_s(), job.left_at(60.0)), (57.0, 0.0));
    }

    #[test]
    fn a_start_may_take_a_while() {
        let mut job = Progress::new(10.0);
        job.start(8.0);
        assert_eq!((job.end_s(), job.left_at(3.0), job.left_at(9.0)), (18.0, 10.0, 9.0));
        // A change of the rate on the way does not make it work earlier; a stop forgets the rest of the wait.
        assert_eq!(job.set_rate(5.0, 0.5), 0.0);
        assert_eq!((job.end_s(), job.worked_s(7.0)), (28.0, 0.0));
        assert_eq!(job.set_rate(6.0, 0.0), 0.0);
        job.start(7.0);
        assert_eq!(job.set_rate(11.0, 0.0), 4.0);
        job.lose(1.0);
        assert_eq!(job.left_at(20.0), 7.0);
    }
}
