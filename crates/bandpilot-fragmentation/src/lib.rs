//! How fragmented a cluster is by what runs on it, the least that it could be, and the Anchor-Based Space that keeps it near that
//! (COMPASS-ABS, arXiv 2609.18519, with two gaps of the printed algorithm mended).
//!
//! Jobs are gangs of *instances*, each of which must stay inside one host. A host is *partial* if some of its GPUs are held
//! and some are not. How many partial hosts there must be depends only on how many instances of each size run ([`Census`]); whatever is
//! more than that could be mended by moving jobs.

mod census;
mod least;
mod measures;
mod occupancy;
pub mod space;

pub use census::Census;
pub use least::{
    Hosts, Least, LeastHosts, OtherHosts, Proof, least_hosts, least_hosts_on, least_partial,
    least_partial_on,
};
pub use measures::{Figures, Measures, PoolMeasures, Tracker, measures};
pub use occupancy::{Instance, Node, Occupancy, Pool};
pub use space::{Domains, Gang, Goal, Plan, Price, Rules, Shift, Space};

#[cfg(test)]
mod tests {
    mod least;
    mod measures;
}
