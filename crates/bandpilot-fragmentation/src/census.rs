//! How many instances of each size run.

/// How many instances of each size run on hosts of one size.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct Census {
    /// `counts[g]` instances of `g` GPUs; `counts[0]` is 0. As long as the size of a host plus 1.
    counts: Vec<u32>,
}

impl Census {
    /// Counts instances of these sizes, each at most `host_gpus`; others are left out.
    pub fn of(host_gpus: usize, sizes: impl IntoIterator<Item = usize>) -> Self {
        let mut census = Self { counts: vec![0; host_gpus + 1] };
        sizes.into_iter().for_each(|gpus| census.add(gpus));
        census
    }

    /// One more instance of this size.
    pub fn add(&mut self, gpus: usize) {
        if let Some(count) = self.counts.get_mut(gpus).filter(|_| gpus > 0) {
            *count += 1;
        }
    }

    /// One instance of this size less.
    pub fn remove(&mut self, gpus: usize) {
        if let Some(count) = self.counts.get_mut(gpus) {
            *count = count.saturating_sub(1);
        }
    }

    /// GPUs of a host.
    pub fn host_gpus(&self) -> usize {
        self.counts.len().saturating_sub(1)
    }

    /// Instances of a size.
    pub fn count(&self, gpus: usize) -> usize {
        self.counts.get(gpus).map_or(0, |count| *count as usize)
    }

    /// GPUs of all instances (T).
    pub fn gpus(&self) -> usize {
        self.counts.iter().enumerate().map(|(gpus, count)| gpus * *count as usize).sum()
    }

    /// Instances of one GPU less those that the others could take beside them in slots of a power of two: `n1 - n3 - 3 n5 - 2 n6 - n7`
    /// on hosts of eight. At 0 or above the condition WCC holds, and everything packs with at most one partial host.
    ///
    /// ```
    /// use bandpilot_fragmentation::Census;
    ///
    /// assert_eq!(Census::of(8, [1, 1, 1, 5]).slack(), 0);
    /// assert_eq!(Census::of(8, [4, 5, 5]).slack(), -6);
    /// ```
    pub fn slack(&self) -> i64 {
        let sizes = self.counts.iter().zip(0_i64..).skip(1);
        let beside = sizes.map(|(count, gpus)| {
            (gpus.cast_unsigned().next_power_of_two().cast_signed() - gpus) * i64::from(*count)
        });
        self.count(1).cast_signed() as i64 - beside.sum::<i64>()
    }

    /// The condition WCC holds: hosts are a power of two and [`slack`](Self::slack) is not negative. Then everything packs without
    /// gaps into slots of powers of two, and these into hosts.
    pub fn is_wide(&self) -> bool {
        self.host_gpus().is_power_of_two() && self.slack() >= 0
    }
}
