//! A job from the words of its user to the words for Slurm.
//!
//! [`ask`] is what the job asks for, [`layout`] where its parts go; the reading of options, the plan and the writing of
//! the submit stand between them. Nothing here starts a command.

pub mod ask;
pub mod layout;
