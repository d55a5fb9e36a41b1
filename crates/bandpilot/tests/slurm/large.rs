//! A cluster of 64 hosts.

use bandpilot_testcluster::Setup;

use crate::Site;

const JOBS: usize = 300;

#[test]
fn three_hundred_jobs_on_sixty_four_hosts_have_what_was_planned() {
    let test = "three_hundred_jobs_on_sixty_four_hosts_have_what_was_planned";
    let Some(site) = Site::start(test, &Setup::new(64, 8)) else { return };
    for job in 0..JOBS {
        let gpus =
            format!("--gpus={}", if job % 30 == 0 { 12 } else { 1 + usize::from(job % 4 == 1) });
        site.sbatch(&[&gpus, "-t", "1:00:00", "--wrap", "sleep 1000"]);
    }
    site.slurm.eventually("all run", || {
        site.slurm.must(&["squeue", "-h", "-t", "PD", "-o", "%i"]).is_empty()
    });
    let (code, verdict) = site.verify();
    assert_eq!(code, Some(0), "{verdict}");
    let audit = site.audit();
    assert_eq!(audit.plans.len(), JOBS);
    let verified = |plan: &&bandpilot_manager::audit::Known| {
        plan.state == bandpilot_manager::audit::State::Verified
    };
    assert_eq!(audit.plans.iter().filter(verified).count(), JOBS);
}
