//! Filling a cluster with pods that never leave: the experiment of the FGD paper ("Beware of Fragmentation", ATC'23) on the
//! Alibaba trace of 2023 (openb), which says how much of the GPUs a placement policy can sell before nothing fits any more.
//!
//! [`Cluster`] and [`Pods`] come from the published lists, [`Target`] is the mix of shapes that fragmentation is measured
//! against, [`policies`](POLICIES) score nodes, [`fill`] plays one seed. Everything is in thousandths: of a core, of a GPU.
//!
//! ```
//! use bandpilot_readers::openb;
//! use bandpilot_sim::fill::{self, Cluster, Pods, Policy, Target};
//! let nodes = openb::read_nodes("sn,cpu_milli,gpu,model\na,8000,2,T4\nb,8000,2,T4\n").value;
//! let pods = openb::read_pods("name,cpu_milli,num_gpu,gpu_milli\np,1000,1,500\nq,1000,2,1000\n").value;
//! let cluster = Cluster::new(&nodes.rows)?;
//! let pods = Pods::new(&pods.rows, &cluster);
//! let target = Target::new(&pods);
//! assert_eq!(cluster.fragmentation_pct(&target), 0.0);
//! let filled = fill::fill(&cluster, &pods, &target, Policy::parse("fgd").unwrap(), 130, 42)?;
//! assert!(filled.last().alloc_pct > 60.0);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod board;
mod cluster;
mod experiment;
mod pods;
mod policies;
mod target;

pub use cluster::{Cluster, Node, WrongCluster};
pub use experiment::{Filled, MAX_ARRIVALS, MAX_TO_PCT, Point, WrongDemand, arrivals, fill};
pub use pods::{PodShape, Pods};
pub use policies::{BestFit, Fgd, NodePolicy, POLICIES, Policy, Random};
pub use target::{COVERAGE_PCT, Target};
