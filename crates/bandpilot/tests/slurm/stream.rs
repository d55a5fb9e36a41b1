//! A long stream of jobs.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bandpilot_manager::audit::State;
use bandpilot_manager::exchange::Process;
use bandpilot_slurm::{Form, observe};
use bandpilot_testcluster::Setup;
use rand::{RngExt as _, SeedableRng as _};
use rand_pcg::Pcg64;

use crate::Site;

/// Start, end and job.
type Span = (String, String, String);

const JOBS: usize = 200;

/// The options of one job and its seconds.
fn shape(rng: &mut Pcg64) -> (Vec<String>, f64) {
    let seconds = rng.random_range(0.2..1.5);
    let few = rng.random_range(1..=4_usize);
    let many = rng.random_range(1..=8_usize);
    let words: Vec<String> = match rng.random_range(0..10) {
        0 | 1 => vec![format!("-N{}", rng.random_range(1..=3)), format!("--gpus-per-node={many}")],
        2..=4 => vec![format!("--gpus={}", rng.random_range(1..=20))],
        5 => vec![format!("-n{few}"), "--gpus-per-task=2".to_owned(), "-c2".to_owned()],
        6 | 7 => vec!["-N1".to_owned(), format!("--gres=gpu:{many}"), "-c4".to_owned()],
        8 => vec![format!("--gpus={many}"), "--mem=4G".to_owned(), "-t2".to_owned()],
        _ => vec!["--exclusive".to_owned(), "--gpus-per-node=8".to_owned()],
    };
    (words, seconds)
}

#[test]
fn two_hundred_random_jobs_get_exactly_what_was_planned() {
    let test = "two_hundred_random_jobs_get_exactly_what_was_planned";
    let Some(site) = Site::start(test, &Setup::new(8, 8)) else { return };
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let watch = scope.spawn(|| {
            let mut runner = Process { env: site.slurm.env(), ..Process::default() };
            while !over.load(Ordering::Relaxed) {
                let seen = observe(&mut runner, Form::Any).unwrap();
                let twice = seen.remarks.iter().find(|(_, r)| r.message.contains("is held by"));
                assert_eq!(twice, None, "a GPU is held twice");
                site.verify();
                std::thread::sleep(Duration::from_millis(300));
            }
        });
        let mut rng = Pcg64::seed_from_u64(7);
        let submitted = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            for _ in 0..JOBS {
                let (words, seconds) = shape(&mut rng);
                let mut words: Vec<&str> = words.iter().map(String::as_str).collect();
                let command = format!("sleep {seconds:.2}");
                words.extend(["--wrap", &command]);
                site.sbatch(&words);
            }
            let left = || site.slurm.must(&["squeue", "-h", "-o", "%i"]).lines().count();
            let mut before = usize::MAX;
            // Each time anew: all of it may take longer than one wait.
            while before > 0 {
                site.slurm.eventually("jobs end", || left() < before);
                before = left();
            }
        }));
        over.store(true, Ordering::Relaxed);
        watch.join().unwrap();
        let queue = || site.slurm.must(&["squeue", "-o", "%i %j %T %r %S %b %n %N", "--sort", "i"]);
        assert!(submitted.is_ok(), "{}", queue());
    });
    let (code, verdict) = site.verify();
    assert_eq!(code, Some(0), "{verdict}");
    let audit = site.audit();
    assert_eq!(audit.plans.len(), JOBS);
    for plan in &audit.plans {
        assert_eq!(plan.state, State::Verified, "{plan:?}");
    }
    let uneven = audit.plans.iter().filter(|plan| {
        let gpus = &plan.planned.as_ref().unwrap().gpus;
        gpus.iter().any(|one| one.gpus.count() != gpus[0].gpus.count())
    });
    assert!(uneven.count() >= 10, "the stream has too few uneven sets to say anything of them");
    no_gpu_twice(&site);
}

/// Slurm's own times of all jobs against the GPUs that the audit saw them hold.
fn no_gpu_twice(site: &Site) {
    let times = site.slurm.must(&["squeue", "-h", "-t", "all", "-o", "%A %S %e"]);
    let mut spans: BTreeMap<String, (String, String)> = BTreeMap::new();
    for line in times.lines() {
        let words: Vec<&str> = line.split(' ').collect();
        spans.insert(words[0].to_owned(), (words[1].to_owned(), words[2].to_owned()));
    }
    let mut held: BTreeMap<(String, usize), Vec<Span>> = BTreeMap::new();
    for plan in site.audit().plans {
        let job = plan.job.unwrap();
        let (start, end) = spans[&job].clone();
        for one in plan.planned.unwrap().gpus {
            for gpu in one.gpus.iter() {
                let of = held.entry((one.host.clone(), gpu)).or_default();
                of.push((start.clone(), end.clone(), job.clone()));
            }
        }
    }
    assert!(!held.is_empty());
    for ((host, gpu), mut spans) in held {
        spans.sort();
        for pair in spans.windows(2) {
            // Times are whole seconds and written so that text order is time order.
            assert!(pair[0].1 <= pair[1].0, "{host}:{gpu}: {pair:?}");
        }
    }
}
