//! `bandpilot cluster fragmentation`.

mod mix;
pub mod picture;
pub mod show;

use bandpilot_core::{Cluster, ClusterState};
use bandpilot_fragmentation::{Measures, Occupancy, measures};
use bandpilot_readers::state_file;

use self::mix::{Mix, Unusable};
use self::picture::{Row, rows};
use super::ground::{self, Remarks};
use crate::cli::{Fragmentation, Running};
use crate::exit::{Code, Failure};
use crate::io::read_text;
use crate::output::Done;

/// Measures how fragmented a cluster is.
///
/// # Errors
/// If a file cannot be read or has errors.
pub fn fragmentation(args: &Fragmentation) -> Result<Done, Failure> {
    let mut remarks = Remarks::new();
    let stand = Stand::read(&args.running, &mut remarks)?;
    let mix = Mix::read(args.trace.as_deref(), &stand.cluster, &stand.occupancy, &mut remarks)?;
    let code = if mix.bad_rows > 0 { Code::Problems } else { Code::Ok };
    let unusable = mix.unusable(&stand.occupancy);
    let measures = measures(&stand.occupancy);
    let rows = rows(&stand.cluster, &stand.state);
    let shown = Shown { stand, mix, unusable, measures, rows, remarks: remarks.clone() };
    Ok(Done { output: Box::new(shown), remarks, code })
}

/// A cluster with what runs on it.
pub struct Stand {
    /// The cluster.
    pub cluster: Cluster,
    /// Its file.
    pub cluster_file: String,
    /// What is free and what runs.
    pub state: ClusterState,
    /// Its file.
    pub state_file: String,
    /// The same as hosts with instances.
    pub occupancy: Occupancy,
}

impl Stand {
    /// Reads the files.
    ///
    /// # Errors
    /// If one cannot be read or has errors.
    pub fn read(args: &Running, remarks: &mut Remarks) -> Result<Self, Failure> {
        let cluster = ground::cluster(&args.cluster, remarks)?;
        let name = args.state.display().to_string();
        let read = state_file::read(&read_text(&args.state)?, &cluster);
        let state = ground::settle(read, &name, Code::BadInput, remarks)?;
        Ok(Self {
            occupancy: Occupancy::of(&cluster, &state),
            cluster_file: args.cluster.display().to_string(),
            state_file: name,
            cluster,
            state,
        })
    }

    /// A pool as people call it.
    pub fn pool_name(&self, pool: usize) -> String {
        let pool = &self.occupancy.pools[pool];
        format!("{} x {}", pool.gpu_model, pool.host_gpus)
    }

    /// Healthy GPUs that jobs can have or have.
    pub fn usable_gpus(&self) -> usize {
        self.occupancy.nodes.iter().map(|node| node.cells).sum()
    }
}

/// What is shown.
struct Shown {
    stand: Stand,
    mix: Mix,
    /// Of each pool.
    unusable: Option<Unusable>,
    measures: Measures,
    rows: Vec<Row>,
    remarks: Remarks,
}
