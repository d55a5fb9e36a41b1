//! The least number of partial hosts that what runs can be packed into (Phi*).

use crate::Census;

/// How sure a least number is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Proof {
    /// It is the least number.
    Exact,
    /// No packing has less than this; whether one has so few is not known.
    Bound,
}

/// The least number of partial hosts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Least {
    /// Partial hosts of the best packing, or a number below which there is none.
    pub partial: usize,
    /// Which of the two.
    pub proof: Proof,
}

/// The least number of partial hosts over all packings of these instances into hosts of [`Census::host_gpus`] GPUs, as many as it
/// takes (Phi*).
///
/// If the condition WCC holds ([`Census::slack`]), in constant time: at most one host is partial.
///
/// ```
/// use bandpilot_fragmentation::{Census, Proof, least_partial};
///
/// let least = least_partial(&Census::of(8, [4, 5, 5]));
/// assert_eq!((least.partial, least.proof), (1, Proof::Bound));
/// assert_eq!(least_partial(&Census::of(8, [4, 4])).partial, 0);
/// ```
pub fn least_partial(census: &Census) -> Least {
    let uneven = usize::from(!census.gpus().is_multiple_of(census.host_gpus().max(1)));
    if census.host_gpus().is_power_of_two() && census.slack() >= 0 {
        return Least { partial: uneven, proof: Proof::Exact };
    }
    Least { partial: uneven.max(large_left_alone(census)), proof: Proof::Bound }
}

/// Instances of more than half a host that the small ones cannot all complete. No two of them share a host; each small GPU
/// completes at most one, and those that lack least come first.
fn large_left_alone(census: &Census) -> usize {
    let host = census.host_gpus();
    let mut small: usize = (1..=host / 2).map(|gpus| gpus * census.count(gpus)).sum();
    let mut alone = 0;
    for gpus in (host / 2 + 1..host).rev() {
        let completed = census.count(gpus).min(small / (host - gpus));
        small -= completed * (host - gpus);
        alone += census.count(gpus) - completed;
    }
    alone
}
