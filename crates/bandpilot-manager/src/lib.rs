//! What every cluster manager is asked for, and what is written down of it.
//!
//! A [`Manager`] is asked for four things: what there is ([`Manager::observe`]), to take a planned job
//! ([`Manager::commit`]), what a job was really given ([`Manager::verify`]), and to give a job back that has not
//! started ([`Manager::undo`]). Nothing below this crate knows a manager: a decision is a function of what was observed.
//! [`audit`] is the file of plans and facts.
//! Every command that a manager's programs are given goes through [`exchange`], so all of it can be recorded and replayed.

pub mod audit;
pub mod exchange;
mod manager;

pub use manager::{Committed, Fact, Manager, ManagerError, Plan, Undone};
