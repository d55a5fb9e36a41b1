//! Clusters in one line, for tests, examples and built-ins.

use crate::{Cluster, GpuMask, Host, HostType, HostTypeId, LinkClass, Links, Nic};

/// Builds a cluster type by type.
///
/// ```
/// use bandpilot_core::ClusterBuilder;
/// let cluster = ClusterBuilder::new("demo").host_type("dgx", "H100", 8).nvswitch().rails(400.0).hosts("h", 1, 4).build();
/// assert_eq!(cluster.gpu_count(), 32);
/// assert_eq!(cluster.hosts[3].name, "h4");
/// ```
#[derive(Debug, Clone)]
pub struct ClusterBuilder {
    cluster: Cluster,
}

impl ClusterBuilder {
    /// An empty cluster.
    pub fn new(name: &str) -> Self {
        Self {
            cluster: Cluster { name: name.to_owned(), host_types: Vec::new(), hosts: Vec::new() },
        }
    }

    /// Starts a host type; the calls that follow describe it. All links are SYS until said otherwise.
    #[must_use]
    pub fn host_type(mut self, name: &str, gpu_model: &str, gpus: usize) -> Self {
        self.cluster.host_types.push(HostType {
            name: name.to_owned(),
            gpu_model: gpu_model.to_owned(),
            gpus,
            links: Links::Matrix(vec![LinkClass::Sys; gpus * gpus]),
            nics: Vec::new(),
            cores: None,
            memory_bytes: None,
        });
        self
    }

    /// The type's GPUs are joined by NVSwitch.
    #[must_use]
    pub fn nvswitch(mut self) -> Self {
        self.with_type(|t| t.links = Links::NvSwitch);
        self
    }

    /// The type's links, as `gpus` rows of `nvidia-smi topo -m` names; unknown names count as SYS.
    #[must_use]
    pub fn matrix(mut self, rows: &[&str]) -> Self {
        let cells: Vec<LinkClass> = rows
            .iter()
            .flat_map(|row| row.split_whitespace())
            .map(|cell| LinkClass::parse(cell).unwrap_or(LinkClass::Sys))
            .collect();
        self.with_type(|t| t.links = Links::Matrix(cells));
        self
    }

    /// One NIC of this rate for each GPU (rail-optimised).
    #[must_use]
    pub fn rails(mut self, gbit_per_s: f64) -> Self {
        self.with_type(|t| {
            t.nics = (0..t.gpus)
                .map(|gpu| Nic {
                    name: format!("nic{gpu}"),
                    gbit_per_s,
                    gpus: GpuMask::single(gpu),
                })
                .collect();
        });
        self
    }

    /// One host of the latest type with this very name.
    #[must_use]
    pub fn host(mut self, name: &str) -> Self {
        self.push_host(name.to_owned());
        self
    }

    /// `count` hosts of the latest type, named `prefix` + number from `first`.
    #[must_use]
    pub fn hosts(mut self, prefix: &str, first: usize, count: usize) -> Self {
        for number in first..first + count {
            self.push_host(format!("{prefix}{number}"));
        }
        self
    }

    fn push_host(&mut self, name: String) {
        let host_type = HostTypeId(self.cluster.host_types.len().saturating_sub(1) as u16);
        self.cluster.hosts.push(Host {
            name,
            host_type,
            leaf: None,
            unhealthy_gpus: GpuMask::EMPTY,
            unhealthy_nics: Vec::new(),
            gpu_ids: Vec::new(),
        });
    }

    /// The finished cluster.
    pub fn build(self) -> Cluster {
        self.cluster
    }

    fn with_type(&mut self, change: impl FnOnce(&mut HostType)) {
        if let Some(host_type) = self.cluster.host_types.last_mut() {
            change(host_type);
        }
    }
}
