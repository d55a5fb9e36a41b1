//! Collectives and their bus-bandwidth convention.

use std::fmt;
use std::str::FromStr;

/// A collective operation as nccl-tests names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Collective {
    /// Sum over all ranks, result on all ranks.
    AllReduce,
    /// Concatenation of all ranks' parts on all ranks.
    AllGather,
    /// Sum over all ranks, one part on each rank.
    ReduceScatter,
    /// Every rank sends a part to every rank.
    AllToAll,
    /// One rank's array on all ranks.
    Broadcast,
    /// Sum over all ranks on one rank.
    Reduce,
    /// Every rank sends to its successor.
    SendRecv,
}

/// The name of a collective was not understood.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "'{0}' is not a collective; known are all_reduce, all_gather, reduce_scatter, alltoall, broadcast, reduce, sendrecv"
)]
pub struct UnknownCollective(pub String);

impl Collective {
    /// All of them, in the order of the documentation.
    pub const ALL: [Self; 7] = [
        Self::AllReduce,
        Self::AllGather,
        Self::ReduceScatter,
        Self::AllToAll,
        Self::Broadcast,
        Self::Reduce,
        Self::SendRecv,
    ];

    /// The name that nccl-tests uses.
    pub const fn name(self) -> &'static str {
        match self {
            Self::AllReduce => "all_reduce",
            Self::AllGather => "all_gather",
            Self::ReduceScatter => "reduce_scatter",
            Self::AllToAll => "alltoall",
            Self::Broadcast => "broadcast",
            Self::Reduce => "reduce",
            Self::SendRecv => "sendrecv",
        }
    }

    /// busbw / algbw for `ranks` ranks; 0 for fewer than two ranks where the factor is (n-1)/n.
    ///
    /// Source: nccl-tests, doc/PERFORMANCE.md.
    pub fn busbw_factor(self, ranks: usize) -> f64 {
        let n = ranks.max(1) as f64;
        match self {
            Self::AllReduce => 2.0 * (n - 1.0) / n,
            Self::AllGather | Self::ReduceScatter | Self::AllToAll => (n - 1.0) / n,
            Self::Broadcast | Self::Reduce | Self::SendRecv => 1.0,
        }
    }
}

impl fmt::Display for Collective {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Collective {
    type Err = UnknownCollective;

    /// Accepts `all_reduce`, `AllReduce`, `all-reduce`, `all_reduce_perf`, in any case.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let bare: String = text
            .chars()
            .filter(char::is_ascii_alphanumeric)
            .map(|c| c.to_ascii_lowercase())
            .collect();
        let bare = bare.strip_suffix("perf").unwrap_or(&bare);
        Self::ALL
            .into_iter()
            .find(|op| op.name().replace('_', "") == bare)
            .ok_or_else(|| UnknownCollective(text.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_round_trip() {
        for op in Collective::ALL {
            assert_eq!(op.name().parse(), Ok(op));
            assert_eq!(format!("{}_perf", op.name()).parse(), Ok(op));
        }
        assert_eq!("AllReduce".parse(), Ok(Collective::AllReduce));
        assert!("all".parse::<Collective>().is_err());
    }

    #[test]
    fn factors() {
        assert_eq!(Collective::AllReduce.busbw_factor(8), 1.75);
        assert_eq!(Collective::AllGather.busbw_factor(8), 0.875);
        assert_eq!(Collective::Broadcast.busbw_factor(8), 1.0);
        assert_eq!(Collective::AllReduce.busbw_factor(1), 0.0);
    }
}
