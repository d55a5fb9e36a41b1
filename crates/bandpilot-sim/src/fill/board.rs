//! Scores of all nodes for a shape, kept up to date: a placement changes one node, so only that one is scored anew.

use super::cluster::Node;
use super::pods::PodShape;
use super::policies::NodePolicy;

/// Scores for one shape.
#[derive(Debug, Clone)]
struct Column {
    scores: Vec<Option<i32>>,
    /// How much of the list of changes it has seen.
    seen: usize,
}

/// Scores for all shapes that were asked for so far.
#[derive(Debug)]
pub(super) struct Board {
    columns: Vec<Option<Column>>,
    /// Nodes in the order in which they changed.
    changes: Vec<u32>,
}

impl Board {
    pub(super) fn new(shapes: usize) -> Self {
        Self { columns: vec![None; shapes], changes: Vec::new() }
    }

    pub(super) fn changed(&mut self, node: usize) {
        self.changes.push(node as u32);
    }

    /// The scores of all nodes now.
    pub(super) fn scores(
        &mut self,
        at: usize,
        pod: &PodShape,
        nodes: &[Node],
        policy: &dyn NodePolicy,
    ) -> &[Option<i32>] {
        let rate = |node: &Node| node.fits(pod).then(|| policy.score(node, pod));
        let column = self.columns[at].get_or_insert_with(|| Column {
            scores: nodes.iter().map(rate).collect(),
            seen: self.changes.len(),
        });
        let new = &self.changes[column.seen..];
        column.seen = self.changes.len();
        // Further changes than nodes: it is cheaper to score each of them once.
        if new.len() > nodes.len() {
            column.scores = nodes.iter().map(rate).collect();
        } else {
            for node in new {
                column.scores[*node as usize] = rate(&nodes[*node as usize]);
            }
        }
        &column.scores
    }
}
