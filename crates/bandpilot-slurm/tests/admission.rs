//! Whether Slurm agrees with what is said of a plan before it is submitted: real clusters.
#![allow(missing_docs, clippy::unwrap_used)]

use bandpilot_core::{ClusterBuilder, GpuMask, Request};
use bandpilot_manager::exchange::Process;
use bandpilot_model::{BandwidthModel, Predictor};
use bandpilot_slurm::site::{Cores, SiteSeen, site};
use bandpilot_slurm::submit::ask::{Ask, Features, GpuCount, Hosts, Memory};
use bandpilot_slurm::submit::layout::Layout;
use bandpilot_slurm::submit::{Given, Planned, Refused, Start, plan, stock};
use bandpilot_slurm::{Form, Limit, Snapshot, observe};
use bandpilot_testcluster::{Setup, SlurmCluster};

const PARTITIONS: &str = "\
PartitionName=gpu Nodes=h[1-3] Default=YES MaxTime=2-00:00:00 DefaultTime=30
PartitionName=small Nodes=h3 MaxCPUsPerNode=8 MaxNodes=1 MaxTime=INFINITE";

struct Site {
    slurm: SlurmCluster,
    seen: SiteSeen,
}

impl Site {
    fn runner(&self) -> Process {
        Process { env: self.slurm.env(), ..Process::default() }
    }

    fn snapshot(&self) -> Snapshot {
        observe(&mut self.runner(), Form::Any).unwrap().snapshot
    }

    fn with<T>(&self, act: impl FnOnce(&Given<'_>) -> T) -> T {
        let cluster = ClusterBuilder::new("c").host_type("dgx", "H100", 8).nvswitch().rails(400.0);
        let cluster = cluster.hosts("h", 1, 3).build();
        let model = BandwidthModel::closed_form();
        let predictor = Predictor::new(&model, &cluster, 2 << 30);
        act(&Given {
            snapshot: &self.snapshot(),
            site: &self.seen.site,
            predictor: &predictor,
            wishes: &Request::gpus(1),
            plan_id: "p",
            should_stop: None,
        })
    }

    fn plan(&self, ask: &Ask) -> Result<Planned, Refused> {
        self.with(|given| plan(given, ask))
    }

    fn cancel(&self, job: u32) {
        self.slurm.must(&["scancel", &job.to_string()]);
        self.slurm.eventually("nothing is left of the job", || {
            let snapshot = self.snapshot();
            let gone = |job: &&bandpilot_slurm::Job| job.het.map_or(job.id, |het| het.leader);
            !snapshot.jobs.iter().any(|other| gone(&other) == job)
        });
    }
}

fn ask(gpus: GpuCount) -> Ask {
    Ask {
        gpus,
        gpu_model: None,
        hosts: None,
        tasks: None,
        tasks_per_host: None,
        tasks_per_gpu: None,
        cpus_per_task: None,
        cpus_per_gpu: None,
        memory: Memory::Unset,
        named_hosts: Vec::new(),
        excluded_hosts: Vec::new(),
        features: Vec::new(),
        partitions: Vec::new(),
        reservation: String::new(),
        exclusive: false,
        time_limit: Limit::Unset,
        account: String::new(),
        begin: String::new(),
        dependency: String::new(),
        array: None,
    }
}

fn on(hosts: &[&str], ask: Ask) -> Ask {
    Ask { named_hosts: hosts.iter().map(|host| (*host).to_owned()).collect(), ..ask }
}

/// A layout in sbatch's options; `more` stands in every component.
fn options(layout: &Layout, more: &[&str]) -> Vec<String> {
    let mut all = Vec::new();
    for part in &layout.components {
        if !all.is_empty() {
            all.push(":".to_owned());
        }
        all.push(format!("-N{}", part.hosts.len()));
        all.push(format!("-w{}", part.hosts.join(",")));
        all.push(format!("--ntasks-per-node={}", part.tasks_per_host));
        all.extend(part.cpus_per_task.map(|cpus| format!("-c{cpus}")));
        all.extend(part.memory_mib_per_host.map(|mib| format!("--mem={mib}M")));
        all.push(format!("--gres={}", part.gres()));
        if !layout.partition.is_empty() {
            all.push(format!("-p{}", layout.partition));
        }
        all.extend(more.iter().map(|option| (*option).to_owned()));
    }
    all
}

fn start() -> Option<Site> {
    let setup = Setup { partitions: Some(PARTITIONS.to_owned()), ..Setup::new(3, 8) };
    let slurm = setup.start("slurm_agrees_with_admission")?;
    let seen = site(&mut Process { env: slurm.env(), ..Process::default() }).unwrap();
    Some(Site { slurm, seen })
}

#[test]
fn slurm_agrees_with_admission() {
    let Some(world) = start() else { return };
    let SiteSeen { site, remarks } = &world.seen;
    assert_eq!(remarks, &Vec::new());
    assert_eq!((site.config.consumable.cores, site.config.consumable.memory), (Cores::Whole, true));
    assert_eq!(site.config.defaults.memory_mib_per_cpu, Some(100));
    assert_eq!(site.default_partition().unwrap().hosts, ["h1", "h2", "h3"]);
    assert_eq!(site.default_partition().unwrap().default_time, Limit::Seconds(1_800));
    assert_eq!(site.partition("small").unwrap().most_cpus_per_host, Some(8));

    // h1 has four cores left, h2 four GPUs; h3 is reserved in an hour.
    let computes = world.slurm.submit(&["-w", "h1", "-c28", "--mem=1G", "-t", "60"]);
    let holds = "--gres=gpu:g0:1,gpu:g1:1,gpu:g2:1,gpu:g3:1";
    let holds = world.slurm.submit(&["-w", "h2", holds, "-t", "60"]);
    world.slurm.await_state(computes, "RUNNING");
    world.slurm.await_state(holds, "RUNNING");
    let user = world.slurm.must(&["id", "-un"]);
    let user = format!("users={}", user.trim());
    let reserve = ["scontrol", "create", "reservation", "reservationname=maint", "nodes=h3"];
    let times = ["starttime=now+1hour", "duration=60", &user];
    world.slurm.must(&[&reserve[..], &times[..]].concat());

    starts_as_planned(&world);
    does_not_start(&world);
    what_slurm_would_do_is_valued(&world);
}

fn starts_as_planned(world: &Site) {
    use GpuCount::{PerHost, Total};
    let cases: Vec<(Ask, &[&str], &str)> = vec![
        (ask(Total(8)), &[], "h1:0-7"),
        (on(&["h1"], Ask { cpus_per_gpu: Some(1), ..ask(Total(4)) }), &[], "h1:0-3"),
        (on(&["h2", "h3"], ask(Total(12))), &[], "h2:4-7 h3:0-7"),
        (
            Ask {
                tasks: Some(4),
                cpus_per_task: Some(4),
                memory: Memory::PerGpu(7_000),
                features: vec![Features(vec![vec!["h100".into()]])],
                ..ask(Total(8))
            },
            &["-Ch100"],
            "h3:0-7",
        ),
        (
            Ask { hosts: Some(Hosts { least: 3, most: 3 }), ..ask(PerHost(3)) },
            &[],
            "h1:4-6 h2:4-6 h3:4-6",
        ),
        (Ask { exclusive: true, ..ask(PerHost(1)) }, &["--exclusive"], "h3:0"),
        (
            Ask {
                partitions: vec!["small".into()],
                time_limit: Limit::Seconds(1_800),
                ..ask(Total(2))
            },
            &["-t30"],
            "h3:0-1",
        ),
    ];
    for (ask, more, expected) in cases {
        let planned = world.plan(&ask).unwrap();
        let gpus = planned.layout.plan.gpus.iter();
        let shown: Vec<String> = gpus.map(|(host, mask)| format!("{host}:{mask}")).collect();
        assert_eq!((shown.join(" ").as_str(), &planned.start), (expected, &Start::Now));
        let options = options(&planned.layout, more);
        let options: Vec<&str> = options.iter().map(String::as_str).collect();
        let job = world.slurm.submit(&options);
        world.slurm.await_state(job, "RUNNING");
        let snapshot = world.snapshot();
        let parts = snapshot.jobs.iter().filter(|j| j.het.map_or(j.id, |het| het.leader) == job);
        let held: Vec<(String, GpuMask)> = parts.flat_map(|part| part.gpus.clone()).collect();
        assert_eq!(planned.layout.plan.differs(&held), None);
        world.cancel(job);
    }
}

/// What is not planned to start now does not start when it is left to Slurm.
fn does_not_start(world: &Site) {
    use GpuCount::{PerHost, Total};
    let three = Some(Hosts { least: 3, most: 3 });
    let cases: Vec<(Ask, &[&str])> = vec![
        (Ask { hosts: three, ..ask(PerHost(8)) }, &["-N3", "--gres=gpu:8"]),
        (
            on(&["h1"], Ask { tasks: Some(8), ..ask(Total(8)) }),
            &["-N1", "-wh1", "-n8", "--gres=gpu:8"],
        ),
        (
            on(&["h1"], Ask { memory: Memory::PerHost(63_500), ..ask(Total(1)) }),
            &["-N1", "-wh1", "--mem=63500", "--gres=gpu:1"],
        ),
        (
            on(&["h1"], Ask { memory: Memory::PerHost(0), ..ask(Total(1)) }),
            &["-N1", "-wh1", "--mem=0", "--gres=gpu:1"],
        ),
        (
            on(&["h2"], Ask { exclusive: true, ..ask(PerHost(1)) }),
            &["-N1", "-wh2", "--exclusive", "--gres=gpu:g7:1"],
        ),
        (
            on(&["h3"], Ask { time_limit: Limit::Seconds(7_200), ..ask(Total(1)) }),
            &["-N1", "-wh3", "-t120", "--gres=gpu:1"],
        ),
        (
            Ask {
                partitions: vec!["small".into()],
                cpus_per_task: Some(16),
                time_limit: Limit::Seconds(1_800),
                ..ask(Total(1))
            },
            &["-psmall", "-c16", "-t30", "--gres=gpu:1"],
        ),
        (
            Ask { features: vec![Features(vec![vec!["none".into()]])], ..ask(Total(1)) },
            &["-Cnone", "--gres=gpu:1"],
        ),
        (
            Ask { time_limit: Limit::Seconds(3 * 86_400), ..ask(Total(1)) },
            &["-t3-0", "--gres=gpu:1"],
        ),
        (
            Ask {
                hosts: Some(Hosts { least: 2, most: 2 }),
                partitions: vec!["small".into()],
                ..ask(PerHost(1))
            },
            &["-N2", "-psmall", "-t30", "--gres=gpu:1"],
        ),
    ];
    for (ask, options) in cases {
        let planned = world.plan(&ask);
        assert!(!matches!(&planned, Ok(planned) if planned.start == Start::Now), "{ask:?}");
        let argv = [&["sbatch", "--parsable", "-o/dev/null", "-D/"], options].concat();
        let reply = world.slurm.run(&[&argv[..], &["--wrap", "sleep 60"]].concat());
        if !reply.status.success() {
            continue;
        }
        let job = String::from_utf8(reply.stdout).unwrap().trim().to_owned();
        // A job that was looked at and not started has a reason.
        let word = |format: &str| world.slurm.must(&["squeue", "-h", "-j", &job, "-o", format]);
        world.slurm.eventually("Slurm has looked at the job", || {
            word("%r").trim() != "None" || word("%T").trim() != "PENDING"
        });
        assert_eq!(word("%T").trim(), "PENDING", "{options:?} {planned:?}");
        world.cancel(job.parse().unwrap());
    }
}

fn what_slurm_would_do_is_valued(world: &Site) {
    let two = ask(GpuCount::PerHost(2));
    let argv = ["sbatch", "--test-only", "-wh[2-3]", "-N2", "--gres=gpu:2", "--wrap", "true"];
    let reply = world.slurm.run(&argv);
    let choice = stock::read(&String::from_utf8(reply.stderr).unwrap()).unwrap();
    assert_eq!((choice.hosts.len(), choice.partition.as_str()), (2, "gpu"));
    assert!(choice.at_s.is_some());
    let worth = world.with(|given| stock::worth(given, &two, &choice)).unwrap();
    // Any two of four, and of eight.
    assert_eq!(worth.sets, Some(6 * 28));
    let reply = world.slurm.run(&["sbatch", "--test-only", "-N9", "--wrap", "true"]);
    let said = stock::read(&String::from_utf8(reply.stderr).unwrap()).unwrap_err();
    assert!(said.contains("not available"), "{said}");
}
