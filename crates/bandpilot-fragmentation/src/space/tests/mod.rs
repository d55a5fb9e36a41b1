//! Properties of the space, on cases made by hand and on random streams.

mod cases;
mod plans;
mod properties;
mod stream;

use bandpilot_core::HostId;

use super::{Gang, Kind, Rules, Shift, Space};
use crate::{Instance, Node, Pool};

/// A space of hosts of so many GPUs with so many cells each.
fn space(host_gpus: usize, cells: &[usize], rules: Rules) -> Space {
    let held = vec![Vec::new(); cells.len()];
    filled(host_gpus, cells, &held, rules)
}

/// The same with instances on the hosts, each a job of its own, by host and place: 0, 1, ...
fn filled(host_gpus: usize, cells: &[usize], held: &[Vec<usize>], rules: Rules) -> Space {
    let mut jobs = 0..;
    let nodes: Vec<Node> = (0..)
        .map(HostId)
        .zip(cells.iter().zip(held))
        .map(|(host, (cells, held))| {
            let sizes = held.iter().copied().zip(&mut jobs);
            let held = sizes.map(|(gpus, job)| Instance { job, gpus, pinned: false }).collect();
            Node { host, pool: 0, cells: *cells, held }
        })
        .collect();
    Space::new(&Pool { gpu_model: "GPU".to_owned(), host_gpus }, nodes.iter(), rules)
}

fn gang(job: u32, instances: usize, gpus: usize) -> Gang {
    Gang { job, instances, gpus, rest: 0 }
}

/// Sizes on each host, largest first.
fn picture(space: &Space) -> Vec<Vec<usize>> {
    let sizes = |node: Node| {
        let mut sizes: Vec<usize> = node.held.iter().map(|instance| instance.gpus).collect();
        sizes.sort_unstable_by(|a, b| b.cmp(a));
        sizes
    };
    space.nodes().map(sizes).collect()
}

/// What must be so whatever happened before.
fn sound(space: &Space, gpus: usize) {
    assert_eq!(space.used(), gpus, "GPUs in use are those of the running jobs");
    let hosts = space.hosts.iter().zip(&space.state);
    for (content, state) in hosts {
        assert_eq!(content.fullness(), *state);
        assert!(state.used <= content.cells);
        if state.kind == Kind::Slotted {
            let widths = content.anchors.iter().map(|anchor| super::slot_width(anchor.gpus));
            assert!(widths.sum::<usize>() + state.orphans + state.residual <= content.slot_cells());
        }
    }
}

/// Slotted hosts with a residual, pools with room, mixed hosts.
fn loose(space: &Space) -> (usize, usize, usize) {
    let count = |what: &dyn Fn(&super::Fullness) -> bool| {
        space.state.iter().filter(|state| what(state)).count()
    };
    (
        count(&|state| state.residual > 0),
        count(&|state| state.kind == Kind::Pool && state.free > 0),
        count(&|state| state.kind == Kind::Mixed),
    )
}

fn shift(job: u32, gpus: usize, from: u32, to: u32) -> Shift {
    Shift { job, gpus, from: HostId(from), to: HostId(to) }
}
