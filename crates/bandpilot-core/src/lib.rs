//! The vocabulary of bandpilot: clusters, hosts, GPUs, links, placements, states and requests.
//!
//! This crate is the bottom layer. It reads no file, no clock and no ambient randomness, and it knows
//! no outside format beyond the two short notations that people type (`0-3,5` for GPUs, `2GiB` for
//! sizes). Every bandwidth is in GB/s, 10^9 bytes per second, and means nccl-tests *bus bandwidth*
//! unless a name says otherwise; link rates are in Gbit/s; message sizes are in bytes.

mod builder;
mod cluster;
mod collective;
mod gpus;
mod measurement;
mod placement;
mod request;
mod state;
mod units;

pub use builder::ClusterBuilder;
pub use cluster::{
    Cluster, GpuIdentity, Host, HostId, HostType, HostTypeId, LinkClass, Links,
    MOST_NVLINKS_OF_A_GPU, Nic, only_a_switch_explains, shares_nvlinks, switched_links,
};
pub use collective::{Collective, UnknownCollective};
pub use gpus::{GpuMask, GpuMaskError, MAX_GPUS_PER_HOST};
pub use measurement::Measurement;
pub use placement::Placement;
pub use request::Request;
pub use state::{ClusterState, Demand, RunningJob};
pub use units::{ByteSizeError, counted, format_bytes, parse_bytes};
