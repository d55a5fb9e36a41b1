//! Sets of GPUs inside one host.

use std::fmt;

/// The most GPUs that one host may have.
pub const MAX_GPUS_PER_HOST: usize = 64;

/// A set of local GPU indexes of one host, bit `i` for GPU `i` (0..=63).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct GpuMask(pub u64);

/// Why a GPU list such as `0-3,5` was not understood.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum GpuMaskError {
    /// A part is neither a number nor a range.
    #[error("'{0}' is neither a GPU index nor a range such as 0-3")]
    NotAnIndex(String),
    /// An index is above 63.
    #[error("GPU index {0} is above {max}", max = MAX_GPUS_PER_HOST - 1)]
    TooLarge(u64),
    /// A range runs backwards.
    #[error("range '{0}' runs backwards")]
    Backwards(String),
    /// The same index stands twice.
    #[error("GPU index {0} stands twice")]
    Twice(u64),
    /// Nothing was given.
    #[error("no GPU index given")]
    Empty,
}

impl GpuMask {
    /// No GPU.
    pub const EMPTY: Self = Self(0);

    /// GPUs `0..n`; `n` above 64 counts as 64.
    #[must_use]
    pub const fn first(n: usize) -> Self {
        if n >= MAX_GPUS_PER_HOST { Self(u64::MAX) } else { Self((1 << n) - 1) }
    }

    /// The single GPU `index` (below 64).
    #[must_use]
    pub const fn single(index: usize) -> Self {
        Self(1 << index)
    }

    /// Number of GPUs in the set.
    #[must_use]
    pub const fn count(self) -> usize {
        self.0.count_ones() as usize
    }

    /// True if the set has no GPU.
    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// True if GPU `index` is in the set.
    #[must_use]
    pub const fn contains(self, index: usize) -> bool {
        index < MAX_GPUS_PER_HOST && self.0 >> index & 1 == 1
    }

    /// GPUs in either set.
    #[must_use]
    pub const fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// GPUs in both sets.
    #[must_use]
    pub const fn intersection(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    /// GPUs of this set that are not in `other`.
    #[must_use]
    pub const fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    /// True if every GPU of this set is in `other`.
    #[must_use]
    pub const fn is_subset_of(self, other: Self) -> bool {
        self.0 & !other.0 == 0
    }

    /// The indexes, ascending.
    pub fn iter(self) -> impl Iterator<Item = usize> {
        let mut rest = self.0;
        std::iter::from_fn(move || {
            (rest != 0).then(|| {
                let index = rest.trailing_zeros() as usize;
                rest &= rest - 1;
                index
            })
        })
    }

    /// The set of the lowest `n` GPUs of this set; all of them if there are fewer.
    #[must_use]
    pub fn lowest(self, n: usize) -> Self {
        self.iter().take(n).fold(Self::EMPTY, |mask, i| mask.union(Self::single(i)))
    }

    /// Number of subsets with exactly `n` GPUs.
    pub fn subset_count(self, n: usize) -> u64 {
        let (all, n) = (self.count() as u128, n as u128);
        let Some(rest) = all.checked_sub(n) else { return 0 };
        // At most 64 over 32, which 64 bits hold; what is in between needs a few more.
        (0..n.min(rest)).fold(1_u128, |value, i| value * (all - i) / (i + 1)) as u64
    }

    /// Every subset with exactly `n` GPUs, in ascending order of the bit pattern.
    pub fn subsets(self, n: usize) -> impl Iterator<Item = Self> {
        let bits: Vec<usize> = self.iter().collect();
        let mut chosen: Option<Vec<usize>> = (n <= bits.len()).then(|| (0..n).collect());
        std::iter::from_fn(move || {
            let current = chosen.take()?;
            let mask = current.iter().fold(Self::EMPTY, |m, &p| m.union(Self::single(bits[p])));
            chosen = next_combination(current, bits.len());
            Some(mask)
        })
    }

    /// Reads `0-3,5`. Blanks around parts are allowed.
    ///
    /// # Errors
    /// What is wrong with the first part that is wrong.
    pub fn parse(text: &str) -> Result<Self, GpuMaskError> {
        let mut mask = Self::EMPTY;
        if text.trim().is_empty() {
            return Err(GpuMaskError::Empty);
        }
        for part in text.split(',').map(str::trim) {
            let (low, high) = match part.split_once('-') {
                Some((a, b)) => (index(part, a)?, index(part, b)?),
                None => (index(part, part)?, index(part, part)?),
            };
            if low > high {
                return Err(GpuMaskError::Backwards(part.to_owned()));
            }
            for i in low..=high {
                if mask.contains(i as usize) {
                    return Err(GpuMaskError::Twice(i));
                }
                mask = mask.union(Self::single(i as usize));
            }
        }
        Ok(mask)
    }
}

/// The next combination of positions in colexicographic order, or `None` after the last.
fn next_combination(mut positions: Vec<usize>, len: usize) -> Option<Vec<usize>> {
    let n = positions.len();
    let movable = (0..n).find(|&i| {
        let limit = if i + 1 < n { positions[i + 1] } else { len };
        positions[i] + 1 < limit
    })?;
    positions[movable] += 1;
    for (i, position) in positions.iter_mut().enumerate().take(movable) {
        *position = i;
    }
    Some(positions)
}

fn index(part: &str, text: &str) -> Result<u64, GpuMaskError> {
    let text = text.trim();
    if text.is_empty() || !text.bytes().all(|b| b.is_ascii_digit()) {
        return Err(GpuMaskError::NotAnIndex(part.to_owned()));
    }
    let value: u64 = text.parse().unwrap_or(u64::MAX);
    if value >= MAX_GPUS_PER_HOST as u64 {
        return Err(GpuMaskError::TooLarge(value));
    }
    Ok(value)
}

impl fmt::Display for GpuMask {
    /// Writes ranges, `0-3,5`; nothing for the empty set.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let indexes: Vec<usize> = self.iter().collect();
        let mut at = 0;
        while at < indexes.len() {
            let mut end = at;
            while end + 1 < indexes.len() && indexes[end + 1] == indexes[end] + 1 {
                end += 1;
            }
            if at > 0 {
                f.write_str(",")?;
            }
            if end == at {
                write!(f, "{}", indexes[at])?;
            } else {
                write!(f, "{}-{}", indexes[at], indexes[end])?;
            }
            at = end + 1;
        }
        Ok(())
    }
}

impl fmt::Debug for GpuMask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "GpuMask({self})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn subsets_are_as_many_as_counted() {
        for gpus in 0..10 {
            for n in 0..12 {
                let mask = GpuMask::first(gpus);
                assert_eq!(mask.subset_count(n), mask.subsets(n).count() as u64, "{gpus} {n}");
            }
        }
        assert_eq!(GpuMask::first(64).subset_count(32), 1_832_624_140_942_590_534);
    }

    #[test]
    fn parses_and_prints_ranges() {
        for text in ["0", "0-3", "0-3,5", "0,2,4,6", "63", "0-63"] {
            assert_eq!(GpuMask::parse(text).unwrap().to_string(), text);
        }
        assert_eq!(GpuMask::parse(" 3 , 1-2 ").unwrap().to_string(), "1-3");
    }

    #[test]
    fn refuses_what_is_not_a_list() {
        use GpuMaskError as E;
        let cases = [
            ("", E::Empty),
            ("64", E::TooLarge(64)),
            ("99999999999999999999999", E::TooLarge(u64::MAX)),
            ("3-1", E::Backwards("3-1".into())),
            ("1,1", E::Twice(1)),
            ("a", E::NotAnIndex("a".into())),
            ("1-", E::NotAnIndex("1-".into())),
            ("-1", E::NotAnIndex("-1".into())),
            ("1,", E::NotAnIndex(String::new())),
        ];
        for (text, error) in cases {
            assert_eq!(GpuMask::parse(text), Err(error), "{text}");
        }
    }

    #[test]
    fn subsets_are_complete_and_distinct() {
        let mask = GpuMask(0b1011_0110);
        for n in 0..=6 {
            let all: Vec<GpuMask> = mask.subsets(n).collect();
            let expected = (0..256).map(GpuMask).filter(|s| s.is_subset_of(mask) && s.count() == n);
            assert_eq!(all, expected.collect::<Vec<_>>(), "{n}");
        }
        assert_eq!(GpuMask::first(64).subsets(64).count(), 1);
    }
}
