//! Waiting jobs in order of arrival, with a fast search for the next short one.

use std::collections::VecDeque;

use crate::ids::JobId;

/// A block is split when it grows beyond this.
const BLOCK: usize = 64;

#[derive(Debug)]
struct Block {
    /// Jobs with their work left, sorted by id, never empty.
    jobs: Vec<(JobId, f64)>,
    /// The least work left of them.
    least_s: f64,
}

impl Block {
    fn new(jobs: Vec<(JobId, f64)>) -> Self {
        let least_s = jobs.iter().map(|(_, left_s)| *left_s).fold(f64::INFINITY, f64::min);
        Self { jobs, least_s }
    }

    fn last(&self) -> Option<JobId> {
        self.jobs.last().map(|(job, _)| *job)
    }
}

/// Jobs in blocks that know their shortest job.
#[derive(Debug, Default)]
pub(super) struct Line {
    blocks: VecDeque<Block>,
}

impl Line {
    pub(super) fn is_empty(&self) -> bool {
        self.blocks.is_empty()
    }

    /// The block that a job is in or belongs into.
    fn block_of(&self, job: JobId) -> usize {
        self.blocks.partition_point(|block| block.last().is_some_and(|last| last < job))
    }

    pub(super) fn insert(&mut self, job: JobId, left_s: f64) {
        let at = self.block_of(job).min(self.blocks.len().saturating_sub(1));
        let Some(block) = self.blocks.get_mut(at) else {
            self.blocks.push_back(Block::new(vec![(job, left_s)]));
            return;
        };
        let place = block.jobs.partition_point(|(other, _)| *other < job);
        block.jobs.insert(place, (job, left_s));
        block.least_s = block.least_s.min(left_s);
        if block.jobs.len() > BLOCK {
            let upper = block.jobs.split_off(BLOCK / 2);
            *block = Block::new(std::mem::take(&mut block.jobs));
            self.blocks.insert(at + 1, Block::new(upper));
        }
    }

    pub(super) fn remove(&mut self, job: JobId) {
        let at = self.block_of(job);
        let Some(block) = self.blocks.get_mut(at) else { return };
        block.jobs.retain(|(other, _)| *other != job);
        if block.jobs.is_empty() {
            self.blocks.remove(at);
        } else {
            *block = Block::new(std::mem::take(&mut block.jobs));
        }
    }

    /// The first job from `from` on with at most so much work left.
    pub(super) fn first_within(&self, from: JobId, most_s: f64) -> Option<JobId> {
        let blocks = self.blocks.iter().skip(self.block_of(from));
        let mut short = blocks.filter(|block| block.least_s <= most_s);
        short.find_map(|block| {
            let found = block.jobs.iter().find(|(job, left_s)| *job >= from && *left_s <= most_s);
            found.map(|(job, _)| *job)
        })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn finds_what_a_scan_finds(steps in proptest::collection::vec((0..300_u32, 0..50_u32, any::<bool>()), 0..600)) {
            let (mut line, mut expected) = (Line::default(), BTreeMap::new());
            for (id, left, insert) in steps {
                let (job, left_s) = (JobId(id), f64::from(left));
                if insert && !expected.contains_key(&job) {
                    line.insert(job, left_s);
                    expected.insert(job, left_s);
                } else if !insert {
                    line.remove(job);
                    expected.remove(&job);
                }
                let first = expected.range(job..).find(|(_, l)| **l <= left_s).map(|(job, _)| *job);
                prop_assert_eq!(line.first_within(job, left_s), first);
                prop_assert_eq!(line.is_empty(), expected.is_empty());
            }
        }
    }
}
