//! Which ranks are where, in as few lines as can be.

use bandpilot_dispatch::ParallelAnswer;

use crate::commands::parts;

/// Successive ranks on one host whose groups are all stages of a range for all replicas of a range.
#[derive(Debug, PartialEq, Eq)]
pub struct Row {
    /// Such as `0-7`.
    pub ranks: String,
    /// Host name.
    pub host: String,
    /// Its GPUs in the order of the ranks.
    pub gpus: String,
    /// The nearest NICs.
    pub nics: String,
    /// Pipeline stages.
    pub stages: String,
    /// Data-parallel replicas.
    pub replicas: String,
}

/// Host, first and last rank and place in the groups of successive ranks.
struct Run<'a> {
    host: &'a str,
    gpus: Vec<usize>,
    /// Stage and replica of each tensor group.
    groups: Vec<(usize, usize)>,
}

/// The rows in the order of the ranks.
pub fn rank_map(answer: &ParallelAnswer) -> Vec<Row> {
    let mut rows = Vec::new();
    let mut rank = 0;
    for run in runs(answer) {
        let per_group = run.gpus.len() / run.groups.len().max(1);
        let mut groups = run.groups.as_slice();
        let mut gpus = run.gpus.as_slice();
        while let Some(box_of) = longest_box(groups) {
            let (now, later) = gpus.split_at((box_of * per_group).min(gpus.len()));
            let (stages, replicas): (Vec<usize>, Vec<usize>) =
                groups[..box_of].iter().copied().unzip();
            rows.push(Row {
                ranks: range(rank, rank + now.len().max(1) - 1),
                host: run.host.to_owned(),
                gpus: in_order(now),
                nics: parts::nic_names(answer.launch.ranks.iter().skip(rank).take(now.len()))
                    .unwrap_or_else(|| "-".to_owned()),
                stages: span(&stages),
                replicas: span(&replicas),
            });
            rank += now.len();
            (groups, gpus) = (&groups[box_of..], later);
        }
    }
    rows
}

fn runs(answer: &ParallelAnswer) -> Vec<Run<'_>> {
    let mut runs: Vec<Run<'_>> = Vec::new();
    for (rank, at) in answer.launch.ranks.iter().zip(&answer.coordinates) {
        if runs.last().is_none_or(|last| last.host != rank.host) {
            runs.push(Run { host: &rank.host, gpus: Vec::new(), groups: Vec::new() });
        }
        let Some(run) = runs.last_mut() else { continue };
        run.gpus.push(rank.gpu);
        if at.tensor == 0 {
            run.groups.push((at.pipeline, at.data));
        }
    }
    runs
}

/// How many groups from the first on are all stages of a range for all replicas of a range; `None` without groups.
fn longest_box(groups: &[(usize, usize)]) -> Option<usize> {
    let ((stage, replica), rest) = groups.split_first()?;
    let (mut stages, mut replicas) = ((*stage, *stage), (*replica, *replica));
    let mut longest = 1;
    for (at, (stage, replica)) in rest.iter().enumerate() {
        stages = (stages.0.min(*stage), stages.1.max(*stage));
        replicas = (replicas.0.min(*replica), replicas.1.max(*replica));
        // Groups differ, so as many as fit into the ranges are all of them.
        if at + 2 == (stages.1 - stages.0 + 1) * (replicas.1 - replicas.0 + 1) {
            longest = at + 2;
        }
    }
    Some(longest)
}

fn range(low: usize, high: usize) -> String {
    if low == high { low.to_string() } else { format!("{low}-{high}") }
}

fn span(numbers: &[usize]) -> String {
    let low = numbers.iter().min().copied().unwrap_or(0);
    range(low, numbers.iter().max().copied().unwrap_or(low))
}

/// Numbers in their order, those that follow each other as ranges: `0-1,4-5,2-3`.
fn in_order(numbers: &[usize]) -> String {
    let runs = numbers.chunk_by(|a, b| a + 1 == *b);
    runs.map(span).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn boxes_of_stages_and_replicas() {
        assert_eq!(longest_box(&[]), None);
        assert_eq!(longest_box(&[(0, 3)]), Some(1));
        assert_eq!(longest_box(&[(0, 0), (1, 0), (0, 1), (1, 1)]), Some(4));
        // The last replica of a stage and the first of the next one.
        assert_eq!(longest_box(&[(0, 2), (0, 3), (1, 0)]), Some(2));
        assert_eq!(longest_box(&[(0, 1), (1, 0)]), Some(1));
    }

    #[test]
    fn gpus_stay_in_the_order_of_the_ranks() {
        assert_eq!(in_order(&[0, 1, 4, 5, 2, 3, 7]), "0-1,4-5,2-3,7");
        assert_eq!(in_order(&[3]), "3");
    }
}
