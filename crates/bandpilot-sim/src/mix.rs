//! Instances of odd sizes in a trace that has none.

use bandpilot_readers::trace_file::Trace;
use rand::RngExt;
use rand_pcg::Pcg64;
use rand_pcg::rand_core::SeedableRng;

use crate::shape::{Hosts, ModelSet, Shape};

/// Sizes that leave GPUs of a host of eight over, whatever else runs there (fragmentation-unfriendly, COMPASS-ABS, arXiv 2609.18519).
pub const ODD_SIZES: [u32; 4] = [3, 5, 6, 7];

/// What was changed.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Mixed {
    /// Jobs whose instances have an odd size now.
    pub jobs: usize,
    /// Their instances.
    pub instances: usize,
    /// GPU-seconds of the whole trace, before and after.
    pub gpu_seconds: (f64, f64),
}

/// Gives the instances of a share (0..=1) of the jobs another size, drawn evenly from [`ODD_SIZES`] as far as the largest host
/// has so many GPUs. Each job is drawn by itself, so that about this share of the instances changes too; a job keeps its
/// number of instances and its duration, and so asks for other GPU-seconds than before. Jobs without a GPU or with shares of
/// one stay as they are.
pub fn mix(trace: &mut Trace, share: f64, seed: u64, hosts: &Hosts) -> Mixed {
    let largest = hosts.largest(ModelSet::ANY);
    let sizes: Vec<u32> = ODD_SIZES.into_iter().filter(|size| *size <= largest).collect();
    let mut rng = Pcg64::seed_from_u64(seed ^ 0x006d_6978);
    let mut mixed = Mixed::default();
    for job in &mut trace.jobs {
        let before = f64::from(job.gpus) * job.duration_s;
        // Drawn for every job, so that what one job gets does not depend on the others.
        let drawn = (rng.random_range(0.0..1.0) < share, rng.random_range(0..ODD_SIZES.len()));
        if drawn.0 && job.gpus > 0 && job.gpu_milli == 1000 && !sizes.is_empty() {
            let shape = match job.gpus_per_instance {
                Some(size) => Shape::of_instances(job.gpus, size),
                None => Shape::of_total(job.gpus, largest),
            };
            let size = sizes[drawn.1 % sizes.len()];
            let instances = shape.instances + u32::from(shape.rest_gpus > 0);
            (job.gpus, job.gpus_per_instance) = (instances * size, Some(size));
            mixed.jobs += 1;
            mixed.instances += instances as usize;
        }
        mixed.gpu_seconds.0 += before;
        mixed.gpu_seconds.1 += f64::from(job.gpus) * job.duration_s;
    }
    mixed
}

#[cfg(test)]
mod tests {
    use bandpilot_core::ClusterBuilder;
    use bandpilot_readers::trace_file;

    use super::*;

    #[test]
    fn a_share_of_the_instances_gets_an_odd_size() {
        let builder = ClusterBuilder::new("c").host_type("h", "", 8).nvswitch();
        let hosts = Hosts::new(&builder.hosts("h", 1, 4).build()).unwrap();
        let mut text = "submit_s,duration_s,gpus\n".to_owned();
        text.extend((0..20_000).map(|job| format!("{job},10,{}\n", [1, 8, 20][job % 3])));
        let plain = trace_file::read(&text).value;
        let mut odd = plain.clone();
        let mixed = mix(&mut odd, 0.05, 7, &hosts);
        assert!((900..1_100).contains(&mixed.jobs), "{mixed:?}");
        let share = mixed.instances as f64 / (20_000.0 * 5.0 / 3.0);
        assert!((0.045..0.055).contains(&share), "{share}");
        let mut seen = [0; 9];
        for (before, after) in plain.jobs.iter().zip(&odd.jobs) {
            let Some(size) = after.gpus_per_instance else {
                assert_eq!(before, after);
                continue;
            };
            seen[size as usize] += 1;
            assert_eq!(after.gpus / size, before.gpus.div_ceil(8));
        }
        for size in [3, 5, 6, 7] {
            assert!((200..300).contains(&seen[size]), "{seen:?}");
        }
        let gpu_seconds =
            |trace: &Trace| trace.jobs.iter().map(|job| f64::from(job.gpus) * 10.0).sum::<f64>();
        assert_eq!(mixed.gpu_seconds, (gpu_seconds(&plain), gpu_seconds(&odd)));
        let (mut again, mut none) = (plain.clone(), plain.clone());
        mix(&mut again, 0.05, 7, &hosts);
        assert_eq!(again, odd);
        assert_eq!(mix(&mut none, 0.0, 7, &hosts).jobs, 0);
        assert_eq!(none, plain);
    }
}
