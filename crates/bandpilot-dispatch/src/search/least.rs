//! Of the sets that are worth enough, the one that leaves the least fragmentation.

use bandpilot_core::{Placement, Request};

use super::cells::{Cell, Ground};
use super::leaving::{Key, Leaving, Outlook};
use super::state::Incumbents;
use super::walk::Walk;
use super::{Found, NotFound, SearchOptions, aligned, inside_hosts};
use crate::classes::{self, HostClass, Member};
use crate::fragmentation::{Fill, Fragmentation, HostFill};
use crate::scene::Scene;
use crate::scope::Scope;

/// What the search found.
#[derive(Debug, Clone, PartialEq)]
pub struct Least {
    /// Of the sets that leave as little as was found, the best.
    pub found: Found,
    /// What it leaves.
    pub left: Fragmentation,
    /// No set that is worth enough leaves less.
    pub proven: bool,
    /// No set that is worth enough leaves fewer avoidable partial hosts; `None` if hosts with very many unlike GPUs kept some
    /// subsets from being looked at.
    pub avoidable_bound: Option<usize>,
    /// Steps taken.
    pub steps: u64,
}

/// Finds the set that leaves the least ([`Fragmentation`]) of those whose objective is at least `floor`; among equals the one that
/// [`search`](super::search) would choose. `known` is a set that is worth enough, if there is one. First what is left is made
/// least, then with what remains of the steps the set is made better; only the first is certified.
///
/// # Errors
/// If no set was found.
pub fn least_fragmentation(
    scene: &Scene<'_>,
    scope: &Scope,
    request: &Request,
    fill: &Fill,
    floor: f64,
    known: Option<&Placement>,
    options: &SearchOptions<'_>,
) -> Result<Least, NotFound> {
    let usable = usable_pools(scope, fill);
    let leaving = Leaving::new(fill, request.gpus, scope.unit, &usable);
    let options = &SearchOptions { runner_up: false, ..*options };
    let mut found = Incumbents::new(scene, options).within(&leaving, floor);
    if let Some(known) = known {
        found.offer(known.clone());
    }
    let mut end = End { exhaustive: true, bound: None, beaten_left_out: false, steps: 0 };
    let mut host_counts = scope.host_counts(request);
    if host_counts.first() == Some(&1) {
        end.exhaustive &= inside_hosts(scene, scope, request.gpus, &mut found);
        host_counts.remove(0);
    }
    if !host_counts.is_empty() {
        let (classes, kinds) = refined(classes::classify(scene, scope), fill);
        end.exhaustive &= classes.iter().all(|class| class.exhaustive);
        end.beaten_left_out = classes.iter().any(|class| class.beaten_left_out);
        let ground = Ground::new(scene, &classes, request, options);
        across_hosts(&ground, &kinds, &host_counts, &leaving, &mut found, &mut end);
    }
    let (left, refused) = found.left();
    // Where a set was not allowed, one that it beats may be.
    let unseen =
        if end.beaten_left_out { refused.into_iter().chain(end.bound).min() } else { end.bound };
    let Some((best, _)) = found.into_sets() else {
        return Err(NotFound { proven: end.exhaustive && unseen.is_none() });
    };
    let found = aligned(scene, scope, best);
    let left_over = fill.after(&found.placement, scope.unit);
    let bound = unseen.map_or(left_over.avoidable, |unseen| {
        left_over.avoidable.min(usize::try_from(unseen.avoidable).unwrap_or(0))
    });
    Ok(Least {
        proven: end.exhaustive
            && unseen.is_none_or(|unseen| left.is_some_and(|left| left <= unseen)),
        avoidable_bound: end.exhaustive.then_some(bound),
        left: left_over,
        found,
        steps: end.steps,
    })
}

fn usable_pools(scope: &Scope, fill: &Fill) -> Vec<bool> {
    let mut usable = vec![false; fill.pools()];
    for (host, _) in fill.hosts().filter(|(host, _)| scope.most(*host) >= scope.unit) {
        usable[fill.host(host).pool] = true;
    }
    usable
}

/// How the search across hosts ended.
struct End {
    exhaustive: bool,
    /// Nothing unseen leaves less than this.
    bound: Option<Key>,
    beaten_left_out: bool,
    steps: u64,
}

/// A cell with the outlook of its sets, by place in a list.
struct Prospect {
    cell: Cell,
    least: Key,
    outlook: usize,
}

fn across_hosts(
    ground: &Ground<'_, '_>,
    kinds: &[HostFill],
    host_counts: &[usize],
    leaving: &Leaving<'_>,
    found: &mut Incumbents<'_, '_>,
    end: &mut End,
) {
    let mut cells = ground.cells(host_counts, found);
    cells.retain(|cell| !found.rules_out(cell.objective, cell.hosts));
    let outlooks = outlooks(ground, leaving, kinds, &cells);
    end.steps = outlooks.iter().map(|(_, outlook)| outlook.steps()).sum();
    let gpus = ground.gpus;
    let prospect = |cell: Cell| {
        let outlook = outlooks.iter().position(|(least, _)| *least == cell.least)?;
        let least = outlooks[outlook].1.at_least(std::iter::empty(), 0, cell.hosts, gpus)?;
        Some(Prospect { cell, least, outlook })
    };
    let mut prospects: Vec<Prospect> = cells.into_iter().filter_map(prospect).collect();
    // Stable: among equals the cell with the best bound first.
    prospects.sort_by_key(|prospect| prospect.least);
    let mut walk = |prospect: &Prospect, found: &mut Incumbents<'_, '_>| {
        let outlook = &outlooks[prospect.outlook].1;
        let mut walk = Walk::new(ground, &prospect.cell, found, end.steps).looking_at(outlook);
        walk.run();
        end.steps = walk.steps;
        walk.stopped
    };
    for prospect in &prospects {
        if found.leaves_too_much(prospect.least) {
            break;
        }
        if walk(prospect, found) {
            end.bound = Some(prospect.least);
            return;
        }
    }
    found.refine();
    prospects.sort_by(|a, b| b.cell.objective.total_cmp(&a.cell.objective));
    for prospect in &prospects {
        let Prospect { cell, least, .. } = prospect;
        let idle = found.leaves_too_much(*least) || found.rules_out(cell.objective, cell.hosts);
        if !idle && walk(prospect, found) {
            return;
        }
    }
}

/// What sets leave, for each smallest share of the cells.
fn outlooks<'l>(
    ground: &Ground<'_, '_>,
    leaving: &'l Leaving<'l>,
    kinds: &'l [HostFill],
    cells: &[Cell],
) -> Vec<(usize, Outlook<'l>)> {
    let mut smallest: Vec<usize> = cells.iter().map(|cell| cell.least).collect();
    smallest.sort_unstable();
    smallest.dedup();
    let outlook = |&least: &usize| {
        let of_least = || cells.iter().filter(|cell| cell.least == least);
        let most_hosts = of_least().map(|cell| cell.hosts).max().unwrap_or(0);
        // The slots of the cell with the least injection bandwidth are those of all of them.
        let widest = of_least().min_by(|a, b| a.injection.total_cmp(&b.injection));
        let slots = widest.map(|cell| ground.slots(cell)).unwrap_or_default();
        let size = (ground.gpus, most_hosts, smallest.len());
        (least, Outlook::new(leaving, ground.classes, kinds, &slots, size))
    };
    smallest.iter().map(outlook).collect()
}

/// Classes whose hosts are also equally full, with how full they are.
fn refined(classes: Vec<HostClass>, fill: &Fill) -> (Vec<HostClass>, Vec<HostFill>) {
    let mut refined = Vec::new();
    let mut kinds = Vec::new();
    for class in classes {
        let mut parts: Vec<((HostFill, usize), Vec<Member>)> = Vec::new();
        for member in &class.hosts {
            let key = (fill.host(member.host), member.most);
            match parts.iter_mut().find(|(known, _)| *known == key) {
                Some((_, members)) => members.push(*member),
                None => parts.push((key, vec![*member])),
            }
        }
        // What fills hosts comes first.
        parts.sort_by_key(|((kind, most), _)| (!kind.used, kind.free, *most));
        for ((kind, most), hosts) in parts {
            let groups = class.groups.iter().filter(|group| group.count <= most).cloned().collect();
            kinds.push(kind);
            refined.push(HostClass {
                available: vec![hosts.len(); most + 1],
                hosts,
                groups,
                jobs: class.jobs.clone(),
                job_shares: class.job_shares.clone(),
                ..class
            });
        }
    }
    (refined, kinds)
}
