//! Which scheduling policy is best on a trace.
//!
//! A [`Scheduler`] is stepped: events in, effects out, with no clock and no IO, so a service can step the same code
//! live. Its [`policy`] is a queue [order](orders) and a [placement rule](placements), both small units that are
//! found by name. [`simulate`] plays a [`Workload`] against it and keeps the truth: who holds which GPU, how much work
//! is left at which [rate](speed). [`Metrics`] sums up a run.
//!
//! ```
//! use bandpilot_core::ClusterBuilder;
//! use bandpilot_sim::{Hosts, Metrics, Options, Policy, Setting, Workload, simulate};
//! let trace = bandpilot_readers::trace_file::read("submit_s,duration_s,gpus\n0,100,8\n10,100,16\n20,50,4\n").value;
//! let cluster = ClusterBuilder::new("two").host_type("host", "GPU", 8).nvswitch().hosts("h", 1, 2).build();
//! let hosts = Hosts::new(&cluster)?;
//! let workload = Workload::new(&trace, &hosts);
//! let (options, seed) = (Options::default(), 1);
//! let setting = Setting::new(&hosts, &workload, &options, seed);
//! let run = simulate(&setting, Policy::parse("fifo-skip/best-fit")?)?;
//! let metrics = Metrics::new(&workload, &run);
//! assert_eq!((metrics.jobs, metrics.makespan_s), (3, 200.0));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod desk;
mod faults;
mod fragmentation;
mod host_set;
mod idle;
mod ids;
mod jobs;
mod ledger;
mod metrics;
mod mix;
mod options;
mod outcome;
mod progress;
mod reference;
mod scheduler;
mod setting;
mod shape;
mod truth;
mod watch;
mod workload;
mod world;

pub mod bootstrap;
pub mod fill;
pub mod orders;
pub mod placements;
pub mod policy;
pub mod series;
pub mod sizing;
pub mod speed;

pub use desk::{Desk, Reservation};
pub use fragmentation::Standing;
pub use idle::{Grant, Idle};
pub use ids::{JobId, ShapeId};
pub use jobs::{Ask, Jobs};
pub use metrics::{Metrics, slowdown_of};
pub use mix::{Mixed, ODD_SIZES, mix};
pub use options::{Costs, FaultRates, Options};
pub use outcome::{Broken, HostTotals, JobResult, Outcome, Totals};
pub use policy::Policy;
pub use progress::Progress;
pub use scheduler::{Effect, Event, Scheduler, WrongEvent};
pub use setting::{Network, Setting, demand_of};
pub use shape::{Hosts, ModelSet, Shape, TooManyModels};
pub use watch::Watcher;
pub use workload::{LeftOut, Workload};
pub use world::{simulate, simulate_watched, simulate_with};
