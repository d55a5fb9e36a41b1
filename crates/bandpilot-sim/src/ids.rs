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
