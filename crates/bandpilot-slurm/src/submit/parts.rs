//! From a set of GPUs to the components of a job.

use bandpilot_core::{GpuMask, Placement};
use bandpilot_manager::Plan;

use super::admit::Gate;
use super::ask::Memory;
use super::layout::{Component, Layout};
use super::shape::Shape;

/// The layout of a set: hosts that give the same in every respect are one component. Components stand in the order of their
/// first hosts, hosts in Slurm's order.
pub(super) fn layout(gate: &Gate<'_>, shape: &Shape, set: &Placement, id: &str) -> Layout {
    let mut components: Vec<Component> = Vec::new();
    for (host, known) in gate.snapshot.hosts.iter().zip(&gate.hosts) {
        let gpus = known.as_ref().map_or(GpuMask::EMPTY, |id| set.on(*id));
        if gpus.is_empty() {
            continue;
        }
        let tasks = shape.tasks.on(gpus.count());
        let need = &gate.need;
        let load = need.on(host, gpus.count(), tasks);
        let of_gpus =
            need.cpus_per_gpu.map(|each| (gpus.count() * each).div_ceil(tasks.max(1)).max(1));
        // What is only the default of a site without shared memory, or for whole hosts, Slurm knows best.
        let by_default =
            !need.memory_asked && (gate.whole_hosts || !gate.site.config.consumable.memory);
        let memory = match need.memory {
            Memory::Unset => None,
            _ if by_default => None,
            _ if load.all_memory => Some(0),
            _ => Some(load.memory_mib),
        };
        let component = Component {
            hosts: vec![host.name.clone()],
            gpus,
            kinds: gpus.iter().filter_map(|at| host.gpus.get(at)?.kind.clone()).collect(),
            tasks_per_host: tasks,
            cpus_per_task: of_gpus.or(need.cpus_per_task),
            memory_mib_per_host: memory,
        };
        let alike = |other: &&mut Component| {
            Component { hosts: Vec::new(), ..(**other).clone() }
                == Component { hosts: Vec::new(), ..component.clone() }
        };
        match components.iter_mut().find(alike) {
            Some(other) => other.hosts.extend(component.hosts),
            None => components.push(component),
        }
    }
    let of_component =
        |part: &Component| part.hosts.iter().map(|h| (h.clone(), part.gpus)).collect::<Vec<_>>();
    Layout {
        plan: Plan {
            id: id.to_owned(),
            gpus: components.iter().flat_map(of_component).collect(),
            whole_hosts: gate.whole_hosts,
        },
        components,
        partition: if gate.ask.partitions.is_empty() && gate.partition.default {
            String::new()
        } else {
            gate.partition.name.clone()
        },
    }
}
