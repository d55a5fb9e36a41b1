//! The evaluation protocol: how close a policy comes to the exact optimum on measured truth.
//!
//! For each case a number of GPUs is asked for, some GPUs are free, and all others belong to one background job. A policy
//! chooses; its choice is valued by the measured truth under the truth's contention, as a share of
//! the best that any choice could have had, found by exhaustive enumeration per case.

pub mod clusters;
pub mod load;
pub mod oracle;
pub mod protocol;
pub mod published;
pub mod report;
pub mod truth;

pub use load::{ClusterName, LoadError, TableError};
pub use protocol::{Mode, Protocol, run};
pub use report::{ModeReport, PolicyReport, Report, WorstCase};
pub use truth::{Truth, TruthError};
