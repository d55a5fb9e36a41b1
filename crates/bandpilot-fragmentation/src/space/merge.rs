//! Two slotted hosts with a residual become one that is full or empty.
//!
//! Everything on such a host is a slot of a power of two below the host's size, an orphan being one of one GPU. Two hosts that need more
//! GPUs than one has can always fill one of them: powers of two, the largest first, never leave a gap that the next one does not fit
//! into. Two that need no more go on one. So on hosts of one size, with nothing pinned, at most one slotted host with a residual is left.

use std::collections::{BTreeMap, BTreeSet};

use super::Space;
use super::content::{Content, Fullness, slot_width};
use super::index::weigh;
use super::shifts::Step;
use crate::Instance;

/// Widths of slots below the size of a host, 1 to 64.
const WIDTHS: usize = 7;

/// Hosts that can stand in for each other here.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Class {
    residual: usize,
    /// Movable slots by the power of two, orphans first.
    movable: [isize; WIDTHS],
    /// Something on it may not move.
    fixed: bool,
}

/// Slots to move from the first host to the second, by the power of two; below 0 the other way round.
type Net = [isize; WIDTHS];

/// Slots, GPUs of them, what to move.
type Exchange = (isize, isize, Net);

impl Class {
    fn of(content: &Content, state: &Fullness) -> Self {
        let fixed_fillers = content.has_pinned_filler();
        let mut movable = [0; WIDTHS];
        let unpinned = content.fillers.iter().filter(|filler| !filler.pinned).count();
        movable[0] = state.orphans.min(unpinned).cast_signed();
        let mut fixed = fixed_fillers;
        for anchor in &content.anchors {
            let width = slot_width(anchor.gpus);
            let moves = !anchor.pinned && (anchor.gpus == width || !fixed_fillers);
            fixed |= !moves;
            if let Some(count) = movable.get_mut(width.trailing_zeros() as usize) {
                *count += isize::from(moves);
            }
        }
        Self { residual: state.residual, movable, fixed }
    }

    /// The fewest slots between two hosts that make the second one full, or the first one empty.
    fn best(&self, other: &Self) -> Option<Exchange> {
        let mut best = None;
        if !self.fixed && width_of(&self.movable) <= other.residual.cast_signed() {
            best = Some(exchange(self.movable));
        }
        let left = other.residual.cast_signed();
        fill(&self.movable, &other.movable, left, 0, &mut [0; WIDTHS], &mut best);
        best
    }
}

fn width_of(net: &Net) -> isize {
    net.iter().enumerate().map(|(power, count)| count.abs() << power).sum()
}

fn exchange(net: Net) -> Exchange {
    (net.iter().map(|count| count.abs()).sum(), width_of(&net), net)
}

/// Goes through the ways to give `left` GPUs net from one host to the other, the narrowest slots first: of each width as many as leave
/// a multiple of the next one.
fn fill(
    give: &Net,
    take: &Net,
    left: isize,
    power: usize,
    net: &mut Net,
    best: &mut Option<Exchange>,
) {
    if left == 0 {
        let found = exchange(*net);
        if best.is_none_or(|best| found < best) {
            *best = Some(found);
        }
        return;
    }
    if power == WIDTHS || best.is_some_and(|best| best.0 <= net.iter().map(|n| n.abs()).sum()) {
        return;
    }
    let odd = (left >> power) & 1;
    let counts = (-take[power]..=give[power]).filter(|count| count & 1 == odd);
    for count in counts {
        net[power] = count;
        fill(give, take, left - (count << power), power + 1, net, best);
    }
    net[power] = 0;
}

impl Space {
    pub(super) fn merge_pairs(&mut self) {
        if weigh(&self.index.slotted, |residual| usize::from(residual > 0)) < 2 {
            return;
        }
        let mut classes: BTreeMap<Class, BTreeSet<u32>> = BTreeMap::new();
        for node in self.index.slotted.iter().flatten() {
            classes.entry(self.class(*node)).or_default().insert(*node);
        }
        while let Some((from, to, net)) = best_pair(&classes) {
            for node in [from, to] {
                let class = self.class(node);
                if let Some(hosts) = classes.get_mut(&class) {
                    hosts.remove(&node);
                    if hosts.is_empty() {
                        classes.remove(&class);
                    }
                }
            }
            self.exchange(from, to, &net);
            for node in [from, to] {
                if self.state[node as usize].residual > 0 {
                    classes.entry(self.class(node)).or_default().insert(node);
                }
            }
        }
    }

    fn class(&self, node: u32) -> Class {
        Class::of(&self.hosts[node as usize], &self.state[node as usize])
    }

    /// Both hosts give what they give before either takes, so that there is room.
    fn exchange(&mut self, from: u32, to: u32, net: &Net) {
        let mut moving = Vec::new();
        for (power, count) in net.iter().enumerate() {
            let (giver, taker) = if *count > 0 { (from, to) } else { (to, from) };
            for _ in 0..count.abs() {
                self.lift(giver, 1 << power, |instance| moving.push((instance, giver, taker)));
            }
        }
        for (instance, giver, taker) in moving {
            self.put(taker, instance);
            self.log.push(Step { instance, from: Some(giver), to: taker });
        }
    }

    /// Takes a slot, or an orphan, off a host.
    fn lift(&mut self, node: u32, width: usize, mut lifted: impl FnMut(Instance)) {
        let mut fillers = usize::from(width == 1);
        if let Some(anchor) = self.slot_of(node, width).filter(|_| width > 1) {
            fillers = self.hosts[node as usize].along(&anchor);
            self.take(node, anchor);
            lifted(anchor);
        }
        for _ in 0..fillers {
            let Some(filler) = self.hosts[node as usize].movable_filler() else { break };
            self.take(node, filler);
            lifted(filler);
        }
    }
}

fn best_pair(classes: &BTreeMap<Class, BTreeSet<u32>>) -> Option<(u32, u32, Net)> {
    let mut best: Option<(Exchange, u32, u32)> = None;
    for (class, hosts) in classes {
        for (other_class, others) in classes {
            let mut hosts = hosts.iter().copied();
            let Some(from) = hosts.next() else { continue };
            let to = if class == other_class { hosts.next() } else { others.first().copied() };
            let (Some(to), Some(found)) = (to, class.best(other_class)) else { continue };
            if best.is_none_or(|best| (found, from, to) < best) {
                best = Some((found, from, to));
            }
        }
    }
    best.map(|((_, _, net), from, to)| (from, to, net))
}
