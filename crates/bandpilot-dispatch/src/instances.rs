//! Which GPUs of a set make up which instance.

use bandpilot_core::{GpuMask, HostId, Placement};
use bandpilot_model::{Groups, Predictor, Traffic};

/// One instance: GPUs of one host that work together.
#[derive(Debug, Clone, PartialEq)]
pub struct Instance {
    /// Its host.
    pub host: HostId,
    /// Its GPUs.
    pub gpus: GpuMask,
    /// busbw of its GPUs among themselves, GB/s; `None` for a single GPU.
    pub inside: Option<f64>,
}

/// Splits a set into instances of `size` GPUs (at least 1), host by host; on PCIe and mesh hosts so that the slowest
/// instance is as fast as can be. GPUs of a host that make up no whole instance are in none.
pub fn instances(predictor: &Predictor<'_>, set: &Placement, size: usize) -> Vec<Instance> {
    let size = size.max(1);
    // Only the order of the groups' times counts, so any traffic will do.
    let traffic = Traffic { messages: 1.0, bytes: predictor.bytes().max(1) };
    let groups = Groups {
        tensor: size,
        tensor_traffic: traffic,
        tensor_predictor: predictor,
        stages: 1,
        stage_traffic: traffic,
        stage_predictor: predictor,
        ring_ranks: 1,
        ring_traffic: traffic,
        outside_seconds: 0.0,
    };
    let inside = |host, gpus| (size > 1).then(|| predictor.inside(host, gpus));
    set.shares()
        .iter()
        .flat_map(|(host, mask)| {
            let of_host = groups.split(*host, *mask).into_iter();
            of_host.map(|gpus| Instance { host: *host, gpus, inside: inside(*host, gpus) })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use bandpilot_core::ClusterBuilder;
    use bandpilot_model::BandwidthModel;

    use super::*;

    fn split(cluster: &bandpilot_core::Cluster, size: usize) -> Vec<Instance> {
        let model = BandwidthModel::closed_form();
        let predictor = Predictor::new(&model, cluster, 2 << 30);
        instances(&predictor, &Placement::new([(HostId(0), GpuMask::first(8))]), size)
    }

    #[test]
    fn mesh_hosts_are_split_along_their_links() {
        // NVLink only between GPU i and GPU i + 4.
        let link = |a: usize, b: usize| match a.abs_diff(b) {
            0 => "X",
            4 => "NV4",
            _ => "SYS",
        };
        let rows: Vec<String> =
            (0..8).map(|a| (0..8).map(|b| link(a, b)).collect::<Vec<_>>().join(" ")).collect();
        let rows: Vec<&str> = rows.iter().map(String::as_str).collect();
        let cluster = ClusterBuilder::new("t")
            .host_type("mesh", "V100", 8)
            .matrix(&rows)
            .rails(100.0)
            .hosts("h", 1, 1)
            .build();
        let all = split(&cluster, 2);
        let gpus: Vec<String> = all.iter().map(|instance| instance.gpus.to_string()).collect();
        assert_eq!(gpus, ["0,4", "1,5", "2,6", "3,7"]);
        assert!(all.iter().all(|instance| instance.inside > Some(50.0)), "{all:?}");
        assert_eq!(split(&cluster, 1)[3].inside, None);
    }

    #[test]
    fn switched_hosts_are_split_in_order_and_leave_a_rest() {
        let cluster = ClusterBuilder::new("t")
            .host_type("h100", "H100", 8)
            .nvswitch()
            .rails(400.0)
            .hosts("h", 1, 1)
            .build();
        let gpus: Vec<String> = split(&cluster, 3).iter().map(|i| i.gpus.to_string()).collect();
        assert_eq!(gpus, ["0-2", "3-5"]);
    }
}
