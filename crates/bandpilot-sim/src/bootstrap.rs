//! How far off a figure may be: intervals by resampling jobs and seeds.
//!
//! Jobs that queue together are delayed together, so they must not be drawn one by one. What is drawn are blocks of jobs in order
//! of submission: the moving-block bootstrap (Künsch, "The jackknife and the bootstrap for general stationary
//! observations", Annals of Statistics 17, 1989), with blocks that go on at the first job when they run over the last one, so that
//! every job is drawn equally often and resamples centre on the figure (Politis and Romano, "A circular
//! block-resampling procedure for stationary data", 1992).
//!
//! Blocks have `ceil(sqrt(n))` jobs. Künsch finds n^(1/3) best for the variance under weak dependence; queues remember for
//! longer than that, and blocks that are too short make intervals too narrow.
//!
//! An interval runs from the 2.5th to the 97.5th percentile of the resamples. It says how much the figure would differ
//! over other jobs of the same kind, queued as here; that other jobs would also have queued otherwise, it does not see.

use rand::RngExt;
use rand_pcg::Pcg64;
use rand_pcg::rand_core::SeedableRng;

/// Resamples that intervals are made of.
pub const RESAMPLES: usize = 1000;

/// Counting through the jobs once for each resample of a median is worth so many steps; where that is fewer than
/// [`RESAMPLES`] resamples, there are fewer, but not below [`LEAST_RESAMPLES`].
const MEDIAN_STEPS: usize = 200_000_000;
/// Percentiles at 2.5 % still have five resamples beyond them.
const LEAST_RESAMPLES: usize = 200;

/// 95 % of the resamples lie in it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Interval {
    /// Lower end.
    pub low: f64,
    /// Upper end.
    pub high: f64,
}

impl Interval {
    /// From the figure of each resample.
    fn of(mut figures: Vec<f64>) -> Option<Self> {
        figures.retain(|figure| !figure.is_nan());
        figures.sort_unstable_by(f64::total_cmp);
        let out = figures.len() / 40;
        Some(Self {
            low: *figures.get(out)?,
            high: *figures.get((figures.len() - 1).checked_sub(out)?)?,
        })
    }
}

/// What is drawn for one resample.
#[derive(Debug)]
struct Draw {
    /// First jobs of the blocks; the last block is cut short.
    starts: Vec<u32>,
    /// How often each seed was drawn.
    seeds: Vec<u32>,
}

/// The draws that all figures of a comparison share: differences are then between policies, not between draws.
#[derive(Debug)]
pub struct Bootstrap {
    jobs: usize,
    block: usize,
    draws: Vec<Draw>,
}

/// A figure that is a mean over jobs, ready to be resampled: one value a job and seed, in order of submission, NaN for a job
/// that does not count.
#[derive(Debug, Clone)]
pub struct Means {
    /// For each seed the sum and number of the values before each job.
    before: Vec<Vec<(f64, u32)>>,
}

impl Means {
    /// From the values of each seed.
    pub fn new<'a>(seeds: impl IntoIterator<Item = &'a [f64]>) -> Self {
        let before = |values: &[f64]| {
            let mut total = (0.0, 0);
            let next = |value: &f64| {
                total = if value.is_nan() { total } else { (total.0 + value, total.1 + 1) };
                total
            };
            let mut before = vec![(0.0, 0)];
            before.extend(values.iter().map(next));
            before
        };
        Self { before: seeds.into_iter().map(before).collect() }
    }
}

impl Bootstrap {
    /// Draws for so many jobs and seeds.
    pub fn new(jobs: usize, seeds: usize, resamples: usize, seed: u64) -> Self {
        let mut rng = Pcg64::seed_from_u64(seed);
        let block = ((jobs as f64).sqrt().ceil() as usize).max(1);
        let draws = (0..resamples).map(|_| {
            let starts = (0..jobs.div_ceil(block)).map(|_| rng.random_range(0..jobs as u32));
            let starts = starts.collect();
            let mut drawn = vec![0; seeds];
            for _ in 0..seeds {
                drawn[rng.random_range(0..seeds)] += 1;
            }
            Draw { starts, seeds: drawn }
        });
        Self { jobs, block, draws: draws.collect() }
    }

    /// The blocks of a draw as stretches of jobs.
    fn blocks<'a>(&'a self, draw: &'a Draw) -> impl Iterator<Item = (usize, usize)> + 'a {
        let cut = |(at, start): (usize, &u32)| {
            let start = *start as usize;
            let end = start + self.block.min(self.jobs - at * self.block);
            let over = end.saturating_sub(self.jobs);
            [(start, end - over), (0, over)]
        };
        draw.starts.iter().enumerate().flat_map(cut).filter(|(from, to)| from < to)
    }

    /// Mean over the seeds that were drawn of a figure of one seed. A policy without randomness has one run for all seeds.
    fn over_seeds(draw: &Draw, runs: usize, mut figure: impl FnMut(usize) -> f64) -> f64 {
        if runs == 1 {
            return figure(0);
        }
        let drawn = draw.seeds.iter().take(runs).enumerate().filter(|(_, times)| **times > 0);
        let (sum, all) = drawn.fold((0.0, 0.0), |(sum, all), (run, times)| {
            let times = f64::from(*times);
            (sum + times * figure(run), all + times)
        });
        sum / all
    }

    fn mean(&self, draw: &Draw, means: &Means) -> f64 {
        Self::over_seeds(draw, means.before.len(), |run| {
            let before = &means.before[run];
            let (sum, count) = self.blocks(draw).fold((0.0, 0), |(sum, count), (from, to)| {
                (sum + before[to].0 - before[from].0, count + before[to].1 - before[from].1)
            });
            sum / f64::from(count)
        })
    }

    /// Interval of a mean over jobs and seeds; `None` if no job counts.
    pub fn mean_interval(&self, means: &Means) -> Option<Interval> {
        Interval::of(self.draws.iter().map(|draw| self.mean(draw, means)).collect())
    }

    /// Interval of the difference `a - b` of two means: both over the same blocks and seeds in each resample.
    pub fn difference_interval(&self, a: &Means, b: &Means) -> Option<Interval> {
        let difference = |draw| self.mean(draw, a) - self.mean(draw, b);
        Interval::of(self.draws.iter().map(difference).collect())
    }

    /// Interval of the median over jobs, averaged over seeds; values as for [`Means::new`]. With very many jobs it rests on
    /// fewer resamples.
    pub fn median_interval<'a>(
        &self,
        seeds: impl IntoIterator<Item = &'a [f64]>,
    ) -> Option<Interval> {
        let sorted: Vec<Sorted> = seeds.into_iter().map(Sorted::new).collect();
        let mut times: Vec<u32> = Vec::new();
        let steps = self.jobs.max(1) * sorted.len().max(1);
        let most = (MEDIAN_STEPS / steps).max(LEAST_RESAMPLES);
        let figures = self.draws.iter().take(most).map(|draw| {
            self.times_drawn(draw, &mut times);
            Self::over_seeds(draw, sorted.len(), |run| sorted[run].median(&times))
        });
        Interval::of(figures.collect())
    }

    /// How often each job was drawn.
    fn times_drawn(&self, draw: &Draw, times: &mut Vec<u32>) {
        times.clear();
        times.resize(self.jobs + 1, 0);
        for (from, to) in self.blocks(draw) {
            times[from] = times[from].wrapping_add(1);
            times[to] = times[to].wrapping_sub(1);
        }
        let mut sum = 0_u32;
        for entry in times.iter_mut() {
            sum = sum.wrapping_add(*entry);
            *entry = sum;
        }
    }
}

/// The values of one seed in order of size, with the jobs that they are of: the median of a resample is then found by counting.
#[derive(Debug)]
struct Sorted {
    values: Vec<(f64, u32)>,
}

impl Sorted {
    fn new(values: &[f64]) -> Self {
        let mut values: Vec<(f64, u32)> = values.iter().copied().zip(0..).collect();
        values.retain(|(value, _)| !value.is_nan());
        values.sort_unstable_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
        Self { values }
    }

    /// The middle value, or the mean of the middle two, each value as often as its job was drawn.
    fn median(&self, times: &[u32]) -> f64 {
        let times = |job: u32| u64::from(times[job as usize]);
        let all: u64 = self.values.iter().map(|(_, job)| times(*job)).sum();
        let (mut seen, mut lower) = (0, f64::NAN);
        for (value, job) in &self.values {
            seen += times(*job);
            if lower.is_nan() && 2 * seen >= all && seen > 0 {
                lower = *value;
            }
            if 2 * seen > all {
                return f64::midpoint(lower, *value);
            }
        }
        f64::NAN
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// All values of a resample, one by one.
    fn drawn(bootstrap: &Bootstrap, draw: &Draw, values: &[f64]) -> Vec<f64> {
        let at =
            |block: usize, within: usize| (draw.starts[block] as usize + within) % values.len();
        let positions = (0..values.len()).map(|i| at(i / bootstrap.block, i % bootstrap.block));
        positions.map(|at| values[at]).filter(|value| !value.is_nan()).collect()
    }

    fn plain_median(mut values: Vec<f64>) -> f64 {
        values.sort_unstable_by(f64::total_cmp);
        f64::midpoint(values[(values.len() - 1) / 2], values[values.len() / 2])
    }

    proptest! {
        #[test]
        fn resamples_are_those_of_the_plain_list(
            values in proptest::collection::vec(prop_oneof![4 => (0_u32..50).prop_map(f64::from), 1 => Just(f64::NAN)], 1..90),
            seed in any::<u64>(),
        ) {
            let bootstrap = Bootstrap::new(values.len(), 1, 20, seed);
            let means = Means::new([&values[..]]);
            let sorted = Sorted::new(&values);
            let mut times = Vec::new();
            for draw in &bootstrap.draws {
                let plain = drawn(&bootstrap, draw, &values);
                bootstrap.times_drawn(draw, &mut times);
                let (mean, median) = (bootstrap.mean(draw, &means), sorted.median(&times));
                if plain.is_empty() {
                    prop_assert!(mean.is_nan() && median.is_nan());
                    continue;
                }
                // Sums of whole numbers are exact.
                prop_assert_eq!(mean, plain.iter().sum::<f64>() / plain.len() as f64);
                prop_assert_eq!(median, plain_median(plain));
            }
        }

        #[test]
        fn a_constant_is_certain(value in -1e6..1e6_f64, jobs in 1_usize..200, seeds in 1_usize..4) {
            let values = vec![value; jobs];
            let runs = || std::iter::repeat_n(&values[..], seeds);
            let bootstrap = Bootstrap::new(jobs, seeds, 100, 1);
            let means = Means::new(runs());
            // What is left is the rounding of sums.
            let off = 1e-9 * value.abs().max(1.0);
            for interval in [bootstrap.mean_interval(&means), bootstrap.median_interval(runs())] {
                let interval = interval.unwrap();
                prop_assert!((interval.low - value).abs() <= off && (interval.high - value).abs() <= off);
            }
            let difference = bootstrap.difference_interval(&means, &means);
            prop_assert_eq!(difference, Some(Interval { low: 0.0, high: 0.0 }));
        }
    }

    #[test]
    fn intervals_cover_the_truth_of_independent_jobs() {
        let mut rng = Pcg64::seed_from_u64(5);
        let (mut mean, mut median) = (0, 0);
        for round in 0..200 {
            // Skewed, as times are: exponential with mean 1 and median ln 2.
            let values: Vec<f64> = (0..400).map(|_| -(1.0 - rng.random::<f64>()).ln()).collect();
            let bootstrap = Bootstrap::new(values.len(), 1, 400, round);
            let covers = |interval: Option<Interval>, truth: f64| {
                interval.is_some_and(|interval| (interval.low..=interval.high).contains(&truth))
            };
            let means = Means::new([&values[..]]);
            mean += usize::from(covers(bootstrap.mean_interval(&means), 1.0));
            let medians = bootstrap.median_interval([&values[..]]);
            median += usize::from(covers(medians, std::f64::consts::LN_2));
        }
        assert!(mean >= 180 && median >= 180, "{mean} {median}");
        assert!(mean < 200 && median < 200, "they are not merely wide: {mean} {median}");
    }

    #[test]
    fn seeds_that_differ_widen_the_interval_and_pairs_narrow_it() {
        let jobs: Vec<f64> = (0..300_u32).map(|job| f64::from(job * 7919 % 1000)).collect();
        let slower = |by: f64| jobs.iter().map(|value| value + by).collect::<Vec<f64>>();
        let seeds = [slower(0.0), slower(500.0), slower(1000.0)];
        let bootstrap = Bootstrap::new(300, 3, RESAMPLES, 1);
        let width = |interval: Interval| interval.high - interval.low;
        let all = Means::new(seeds.iter().map(Vec::as_slice));
        let one = Means::new([&jobs[..]]);
        let (wide, narrow) =
            (bootstrap.mean_interval(&all).unwrap(), bootstrap.mean_interval(&one).unwrap());
        assert!(width(wide) > 3.0 * width(narrow), "{wide:?} {narrow:?}");
        let later = Means::new([&seeds[1][..]]);
        let difference = bootstrap.difference_interval(&later, &one).unwrap();
        assert!((difference.low - 500.0).abs() < 1e-6 && width(difference) < 1e-6);
        assert_eq!(
            bootstrap.mean_interval(&all),
            Bootstrap::new(300, 3, RESAMPLES, 1).mean_interval(&all)
        );
        assert_ne!(
            bootstrap.mean_interval(&all),
            Bootstrap::new(300, 3, RESAMPLES, 2).mean_interval(&all)
        );
    }

    #[test]
    fn without_jobs_there_is_none() {
        let nothing = Bootstrap::new(0, 1, 10, 1);
        assert_eq!(nothing.mean_interval(&Means::new([&[][..]])), None);
        assert_eq!(nothing.median_interval([&[][..]]), None);
        let refused = Bootstrap::new(2, 1, 10, 1);
        assert_eq!(refused.mean_interval(&Means::new([&[f64::NAN; 2][..]])), None);
    }
}
