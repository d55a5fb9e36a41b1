//! Which GPUs a job gets: exact search with a certificate, baselines, and the answer with its grounds.
//!
//! # The problem
//!
//! *Constants*: a cluster, a snapshot of what is free and what runs, a bandwidth model, a contention model, a
//! request. *Variables*: a subset of the free GPUs. *Conditions*: the request's (number of GPUs,
//! hosts, evenness, model, included and excluded GPUs). *Objective*: the greatest effective bandwidth;
//! among equals the least loss of running jobs; among those the fewest hosts, then the host order.
//!
//! [`search::search`] solves it by branch and bound over host classes and counts, never over sets of GPUs, and says
//! with an upper bound how much better any other set could be under the model. [`search::least_fragmentation`] gives up a
//! share of that bandwidth for hosts that are full or empty.

pub mod answer;
pub mod baselines;
pub mod classes;
pub mod compare;
pub mod explain;
pub mod fragmentation;
pub mod instances;
pub mod launch;
pub mod limits;
pub mod parallel;
pub mod scene;
pub mod scope;
pub mod search;
pub mod tradeoff;

pub use answer::{Answer, AnswerOptions, dispatch};
pub use compare::{Compared, Policy, compare};
pub use explain::{Explained, explain};
pub use fragmentation::{Fill, Fragmentation};
pub use instances::{Instance, instances};
pub use parallel::{Parallel, ParallelAnswer, dispatch_parallel};
pub use scene::Scene;
pub use scope::{Impossible, Scope};
pub use search::{Found, Least, NotFound, Outcome, SearchOptions, least_fragmentation, search};
pub use tradeoff::Tradeoff;
