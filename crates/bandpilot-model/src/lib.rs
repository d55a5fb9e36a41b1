//! Bandwidth models: what a set of GPUs reaches alone, and what it reaches beside running jobs.
//!
//! Two levels, as in BandPilot (arXiv 2506.15595). Level 1 ([`local`]) is the bandwidth of a subset of
//! the GPUs of one host. Level 2 ([`physics`] times [`residual`]) is the bandwidth of a set that spans
//! hosts: a closed form with a few constants, corrected by a Gaussian process on what was measured, and
//! replaced by the measurement itself where the very set was measured. [`contention`] degrades the
//! isolated value by what runs beside it. Everything here is a pure function of its arguments.

pub mod contention;
pub mod cross_validation;
pub mod file;
pub mod fit;
pub mod groups;
pub mod local;
mod local_tables;
pub mod model;
mod optimise;
pub mod physics;
pub mod predictor;
pub mod residual;
pub mod share;

pub use contention::{ContentionModel, Meeting, MeetingBound, VirtualMerge, host_share};
pub use fit::{FitError, FitOptions, FitReport, fit};
pub use groups::{Groups, Traffic};
pub use model::{BandwidthModel, ErrorBands};
pub use predictor::{Bottleneck, CrossBounds, Evidence, Prediction, Predictor};
pub use share::{Aggregate, Share};
