//! Waiting jobs by shape.

use std::collections::BTreeSet;

use crate::ids::{JobId, ShapeId};
use crate::jobs::Jobs;

/// One sorted set for each shape: where a shape does not fit, all its jobs are passed over at once.
#[derive(Debug, Default)]
pub(super) struct Queue {
    by_shape: Vec<BTreeSet<(u64, JobId)>>,
    len: usize,
}

impl Queue {
    pub(super) fn insert(&mut self, key: u64, job: JobId, jobs: &Jobs) {
        let shape = jobs.shape_of(job).index();
        if self.by_shape.len() <= shape {
            self.by_shape.resize_with(shape + 1, BTreeSet::new);
        }
        self.len += usize::from(self.by_shape[shape].insert((key, job)));
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// The first job of all.
    pub(super) fn first(&self) -> Option<JobId> {
        self.by_shape.iter().filter_map(BTreeSet::first).min().map(|(_, job)| *job)
    }

    /// The shapes that somebody waits for.
    pub(super) fn shapes(&self) -> impl Iterator<Item = ShapeId> {
        let waiting = self.by_shape.iter().enumerate().filter(|(_, jobs)| !jobs.is_empty());
        waiting.map(|(at, _)| ShapeId(at as u32))
    }

    /// The first job of some shapes, with its key and the position of its shape among them.
    pub(super) fn first_of(&self, shapes: &[ShapeId]) -> Option<(u64, JobId, usize)> {
        let first = |(at, shape): (usize, &ShapeId)| {
            self.by_shape.get(shape.index())?.first().map(|(key, job)| (*key, *job, at))
        };
        shapes.iter().enumerate().filter_map(first).min()
    }

    /// Takes the first job of a shape out.
    pub(super) fn pop(&mut self, shape: ShapeId) {
        let set = self.by_shape.get_mut(shape.index());
        self.len -= usize::from(set.is_some_and(|set| set.pop_first().is_some()));
    }
}
