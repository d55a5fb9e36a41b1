//! Why a job is not planned.

use bandpilot_dispatch::Impossible;

use super::shape::Misfit;

/// What kind of refusal it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RefusedKind {
    /// The options contradict one another, or name what the site has not.
    Options,
    /// The GPUs are named already (`--gres=gpu:g3:1`): whoever does that plans for himself.
    NamesGpus,
    /// The cluster cannot meet the request, or not within its limits.
    Impossible,
}

/// A job that is not planned.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Refused {
    /// What kind of refusal it is.
    pub kind: RefusedKind,
    /// The option or constraint that binds, without dashes: `partition`, `nodelist`, `gpus`, `min-busbw`, ...
    pub constraint: String,
    /// What is wrong.
    pub message: String,
    /// What would be possible.
    pub possible: String,
    /// Hosts that give less than they have, as hostlists, each with the reason.
    pub hosts: Vec<(String, String)>,
}

impl Refused {
    pub(super) fn options(
        constraint: &str,
        message: impl Into<String>,
        possible: impl Into<String>,
    ) -> Self {
        Self {
            kind: RefusedKind::Options,
            constraint: constraint.to_owned(),
            message: message.into(),
            possible: possible.into(),
            hosts: Vec::new(),
        }
    }
}

impl From<Misfit> for Refused {
    fn from(misfit: Misfit) -> Self {
        Self::options(misfit.option, misfit.message, misfit.possible)
    }
}

impl From<Impossible> for Refused {
    fn from(impossible: Impossible) -> Self {
        Self {
            kind: RefusedKind::Impossible,
            constraint: impossible.constraint.to_owned(),
            message: impossible.message,
            possible: impossible.possible,
            hosts: Vec::new(),
        }
    }
}
