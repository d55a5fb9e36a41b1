//! What a cluster is made of.

use crate::GpuMask;

/// Index of a host in [`Cluster::hosts`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HostId(pub u32);

/// Index of a host type in [`Cluster::host_types`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HostTypeId(pub u16);

impl HostId {
    /// As an index into slices that hold one entry a host.
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// How two GPUs of one host reach each other, as `nvidia-smi topo -m` names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LinkClass {
    /// Across the interconnect between CPU sockets.
    Sys,
    /// Within a NUMA node, across PCIe host bridges.
    Node,
    /// Across one PCIe host bridge (the CPU).
    Phb,
    /// Across several PCIe bridges, without the host bridge.
    Pxb,
    /// Across one PCIe bridge.
    Pix,
    /// A bonded set of this many NVLinks.
    Nv(u8),
}

impl LinkClass {
    /// Reads `NV18`, `PIX`, `PXB`, `PHB`, `NODE`, `SYS`; `None` for anything else.
    pub fn parse(text: &str) -> Option<Self> {
        match text {
            "SYS" => Some(Self::Sys),
            "NODE" => Some(Self::Node),
            "PHB" => Some(Self::Phb),
            "PXB" => Some(Self::Pxb),
            "PIX" => Some(Self::Pix),
            _ => {
                let links: u8 = text.strip_prefix("NV")?.parse().ok()?;
                (links > 0).then_some(Self::Nv(links))
            }
        }
    }
}

impl std::fmt::Display for LinkClass {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Sys => f.write_str("SYS"),
            Self::Node => f.write_str("NODE"),
            Self::Phb => f.write_str("PHB"),
            Self::Pxb => f.write_str("PXB"),
            Self::Pix => f.write_str("PIX"),
            Self::Nv(links) => write!(f, "NV{links}"),
        }
    }
}

/// The links between the GPUs of one host.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Links {
    /// Every pair through NVSwitch: all GPUs are alike.
    NvSwitch,
    /// Row-major `gpus x gpus`; the diagonal is ignored; symmetric.
    Matrix(Vec<LinkClass>),
}

/// NVLinks that a GPU has at most: 6 (V100), 12 (A100), 18 (H100, B200).
pub const MOST_NVLINKS_OF_A_GPU: usize = 18;

/// True if so many NVLinks to each of the other GPUs are more than a GPU has: only an NVSwitch, which every
/// pair shares, explains them.
pub const fn only_a_switch_explains(links: u8, gpus: usize) -> bool {
    links as usize * gpus.saturating_sub(1) > MOST_NVLINKS_OF_A_GPU
}

/// True if a row-major `gpus x gpus` matrix shows a GPU with more NVLinks to its peers than a GPU has: pairs share
/// them through an NVSwitch, also where not all GPUs reach it.
pub fn shares_nvlinks(cells: &[LinkClass], gpus: usize) -> bool {
    cells.chunks(gpus.max(1)).any(|row| {
        let nvlinks = row.iter().map(|cell| match cell {
            LinkClass::Nv(links) => usize::from(*links),
            _ => 0,
        });
        nvlinks.sum::<usize>() > MOST_NVLINKS_OF_A_GPU
    })
}

/// NVLinks per GPU if a row-major `gpus x gpus` matrix shows an NVSwitch that joins all: every pair has the same
/// number, and it is one that [`only_a_switch_explains`].
pub fn switched_links(cells: &[LinkClass], gpus: usize) -> Option<u8> {
    let mut pairs = (0..gpus * gpus).filter(|i| i / gpus != i % gpus).map(|i| cells.get(i));
    let Some(Some(first @ LinkClass::Nv(links))) = pairs.next() else { return None };
    let alike = pairs.all(|cell| cell == Some(first));
    (alike && only_a_switch_explains(*links, gpus)).then_some(*links)
}

/// A network interface card of a host type.
#[derive(Debug, Clone, PartialEq)]
pub struct Nic {
    /// Name, for example `mlx5_0`.
    pub name: String,
    /// Line rate in Gbit/s.
    pub gbit_per_s: f64,
    /// The GPUs that it serves (that are nearest to it).
    pub gpus: GpuMask,
}

/// What all hosts of one kind have in common.
#[derive(Debug, Clone, PartialEq)]
pub struct HostType {
    /// Name, unique in the cluster.
    pub name: String,
    /// GPU model, for example `H100`.
    pub gpu_model: String,
    /// Number of GPUs, 1..=64.
    pub gpus: usize,
    /// Links between the GPUs.
    pub links: Links,
    /// Network cards; may be empty (single-host clusters).
    pub nics: Vec<Nic>,
    /// CPU cores, if known.
    pub cores: Option<u32>,
    /// Memory in bytes, if known.
    pub memory_bytes: Option<u64>,
}

impl HostType {
    /// Link between GPUs `a` and `b`; `None` for NVSwitch.
    pub fn link(&self, a: usize, b: usize) -> Option<LinkClass> {
        match &self.links {
            Links::NvSwitch => None,
            Links::Matrix(cells) => cells.get(a * self.gpus + b).copied(),
        }
    }
}

/// Lasting names of one GPU.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct GpuIdentity {
    /// PCI bus id, for example `0000:1b:00.0`.
    pub pci_bus_id: Option<String>,
    /// UUID, for example `GPU-...`.
    pub uuid: Option<String>,
}

/// One host.
#[derive(Debug, Clone, PartialEq)]
pub struct Host {
    /// Name, unique in the cluster.
    pub name: String,
    /// Its type.
    pub host_type: HostTypeId,
    /// Name of its leaf switch, if known.
    pub leaf: Option<String>,
    /// GPUs that must not be used.
    pub unhealthy_gpus: GpuMask,
    /// Indexes into the type's NICs that carry no traffic.
    pub unhealthy_nics: Vec<usize>,
    /// One entry a GPU, or empty if unknown.
    pub gpu_ids: Vec<GpuIdentity>,
}

/// A cluster: host types and hosts. Readers guarantee that every index is in range, every name unique.
#[derive(Debug, Clone, PartialEq)]
pub struct Cluster {
    /// Name, for people.
    pub name: String,
    /// The kinds of host.
    pub host_types: Vec<HostType>,
    /// The hosts.
    pub hosts: Vec<Host>,
}

impl Cluster {
    /// The type of a host.
    pub fn type_of(&self, host: HostId) -> &HostType {
        &self.host_types[self.hosts[host.index()].host_type.0 as usize]
    }

    /// The host, by index.
    pub fn host(&self, host: HostId) -> &Host {
        &self.hosts[host.index()]
    }

    /// All host ids in order.
    pub fn host_ids(&self) -> impl Iterator<Item = HostId> + use<> {
        (0..self.hosts.len() as u32).map(HostId)
    }

    /// The host of that name.
    pub fn find_host(&self, name: &str) -> Option<HostId> {
        self.hosts.iter().position(|host| host.name == name).map(|i| HostId(i as u32))
    }

    /// GPUs of a host that may be used at all: those that exist and are healthy.
    pub fn healthy_gpus(&self, host: HostId) -> GpuMask {
        GpuMask::first(self.type_of(host).gpus).without(self.host(host).unhealthy_gpus)
    }

    /// Total number of GPUs, unhealthy ones included.
    pub fn gpu_count(&self) -> usize {
        self.host_ids().map(|id| self.type_of(id).gpus).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A matrix with the same links everywhere but at `odd`.
    fn matrix(gpus: usize, links: LinkClass, odd: Option<usize>) -> Vec<LinkClass> {
        let class = |at: usize| match (at / gpus, at % gpus) {
            (a, b) if a == b || odd == Some(a) || odd == Some(b) => LinkClass::Sys,
            _ => links,
        };
        (0..gpus * gpus).map(class).collect()
    }

    #[test]
    fn more_links_than_a_gpu_has_show_a_switch() {
        let switched =
            |gpus, links| switched_links(&matrix(gpus, LinkClass::Nv(links), None), gpus);
        assert_eq!(switched(8, 12), Some(12));
        assert_eq!(switched(16, 6), Some(6));
        assert_eq!(switched(8, 8), Some(8));
        // Four GPUs with six links to each of three peers have eighteen: a mesh.
        assert_eq!(switched(4, 6), None);
        assert_eq!(switched(2, 18), None);
        assert_eq!(switched(1, 18), None);
        assert_eq!(switched_links(&matrix(8, LinkClass::Pix, None), 8), None);
        let lost = matrix(8, LinkClass::Nv(18), Some(3));
        assert_eq!(switched_links(&lost, 8), None);
        assert!(shares_nvlinks(&lost, 8));
        assert!(!shares_nvlinks(&matrix(4, LinkClass::Nv(6), None), 4));
        assert!(!shares_nvlinks(&[], 0));
    }
}
