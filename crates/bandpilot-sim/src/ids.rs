//! Typed indexes.

/// A job. Ids are dense and in order of arrival, so the smaller id is the earlier job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct JobId(pub u32);

/// What a job asks for, kept once for all jobs that ask for the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ShapeId(pub u32);

impl JobId {
    /// As an index into slices that hold one entry a job.
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

impl ShapeId {
    /// As an index into slices that hold one entry a shape.
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// Seconds (never negative) as a key whose order is the order of the numbers.
pub(crate) fn key(seconds: f64) -> u64 {
    // The bits of floats that are not negative sort like the floats; -0 would not.
    seconds.max(0.0).to_bits() & (u64::MAX >> 1)
}

/// Any number as a key whose order is the order of the numbers.
pub(crate) fn signed_key(number: f64) -> u64 {
    // Bits of negative numbers sort backwards, and before the others. Adding 0 makes 0 of -0.
    let bits = (number + 0.0).to_bits();
    if bits >> 63 == 0 { bits | 1 << 63 } else { !bits }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_sort_like_numbers() {
        let numbers =
            [f64::NEG_INFINITY, -2.0, -1.5, -1e-300, 0.0, 1e-300, 1.0, 3.0, f64::INFINITY];
        let keys: Vec<u64> = numbers.iter().map(|number| signed_key(*number)).collect();
        assert!(keys.is_sorted_by(|a, b| a < b));
        assert_eq!(signed_key(-0.0), signed_key(0.0));
        assert_eq!(key(-0.0), key(0.0));
    }
}
