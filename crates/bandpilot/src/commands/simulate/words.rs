//! What figures alone do not say: which policy is best, and what may not be compared.

use bandpilot_report::duration;
use bandpilot_sim::bootstrap::Interval;

use super::figures::AVG_JCT;
use super::judge::Judged;
use super::text::Simulated;
use crate::output::counted;

/// Most names of a list.
const MAX_NAMES: usize = 4;

/// Names in a list that stays short.
pub fn names<T: ToString>(all: impl IntoIterator<Item = T>) -> String {
    let all: Vec<String> = all.into_iter().map(|name| name.to_string()).collect();
    match all.len().checked_sub(MAX_NAMES) {
        Some(more @ 1..) => format!("{} and {more} more", all[..MAX_NAMES].join(", ")),
        _ => all.join(", "),
    }
}

/// What is to be known before policies are compared.
pub fn cautions(result: &Simulated) -> Vec<String> {
    let rows = &result.policies;
    let mut said = Vec::new();
    let mut short: Vec<(usize, usize)> =
        rows.iter().map(|row| row.ran).filter(|(own, any)| own != any).collect();
    short.sort_unstable();
    short.dedup();
    for (own, any) in short {
        let these = names(rows.iter().filter(|row| row.ran == (own, any)).map(|row| row.policy));
        let what = if own < any {
            format!("{own} of {any} jobs that others ran, so it is never the best")
        } else {
            format!("{own} jobs where others ran {any} at most")
        };
        said.push(format!(
            "{these}: ran {what}; its means are not of the same jobs as those of others, differences are"
        ));
    }
    let bounds: Vec<_> = rows.iter().filter(|row| row.policy.placement.bound).collect();
    if !bounds.is_empty() {
        said.push(format!(
            "{}: no placement that a cluster could have, as GPUs are only counted; shows what fragmentation costs the others, and is never the best",
            names(bounds.iter().map(|row| row.policy))
        ));
    }
    said
}

fn mean(row: &Judged) -> String {
    let within = row.interval(AVG_JCT).map_or(String::new(), |Interval { low, high }| {
        format!(" (95 % interval {} to {})", duration(low), duration(high))
    });
    format!("{}{within}", row.avg_jct_s().map_or("-".to_owned(), duration))
}

/// The result in a few sentences.
pub fn lead(result: &Simulated) -> String {
    let (rows, verdict) = (&result.policies, &result.verdict);
    let name = |at: &usize| rows[*at].policy;
    let Some(lowest) = verdict.lowest else {
        return if rows.iter().all(|row| row.ran.1 == 0) {
            "No job fits on this cluster, so there is nothing to compare.".to_owned()
        } else if rows.iter().all(|row| row.policy.placement.bound) {
            "No policy here is one that a cluster could have, so none is the best.".to_owned()
        } else {
            "No policy that a cluster could have ran all jobs that others ran, so none is the best."
                .to_owned()
        };
    };
    let best = &rows[lowest];
    if verdict.candidates == 1 {
        let only =
            if rows.len() > 1 { " It is the only policy here that can be the best." } else { "" };
        return format!("With {} jobs take {} on average.{only}", best.policy, mean(best));
    }
    if let Some(winner) = verdict.winner() {
        let text =
            format!("Jobs are done soonest with {}: {} on average.", name(&winner), mean(best));
        return text + &less_than_first(result, best);
    }
    let mut text = String::new();
    if !verdict.undecided.is_empty() {
        text = format!(
            "This trace does not decide which policy is best. The lowest mean JCT is that of {}, {}, but that may be chance against {}: the interval of the difference reaches 0, or there are too few jobs for one.",
            best.policy,
            mean(best),
            names(verdict.undecided.iter().map(name))
        );
    }
    if !verdict.equal.is_empty() {
        let others = names(verdict.equal.iter().map(name));
        let all = verdict.equal.len() + 1 == verdict.candidates;
        text = match (text.is_empty(), all) {
            (true, true) => format!(
                "No policy is better than another: every job takes the same time with {} and {others}, {} on average.",
                best.policy,
                mean(best)
            ),
            (true, false) => format!(
                "Jobs are done soonest with {} and, job by job equal to it, {others}: {} on average.",
                best.policy,
                mean(best)
            ),
            (false, _) => {
                format!("{text} Every job takes the same time with {} and {others}.", best.policy)
            }
        };
    }
    text
}

/// How much sooner the best one is than the first policy.
fn less_than_first(result: &Simulated, best: &Judged) -> String {
    let (Some(first), Some(difference)) = (result.policies.first(), best.less_first) else {
        return String::new();
    };
    if difference.less_s >= 0.0 || difference.than_s <= 0.0 {
        return String::new();
    }
    let less = 100.0 * -difference.less_s / difference.than_s;
    let chance = difference.interval.is_none_or(|interval| interval.high >= 0.0);
    let sure = if chance { ", which may be chance" } else { "" };
    let over = if first.ran.0 < first.ran.1 {
        format!(" over the {} that both ran", counted(difference.jobs, "job"))
    } else {
        String::new()
    };
    format!(" That is {less:.1}\u{a0}% less than with {}{over}{sure}.", first.policy)
}
