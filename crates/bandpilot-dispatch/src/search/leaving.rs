//! What sets leave of the cluster, and bounds of it.

use bandpilot_core::Placement;

use crate::classes::HostClass;
use crate::fragmentation::{Fill, HostFill};
use crate::search::cells::Slot;

/// Updates of a table that are worth their while before a search; one takes about a nanosecond.
const MOST_UPDATES: usize = 4_000_000;
/// So many updates take as long as a step of the search.
const UPDATES_PER_STEP: usize = 32;
/// No set; so far from all others that changes added to it change nothing.
const NONE: i64 = i64::MAX / 2;

/// What a set leaves; less is better.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Key {
    /// Avoidable partial hosts.
    pub(super) avoidable: i64,
    /// Partial hosts, then hosts in use, in one number that can be added up.
    filled: i64,
}

/// A change of the numbers of partial hosts and of hosts in use, in one number.
const fn change(partial: i64, in_use: i64) -> i64 {
    (partial << 32) + in_use
}

const fn signed(number: usize) -> i64 {
    number.cast_signed() as i64
}

/// Partial hosts of such a sum. Hosts in use are never less than none.
const fn partial_of(filled: i64) -> i64 {
    filled >> 32
}

/// What `count` GPUs more on such a host change.
fn taking(host: &HostFill, count: usize) -> i64 {
    let before = i64::from(host.used && host.free > 0);
    change(i64::from(count < host.free) - before, i64::from(!host.used))
}

/// Partial hosts that no packing avoids.
enum Unavoidable {
    /// Wherever the job goes: it can use only one pool.
    Fixed(i64),
    /// By pool and number of the job's instances there.
    ByPool(Vec<InPool>),
}

struct InPool {
    least: Vec<i64>,
    /// The greatest for at least so many instances.
    most_from: Vec<i64>,
}

/// What is left of the cluster when sets are placed whose instances have `unit` GPUs.
pub(super) struct Leaving<'s> {
    fill: &'s Fill,
    unit: usize,
    filled: i64,
    unavoidable: Unavoidable,
}

impl<'s> Leaving<'s> {
    /// For `gpus` GPUs on hosts of the pools that `usable` says.
    pub(super) fn new(fill: &'s Fill, gpus: usize, unit: usize, usable: &[bool]) -> Self {
        let (partial, in_use) = fill.filled();
        let instances = gpus / unit;
        let least = |pool, count| signed(fill.least_partial(pool, unit, count).partial);
        let pools = 0..fill.pools();
        let unavoidable = if usable.iter().filter(|usable| **usable).count() <= 1 {
            let of_pool = |pool: usize| least(pool, if usable[pool] { instances } else { 0 });
            Unavoidable::Fixed(pools.map(of_pool).sum())
        } else {
            let of_pool = |pool: usize| {
                let most = if usable[pool] { instances } else { 0 };
                let least: Vec<i64> = (0..=most).map(|count| least(pool, count)).collect();
                let mut most_from = least.clone();
                for count in (0..most).rev() {
                    most_from[count] = most_from[count].max(most_from[count + 1]);
                }
                InPool { least, most_from }
            };
            Unavoidable::ByPool(pools.map(of_pool).collect())
        };
        let filled = change(signed(partial), signed(in_use));
        Self { fill, unit, filled, unavoidable }
    }

    /// What a set leaves.
    pub(super) fn after(&self, set: &Placement) -> Key {
        let shares = set.shares().iter();
        let taken = shares.map(|(host, mask)| (self.fill.host(*host), mask.count(), 1));
        self.key(&taken, 0, 0)
    }

    /// What so many GPUs on so many such hosts leave at least, if further hosts change `more` and take `left` GPUs.
    fn key(
        &self,
        taken: &(impl Iterator<Item = (HostFill, usize, usize)> + Clone),
        more: i64,
        left: usize,
    ) -> Key {
        let changes =
            taken.clone().map(|(host, count, times)| signed(times) * taking(&host, count));
        let filled = self.filled + more + changes.sum::<i64>();
        let unavoidable = match &self.unavoidable {
            Unavoidable::Fixed(least) => *least,
            Unavoidable::ByPool(pools) => {
                let of_pool = |(at, pool): (usize, &InPool)| {
                    let here = taken.clone().filter(|(host, ..)| host.pool == at);
                    let gpus: usize = here.map(|(_, count, times)| count * times).sum();
                    let values = if left == 0 { &pool.least } else { &pool.most_from };
                    values.get(gpus / self.unit).copied().unwrap_or(0)
                };
                pools.iter().enumerate().map(of_pool).sum()
            }
        };
        Key { avoidable: partial_of(filled) - unavoidable, filled }
    }
}

/// What sets leave at least, class by class.
pub(super) struct Outlook<'s> {
    leaving: &'s Leaving<'s>,
    kinds: &'s [HostFill],
    table: Table,
}

/// `changes[at(class, hosts, gpus)]`: least change by so many hosts of this class and later ones that take so many GPUs.
struct Table {
    unit: usize,
    /// Instances of the job and one.
    columns: usize,
    /// Hosts at most and one; 0 where any number of hosts will do.
    rows: usize,
    /// Empty where it would be too much work.
    changes: Vec<i64>,
    /// Work that it took.
    updates: usize,
}

impl<'s> Outlook<'s> {
    /// For sets of `gpus` GPUs on at most `most_hosts` hosts, each of which takes one of these slots (sorted by class); `kinds` has
    /// how full the hosts of each class are. So many `tables` are made in all.
    pub(super) fn new(
        leaving: &'s Leaving<'s>,
        classes: &[HostClass],
        kinds: &'s [HostFill],
        slots: &[Slot<'_>],
        (gpus, most_hosts, tables): (usize, usize, usize),
    ) -> Self {
        let unit = leaving.unit;
        let columns = gpus / unit + 1;
        let copies = |slot: &Slot<'_>| classes[slot.class].hosts.len().min(most_hosts);
        let updates: usize = slots.iter().map(|slot| copies(slot) * columns).sum();
        let most = MOST_UPDATES / tables.max(1);
        let by_hosts = updates.saturating_mul(most_hosts);
        let rows = if by_hosts <= most { most_hosts + 1 } else { 0 };
        let updates = if rows > 0 { by_hosts } else { updates };
        let mut table = Table { unit, columns, rows, changes: Vec::new(), updates: 0 };
        if updates <= most {
            table.updates = updates;
            table.fill(classes, kinds, slots, most_hosts);
        }
        Self { leaving, kinds, table }
    }

    /// Work of making it, in steps of the search.
    pub(super) fn steps(&self) -> u64 {
        (self.table.updates / UPDATES_PER_STEP) as u64
    }

    /// What sets leave at least that take so many GPUs on so many hosts of these classes (class, GPUs, hosts) and go on with
    /// `hosts` hosts of the classes from `next` on that take `gpus` GPUs; `None` if no set does.
    pub(super) fn at_least(
        &self,
        chosen: impl Iterator<Item = (usize, usize, usize)> + Clone,
        next: usize,
        hosts: usize,
        gpus: usize,
    ) -> Option<Key> {
        let more = self.table.get(next, hosts, gpus)?;
        let taken = chosen.map(|(class, count, times)| (self.kinds[class], count, times));
        Some(self.leaving.key(&taken, more, gpus))
    }
}

impl Table {
    fn layer(&self) -> usize {
        self.rows.max(1) * self.columns
    }

    fn fill(
        &mut self,
        classes: &[HostClass],
        kinds: &[HostFill],
        slots: &[Slot<'_>],
        most_hosts: usize,
    ) {
        let layer = self.layer();
        self.changes = vec![NONE; layer * (classes.len() + 1)];
        self.changes[layer * classes.len()] = 0;
        for class in (0..classes.len()).rev() {
            let (here, later) = self.changes[layer * class..].split_at_mut(layer);
            here.copy_from_slice(&later[..layer]);
            let of_class = slots.iter().filter(|slot| slot.class == class);
            let mut options: Vec<(usize, i64)> = of_class
                .map(|slot| (slot.group.count / self.unit, taking(&kinds[class], slot.group.count)))
                .collect();
            options.dedup();
            let copies = classes[class].hosts.len().min(most_hosts).min(self.columns - 1);
            for _ in 0..copies {
                one_more_host(here, self.rows, self.columns, &options);
            }
        }
    }

    fn get(&self, next: usize, hosts: usize, gpus: usize) -> Option<i64> {
        if self.changes.is_empty() {
            // At best every host is partial and filled.
            return Some(change(-signed(hosts), 0));
        }
        let row = if self.rows == 0 { 0 } else { hosts };
        let at = self.layer() * next + row * self.columns + gpus / self.unit;
        self.changes.get(at).copied().filter(|change| *change < NONE / 2)
    }
}

/// Another host may take one of these numbers of instances, with what that changes. `rows` by number of hosts, or 0.
fn one_more_host(changes: &mut [i64], rows: usize, columns: usize, options: &[(usize, i64)]) {
    for hosts in (0..rows.max(1)).rev() {
        let before = if rows == 0 { Some(0) } else { hosts.checked_sub(1) };
        let Some(before) = before else { continue };
        for taken in (1..columns).rev() {
            let mut best = changes[hosts * columns + taken];
            for &(count, change) in options.iter().filter(|(count, _)| *count <= taken) {
                best = best.min(changes[before * columns + taken - count] + change);
            }
            changes[hosts * columns + taken] = best;
        }
    }
}
