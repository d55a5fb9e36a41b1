//! How fragmented hosts are over a run: figures worked out by hand, and those of a plain list of what ran.

use bandpilot_fragmentation::{Census, least_hosts, least_partial};
use bandpilot_readers::trace_file;
use bandpilot_sim::series::Recorder;
use bandpilot_sim::{
    FaultRates, Grant, HostTotals, Metrics, Options, Policy, Setting, Standing, Watcher, Workload,
    simulate, simulate_watched,
};
use proptest::prelude::*;

use crate::{hosts, play, trace};

/// Figures of the hosts of a run.
fn figures(gpus: &[usize], rows: &str, policy: &str) -> (Metrics, HostTotals) {
    let hosts = hosts(gpus);
    let read = trace_file::read(&format!("submit_s,duration_s,{rows}"));
    assert_eq!(read.value.bad_rows, 0, "{:?}", read.diagnostics);
    let workload = Workload::new(&read.value, &hosts);
    let run = play(&hosts, &workload, policy, 1).unwrap();
    (Metrics::new(&workload, &run), run.totals.hosts.unwrap_or_default())
}

#[test]
fn two_half_hosts_block_a_whole_one() {
    let rows = "gpus\n0,10,8\n0,10,8\n10,90,5\n10,90,5\n20,30,8\n";
    let (metrics, totals) = figures(&[8, 8], rows, "fifo/best-fit");
    // Two 5s can share no host: nothing is avoidable, and WCC fails from 10 to 100.
    assert_eq!((metrics.afr, metrics.n_sif_max, metrics.enl_mean), (Some(0.0), Some(0), Some(0.0)));
    assert_eq!((totals.all_s, totals.no_wcc_s, metrics.queued_s), (130.0, 90.0, 80.0));
    assert_eq!(metrics.wcc_share, Some(1.0 - 90.0 / 130.0));
    // Fours can: both partial hosts are avoidable, and one whole host is lost.
    let rows = "gpus\n0,10,8\n0,10,4\n0,50,4\n10,90,4\n20,30,8\n";
    let (metrics, totals) = figures(&[8, 8], rows, "fifo/first-fit");
    // 10..50 {4} and {4}: first-fit takes the first host of both, which the 8 has left.
    assert_eq!((metrics.n_sif_mean, metrics.afr), (Some(2.0), Some(1.0)));
    assert_eq!((metrics.n_sif_max, metrics.enl_mean), (Some(2), Some(1.0)));
    assert_eq!((metrics.queued_s, metrics.head_blocked_s, totals.no_wcc_s), (30.0, 30.0, 0.0));
    assert_eq!((metrics.wcc_share, metrics.bound_share), (Some(1.0), Some(0.0)));
    assert_eq!(metrics.busy_while_queued, Some(0.5));
}

#[test]
fn shares_count_as_a_gpu_and_counts_have_no_hosts() {
    let rows = "gpus,gpu_milli\n0,100,4,\n0,100,4,\n0,60,1,500\n0,60,1,500\n0,100,8,\n";
    // Two hosts: {4, 4} and one GPU shared by two; the 8 waits until 60.
    let (metrics, _) = figures(&[8, 8], rows, "fifo/best-fit");
    assert_eq!((metrics.queued_s, metrics.n_sif_mean), (60.0, Some(0.0)), "9 GPUs");
    assert_eq!((metrics.enl_mean, metrics.wcc_share), (Some(0.0), Some(1.0)));
    let (metrics, _) = figures(&[8, 8], rows, "fifo/counting");
    assert_eq!((metrics.afr, metrics.n_sif_mean, metrics.n_sif_max), (None, None, None));
    assert_eq!((metrics.enl_mean, metrics.wcc_share, metrics.bound_share), (None, None, None));
}

#[test]
fn the_series_are_those_of_the_figures() {
    let hosts = hosts(&[8, 8]);
    let jobs = [(0, 16, 8), (0, 16, 4), (0, 64, 4), (16, 64, 4), (32, 64, 8)];
    let workload = Workload::new(&trace(&jobs), &hosts);
    let options = Options::default();
    let setting = Setting::new(&hosts, &workload, &options, 1);
    let mut recorder = Recorder::new(&hosts);
    let policy = Policy::parse("fifo/first-fit").unwrap();
    simulate_watched(&setting, policy, &mut recorder).unwrap();
    let series = recorder.finish();
    let area = |means: &[f64]| means.iter().sum::<f64>() * series.bin_s;
    assert_eq!(series.span_s, 128.0);
    // {8}{4,4} until 16, then {4}{4} until 64, the 8 beside {4} until 80, then alone.
    assert_eq!(area(&series.partial), 2.0 * 48.0 + 16.0);
    assert_eq!(area(&series.full), 2.0 * 16.0 + 64.0);
    assert_eq!(area(&series.avoidable), 2.0 * 48.0);
}

/// Adds up how hosts stand from what is given and taken, without the account of the world.
#[derive(Default)]
struct Naive {
    /// Held GPUs of each host, and sizes of what is there.
    held: Vec<Vec<usize>>,
    cells: usize,
    wrong: Vec<String>,
}

impl Naive {
    fn change(&mut self, grant: &Grant, takes: bool) {
        // All instances here are whole hosts or one of what is left, so that each host's part is one.
        let Grant::Gpus(placement) = grant else { return };
        for (host, mask) in placement.shares() {
            let held = &mut self.held[host.index()];
            if takes {
                held.push(mask.count());
            } else {
                let at = held.iter().position(|gpus| *gpus == mask.count()).unwrap();
                held.swap_remove(at);
            }
        }
    }
}

impl Watcher for Naive {
    fn takes(&mut self, _now_s: f64, grant: &Grant) {
        self.change(grant, true);
    }

    fn gives(&mut self, _now_s: f64, grant: &Grant) {
        self.change(grant, false);
    }

    fn stands(&mut self, _now_s: f64, standing: &Standing) {
        let used: Vec<usize> = self.held.iter().map(|held| held.iter().sum()).collect();
        let full = used.iter().filter(|gpus| **gpus == self.cells).count();
        let partial = used.iter().filter(|gpus| **gpus > 0).count() - full;
        let census = Census::of(self.cells, self.held.iter().flatten().copied());
        let avoidable = partial - least_partial(&census).partial;
        if (standing.partial, standing.full, standing.avoidable) != (partial, full, avoidable) {
            self.wrong.push(format!("{standing:?} {:?}", self.held));
        }
        let lost = full + partial - least_hosts(&census).hosts;
        if (standing.lost, standing.is_wide) != (lost, census.is_wide()) {
            self.wrong.push(format!("{standing:?} {:?}", self.held));
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn the_account_is_that_of_a_plain_list(
        jobs in proptest::collection::vec((0_u32..400, 1_u32..300, 1_u32..20), 1..60),
        policy in prop::sample::select(vec!["srtf/best-fit", "easy/packed", "srtf/random", "fifo-skip/fgd", "easy/repack", "fifo/drain", "fifo/compact"]),
        fails in any::<bool>(),
    ) {
        let hosts = hosts(&[8; 4]);
        let mut jobs = jobs;
        jobs.sort_unstable_by_key(|job| job.0);
        let workload = Workload::new(&trace(&jobs), &hosts);
        let mut options = Options::default();
        if fails {
            options.faults = FaultRates { host_mtbf_s: 900.0, host_mttr_s: 60.0, ..FaultRates::default() };
        }
        let setting = Setting::new(&hosts, &workload, &options, 1);
        let mut naive = Naive { held: vec![Vec::new(); 4], cells: 8, wrong: Vec::new() };
        let run = simulate_watched(&setting, Policy::parse(policy).unwrap(), &mut naive).unwrap();
        prop_assert_eq!(naive.wrong, Vec::<String>::new());
        let totals = run.totals.hosts.unwrap();
        let first_s = f64::from(jobs[0].0);
        let last_s = run.jobs().filter_map(|job| job.finish_s).fold(first_s, f64::max);
        prop_assert!((totals.all_s - (last_s - first_s)).abs() < 1e-6);
        prop_assert!(totals.sif_queued_s <= run.totals.queued_s);
        prop_assert_eq!(run, simulate(&setting, Policy::parse(policy).unwrap()).unwrap());
    }
}
