//! How a run goes over time.

use bandpilot_core::HostId;
use serde::{Deserialize, Serialize};

use crate::fragmentation::Standing;
use crate::idle::Grant;
use crate::shape::Hosts;

/// Bins of a series, half of which at least are filled once a run takes longer than the first bin is wide.
pub const BINS: usize = 512;
/// Most rows of the strip of hosts; above that neighbouring hosts share one.
pub const MAX_HOST_ROWS: usize = 200;
/// Width of the bins of a run that has just begun, seconds. A power of two: widths that double stay exact.
const FIRST_BIN_S: f64 = 1.0 / 1024.0;

/// A number that changes now and then, summed up over time in bins.
#[derive(Debug, Clone, PartialEq)]
struct Track {
    now: f64,
    since_s: f64,
    /// Value x time, one entry a bin.
    sums: Vec<f64>,
}

impl Track {
    fn new() -> Self {
        Self { now: 0.0, since_s: 0.0, sums: vec![0.0; BINS] }
    }

    /// Books the time until `until_s` (since the start of the run; it lies inside the bins).
    fn book(&mut self, until_s: f64, bin_s: f64) {
        let mut from_s = std::mem::replace(&mut self.since_s, until_s);
        if self.now == 0.0 || until_s <= from_s {
            return;
        }
        let mut bin = (from_s / bin_s) as usize;
        while from_s < until_s && bin < BINS {
            let to_s = until_s.min((bin + 1) as f64 * bin_s);
            self.sums[bin] += self.now * (to_s - from_s);
            from_s = to_s;
            bin += 1;
        }
    }

    fn merge_pairs(&mut self) {
        for bin in 0..BINS / 2 {
            self.sums[bin] = self.sums[2 * bin] + self.sums[2 * bin + 1];
        }
        self.sums[BINS / 2..].fill(0.0);
    }

    /// Means over the bins, divided by `unit`.
    fn means(&self, bin_s: f64, end_s: f64, unit: f64) -> Vec<f64> {
        let filled = ((end_s / bin_s).ceil() as usize).min(BINS);
        let width_s = |bin: usize| (end_s - bin as f64 * bin_s).min(bin_s);
        let mean = |(bin, sum): (usize, &f64)| sum / unit / width_s(bin);
        self.sums[..filled].iter().enumerate().map(mean).collect()
    }
}

/// Takes down what is held and what waits while a run goes on. How long it will take is not known, so the bins become
/// twice as wide, pair by pair, whenever time runs beyond the last one.
#[derive(Debug, Clone)]
pub struct Recorder {
    /// When the run began; `None` before anything has happened.
    start_s: Option<f64>,
    bin_s: f64,
    end_s: f64,
    // Thousandths of GPUs; whole numbers, so that sums are exact.
    held: Track,
    waited_for: Track,
    rows: Vec<Track>,
    /// Jobs.
    waiting: Track,
    // Hosts.
    partial: Track,
    full: Track,
    avoidable: Track,
    row_gpus: Vec<usize>,
    hosts: usize,
    /// A grant without hosts was given: what the rows show is not all.
    counted: bool,
}

impl Recorder {
    /// For a run on these hosts.
    pub fn new(hosts: &Hosts) -> Self {
        let rows = hosts.len().min(MAX_HOST_ROWS);
        let mut recorder = Self {
            start_s: None,
            bin_s: FIRST_BIN_S,
            end_s: 0.0,
            held: Track::new(),
            waiting: Track::new(),
            waited_for: Track::new(),
            partial: Track::new(),
            full: Track::new(),
            avoidable: Track::new(),
            rows: vec![Track::new(); rows],
            row_gpus: vec![0; rows],
            hosts: hosts.len(),
            counted: false,
        };
        for host in (0..hosts.len() as u32).map(HostId) {
            let row = recorder.row(host);
            recorder.row_gpus[row] += hosts.healthy(host).count();
        }
        recorder
    }

    fn row(&self, host: HostId) -> usize {
        host.index() * self.rows.len() / self.hosts
    }

    /// Jobs were added to those that wait, or taken from them (below 0), of so many thousandths of a GPU.
    pub fn waits(&mut self, now_s: f64, jobs: i32, milli: i64) {
        let now_s = self.reach(now_s);
        for (track, change) in
            [(&mut self.waiting, f64::from(jobs)), (&mut self.waited_for, milli as f64)]
        {
            track.book(now_s, self.bin_s);
            track.now += change;
        }
    }

    /// A job was given its GPUs.
    pub fn takes(&mut self, now_s: f64, grant: &Grant) {
        self.change(now_s, grant, 1.0);
    }

    /// A job has given its GPUs back.
    pub fn gives(&mut self, now_s: f64, grant: &Grant) {
        self.change(now_s, grant, -1.0);
    }

    /// The hosts stand so from now on.
    pub fn stands(&mut self, now_s: f64, standing: &Standing) {
        let now_s = self.reach(now_s);
        for (track, hosts) in [
            (&mut self.partial, standing.partial),
            (&mut self.full, standing.full),
            (&mut self.avoidable, standing.avoidable),
        ] {
            track.book(now_s, self.bin_s);
            track.now = hosts as f64;
        }
    }

    fn change(&mut self, now_s: f64, grant: &Grant, sign: f64) {
        let now_s = self.reach(now_s);
        self.held.book(now_s, self.bin_s);
        self.held.now += sign * grant.total_milli() as f64;
        match grant {
            Grant::Count(_) | Grant::Part(_) => self.counted = true,
            Grant::Share { host, milli, .. } => {
                self.change_row(now_s, *host, sign * f64::from(*milli));
            }
            Grant::Gpus(placement) => {
                for (host, mask) in placement.shares() {
                    self.change_row(now_s, *host, sign * 1000.0 * mask.count() as f64);
                }
            }
        }
    }

    fn change_row(&mut self, now_s: f64, host: HostId, change: f64) {
        let row = self.row(host);
        self.rows[row].book(now_s, self.bin_s);
        self.rows[row].now += change;
    }

    /// Makes the bins reach as far as now; gives the time since the start.
    fn reach(&mut self, now_s: f64) -> f64 {
        let now_s = now_s - *self.start_s.get_or_insert(now_s);
        while now_s > self.bin_s * BINS as f64 && now_s.is_finite() {
            self.bin_s *= 2.0;
            self.tracks().for_each(Track::merge_pairs);
        }
        self.end_s = self.end_s.max(now_s);
        now_s
    }

    fn tracks(&mut self) -> impl Iterator<Item = &mut Track> {
        let all = [&mut self.held, &mut self.waiting, &mut self.waited_for];
        let hosts = [&mut self.partial, &mut self.full, &mut self.avoidable];
        all.into_iter().chain(hosts).chain(&mut self.rows)
    }

    /// What was taken down, up to the last change.
    pub fn finish(mut self) -> Series {
        let (bin_s, end_s) = (self.bin_s, self.end_s);
        self.tracks().for_each(|track| track.book(end_s, bin_s));
        let gpus = |track: &Track| track.means(bin_s, end_s, 1000.0);
        let hosts = |track: &Track| {
            if self.counted { Vec::new() } else { track.means(bin_s, end_s, 1.0) }
        };
        let rows = self.rows.iter().zip(&self.row_gpus);
        let share = |(track, all): (&Track, &usize)| {
            // A row of hosts without a healthy GPU is never held.
            gpus(track).into_iter().map(|held| held / (*all).max(1) as f64).collect()
        };
        Series {
            start_s: self.start_s.unwrap_or(0.0),
            span_s: end_s,
            bin_s,
            held: gpus(&self.held),
            waiting: self.waiting.means(bin_s, end_s, 1.0),
            waited_for: gpus(&self.waited_for),
            partial: hosts(&self.partial),
            full: hosts(&self.full),
            avoidable: hosts(&self.avoidable),
            hosts: if self.counted { Vec::new() } else { rows.map(share).collect() },
        }
    }
}

/// A run over time: means over bins of equal width, the last of which may be cut short by the end.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Series {
    /// When the first job was submitted, seconds.
    pub start_s: f64,
    /// From then to the last change, seconds.
    pub span_s: f64,
    /// Width of a bin, seconds.
    pub bin_s: f64,
    /// GPUs held, one entry a bin; a share of one counts as a part.
    pub held: Vec<f64>,
    /// Jobs that wait.
    pub waiting: Vec<f64>,
    /// GPUs that they ask for.
    pub waited_for: Vec<f64>,
    /// Hosts with some GPUs held and some not. Empty, as the two below, if grants name no hosts.
    pub partial: Vec<f64>,
    /// Hosts with all GPUs held.
    pub full: Vec<f64>,
    /// Partial hosts beyond the fewest that what runs could be packed with (N*SIF).
    pub avoidable: Vec<f64>,
    /// Share of its healthy GPUs that is held, 0 to 1, for each host; neighbouring hosts are taken together if there are
    /// more than [`MAX_HOST_ROWS`]. No row if grants name no hosts.
    pub hosts: Vec<Vec<f64>>,
}

#[cfg(test)]
mod tests {
    use bandpilot_core::{ClusterBuilder, GpuMask, Placement};
    use proptest::prelude::*;

    use super::*;

    fn hosts(count: usize) -> Hosts {
        let cluster =
            ClusterBuilder::new("c").host_type("t", "", 8).nvswitch().hosts("h", 1, count).build();
        Hosts::new(&cluster).unwrap()
    }

    fn on(host: u32, gpus: usize) -> Grant {
        Grant::Gpus(Placement::new([(HostId(host), GpuMask::first(gpus))]))
    }

    /// Integral of a list of (time, value from then on) over a stretch of time.
    fn integral(steps: &[(f64, f64)], from_s: f64, to_s: f64) -> f64 {
        let ends = steps.iter().skip(1).map(|step| step.0).chain([f64::INFINITY]);
        let part = |((begin, value), end): (&(f64, f64), f64)| {
            value * (end.min(to_s) - begin.max(from_s)).max(0.0)
        };
        steps.iter().zip(ends).map(part).sum()
    }

    proptest! {
        #[test]
        fn means_are_those_of_the_plain_list(
            // Gaps from a sixteenth of a second to weeks: no product or sum of them is rounded.
            happenings in proptest::collection::vec((0_u32..26, 0_u32..3, 1_usize..8, any::<bool>()), 1..120),
            start in 0_u32..1_000_000,
        ) {
            let hosts = hosts(3);
            let mut recorder = Recorder::new(&hosts);
            let start_s = f64::from(start) / 16.0;
            let mut now_s = start_s;
            let mut running: Vec<(u32, usize)> = Vec::new();
            let (mut held, mut rows) = (vec![], vec![vec![]; 3]);
            let mut waiting: Vec<(f64, f64)> = vec![];
            let mut jobs = 0;
            for (gap, host, gpus, begin) in happenings {
                if begin {
                    running.push((host, gpus));
                    recorder.takes(now_s, &on(host, gpus));
                } else if let Some((host, gpus)) = running.pop() {
                    recorder.gives(now_s, &on(host, gpus));
                    jobs += 1;
                    recorder.waits(now_s, 1, 4000);
                } else {
                    recorder.waits(now_s, 0, 0);
                }
                let sum = |of: Option<u32>| running.iter().filter(|(h, _)| of.is_none_or(|of| of == *h)).map(|(_, g)| *g as f64).sum::<f64>();
                held.push((now_s, sum(None)));
                (0..3).for_each(|row| rows[row as usize].push((now_s, sum(Some(row)))));
                waiting.push((now_s, f64::from(jobs)));
                now_s += f64::from(1_u32 << gap) / 16.0 - 1.0 / 16.0;
            }
            let end_s = held.last().unwrap().0;
            let series = recorder.finish();
            prop_assert_eq!((series.start_s, series.span_s), (start_s, end_s - start_s));
            prop_assert!(series.held.len() <= BINS);
            prop_assert!(series.bin_s == FIRST_BIN_S || series.held.len() > BINS / 2);
            for bin in 0..series.held.len() {
                let from_s = start_s + bin as f64 * series.bin_s;
                let to_s = end_s.min(from_s + series.bin_s);
                let mean = |steps: &[(f64, f64)]| integral(steps, from_s, to_s) / (to_s - from_s);
                prop_assert_eq!(series.held[bin], mean(&held));
                prop_assert_eq!(series.waiting[bin], mean(&waiting));
                prop_assert_eq!(series.waited_for[bin], 4.0 * mean(&waiting));
                for (row, steps) in rows.iter().enumerate() {
                    prop_assert_eq!(series.hosts[row][bin], mean(steps) / 8.0);
                }
            }
        }
    }

    #[test]
    fn many_hosts_share_rows_and_counts_have_none() {
        let hosts = hosts(401);
        let mut recorder = Recorder::new(&hosts);
        recorder.takes(5.0, &on(0, 4));
        recorder.takes(5.0, &on(400, 5));
        recorder.takes(5.0, &Grant::Share { host: HostId(400), gpu: 6, milli: 250 });
        recorder.takes(5.0, &Grant::Share { host: HostId(400), gpu: 6, milli: 750 });
        recorder.waits(7.0, 1, 1000);
        let series = recorder.clone().finish();
        assert_eq!(series.hosts.len(), MAX_HOST_ROWS);
        // The first row has three hosts (0, 1 and 2 of 401), the last one two.
        assert_eq!((series.hosts[0][0], series.hosts[199][0]), (4.0 / 24.0, 6.0 / 16.0));
        assert_eq!(series.held.iter().sum::<f64>(), 10.0 * series.held.len() as f64);
        recorder.takes(7.0, &Grant::Count(3));
        assert!(recorder.finish().hosts.is_empty());
        assert_eq!(Recorder::new(&hosts).finish().held, Vec::<f64>::new());
    }
}
