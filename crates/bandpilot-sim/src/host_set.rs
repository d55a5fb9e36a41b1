//! A set of hosts with a fast lowest member.

use bandpilot_core::HostId;

/// Bits in words, and above them one bit for each word that has any.
#[derive(Debug, Clone)]
pub(crate) struct HostSet {
    words: Vec<u64>,
    tops: Vec<u64>,
    len: usize,
}

impl HostSet {
    pub(crate) fn new(hosts: usize) -> Self {
        let words = hosts.div_ceil(64);
        Self { words: vec![0; words], tops: vec![0; words.div_ceil(64)], len: 0 }
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    pub(crate) fn insert(&mut self, host: HostId) {
        let at = host.index();
        let bit = 1 << (at % 64);
        self.len += usize::from(self.words[at / 64] & bit == 0);
        self.words[at / 64] |= bit;
        self.tops[at / 4096] |= 1 << (at / 64 % 64);
    }

    pub(crate) fn remove(&mut self, host: HostId) {
        let at = host.index();
        let bit = 1 << (at % 64);
        self.len -= usize::from(self.words[at / 64] & bit != 0);
        self.words[at / 64] &= !bit;
        if self.words[at / 64] == 0 {
            self.tops[at / 4096] &= !(1 << (at / 64 % 64));
        }
    }

    /// The lowest host.
    pub(crate) fn first(&self) -> Option<HostId> {
        let top = self.tops.iter().position(|top| *top != 0)?;
        let word = top * 64 + self.tops[top].trailing_zeros() as usize;
        Some(HostId((word * 64) as u32 + self.words[word].trailing_zeros()))
    }

    /// All hosts, the lowest first.
    pub(crate) fn iter(&self) -> impl Iterator<Item = HostId> {
        let words = self.words.iter().enumerate().filter(|(_, word)| **word != 0);
        words.flat_map(|(at, word)| {
            let without_lowest = |rest: &u64| Some(rest & rest.wrapping_sub(1));
            let rests = std::iter::successors(Some(*word), without_lowest);
            let bits = rests.take_while(|rest| *rest != 0).map(u64::trailing_zeros);
            bits.map(move |bit| HostId((at * 64) as u32 + bit))
        })
    }

    /// The host with `n` lower ones in the set.
    pub(crate) fn nth(&self, mut n: usize) -> Option<HostId> {
        for (at, word) in self.words.iter().enumerate() {
            let here = word.count_ones() as usize;
            if n < here {
                let rest = (0..n).fold(*word, |word, _| word & (word - 1));
                return Some(HostId((at * 64) as u32 + rest.trailing_zeros()));
            }
            n -= here;
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn is_a_set(steps in proptest::collection::vec((0..9000_u32, any::<bool>()), 0..200)) {
            let (mut set, mut expected) = (HostSet::new(9000), BTreeSet::new());
            for (host, insert) in steps {
                if insert {
                    set.insert(HostId(host));
                    expected.insert(HostId(host));
                } else {
                    set.remove(HostId(host));
                    expected.remove(&HostId(host));
                }
                prop_assert_eq!(set.first(), expected.first().copied());
                prop_assert_eq!(set.len(), expected.len());
            }
            for (n, host) in expected.iter().enumerate() {
                prop_assert_eq!(set.nth(n), Some(*host));
            }
            prop_assert_eq!(set.nth(expected.len()), None);
            prop_assert!(set.iter().eq(expected.iter().copied()));
        }
    }
}
