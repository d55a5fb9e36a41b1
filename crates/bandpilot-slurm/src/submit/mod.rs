//! A job from the words of its user to the words for Slurm.
//!
//! [`ask`] is what the job asks for, [`layout`] where its parts go; the reading of options, the plan and the writing of
//! the submit stand between them. Nothing here starts a command.

pub mod admit;
pub mod array;
pub mod ask;
mod clock;
mod ground;
pub mod layout;
mod need;
mod parts;
pub mod plan;
mod refused;
mod shape;
pub mod stock;

pub use admit::{Admission, by_reason};
pub use array::plan_array;
pub use plan::{Given, Planned, Start, admissions, plan};
pub use refused::{Refused, RefusedKind};
