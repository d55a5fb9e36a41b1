use super::*;
use bandpilot_readers::Parsed;

const CONFIG: &str = "\
Configuration data as of 2026-11-30T20:14:09
DefMemPerNode           = UNLIMITED
EpilogMsgTime           = 2000 usec
GresTypes               = gpu,shard
JobDefaults             = DefCpuPerGPU=4
MaxMemPerCPU            = 4096
MinJobAge               = 300 sec
PriorityType            = priority/multifactor
SchedulerType           = sched/backfill
SelectType              = select/cons_tres
SelectTypeParameters    = CR_CORE_MEMORY
SLURM_VERSION           = 22.05.8

Slurmctld(primary) at vm is UP
";

const PARTITIONS: &str = "\
PartitionName=gpu
   AllowGroups=ml,ops AllowAccounts=ALL AllowQos=ALL
   AllocNodes=ALL Default=YES QoS=N/A
   DefaultTime=01:00:00 DisableRootJobs=NO ExclusiveUser=NO GraceTime=0 Hidden=NO
   MaxNodes=4 MaxTime=2-00:00:00 MinNodes=0 LLN=NO MaxCPUsPerNode=16 MaxCPUsPerSocket=UNLIMITED
   Nodes=n[1-2],n7
   PriorityJobFactor=1 PriorityTier=1 RootOnly=NO ReqResv=NO OverSubscribe=NO
   OverTimeLimit=NONE PreemptMode=OFF
   State=UP TotalCPUs=64 TotalNodes=2 SelectTypeParameters=NONE
   JobDefaults=DefMemPerGPU=8000
   DefMemPerNode=UNLIMITED MaxMemPerNode=32000
   TRES=cpu=64,mem=200000M,node=2,billing=64

PartitionName=whole
   AllowGroups=ALL DenyAccounts=guest AllowQos=ALL
   Default=NO DefaultTime=NONE MaxNodes=UNLIMITED MaxTime=UNLIMITED MinNodes=2 MaxCPUsPerNode=UNLIMITED
   Nodes=(null) ReqResv=YES OverSubscribe=EXCLUSIVE State=DRAIN
   JobDefaults=(null) DefMemPerCPU=500 MaxMemPerNode=UNLIMITED
";

#[test]
fn settings_are_read() {
    let Parsed { value: config, diagnostics } = text::config(CONFIG);
    assert_eq!(diagnostics, []);
    assert_eq!((config.version.as_str(), config.min_job_age_s), ("22.05.8", Some(300)));
    assert_eq!(config.gres_types, ["gpu", "shard"]);
    let shared = Consumable { whole_hosts: false, cores: Cores::Whole, memory: true };
    assert_eq!(config.consumable, shared);
    let defaults = Defaults {
        cpus_per_gpu: Some(4),
        most_memory_mib_per_cpu: Some(4096),
        ..Defaults::default()
    };
    assert_eq!(config.defaults, defaults);
    assert_eq!(
        (config.scheduler.as_str(), config.priority.as_str()),
        ("sched/backfill", "priority/multifactor")
    );
}

#[test]
fn what_jobs_share_is_read() {
    let cases = [
        ("select/cons_tres", "CR_CPU", false, Cores::Threads, false),
        ("select/cons_tres", "CR_CPU_MEMORY,CR_LLN", false, Cores::Threads, true),
        ("select/cons_tres", "CR_CORE,CR_ONE_TASK_PER_CORE", false, Cores::Whole, false),
        ("select/cons_res", "CR_SOCKET_MEMORY", false, Cores::Whole, true),
        ("select/cons_tres", "CR_MEMORY,CR_CORE_DEFAULT_DIST_BLOCK", false, Cores::Uncounted, true),
        ("select/linear", "CR_ONE_TASK_PER_CORE", true, Cores::Uncounted, false),
    ];
    for (select, parameters, whole_hosts, cores, memory) in cases {
        let text = format!("SelectType = {select}\nSelectTypeParameters = {parameters}\n");
        let read = text::config(&text).value.consumable;
        assert_eq!(read, Consumable { whole_hosts, cores, memory }, "{select} {parameters}");
    }
    let damaged = text::config(&CONFIG.replace("300 sec", "soon").replace("= 4096", "= much"));
    let fields: Vec<&str> = damaged.diagnostics.iter().map(|d| d.field.as_str()).collect();
    assert_eq!(fields, ["MaxMemPerCPU", "MinJobAge"]);
    assert_eq!(damaged.diagnostics[0].line, 6);
    assert!(text::config("nothing of it").has_errors());
}

#[test]
fn partitions_are_read() {
    let Parsed { value, diagnostics } = text::partitions(PARTITIONS);
    assert_eq!(diagnostics, []);
    let expected = Partition {
        name: "gpu".into(),
        default: true,
        hosts: ["n1", "n2", "n7"].map(String::from).to_vec(),
        state: "UP".into(),
        default_time: Limit::Seconds(3_600),
        max_time: Limit::Seconds(172_800),
        least_hosts: 0,
        most_hosts: Some(4),
        most_cpus_per_host: Some(16),
        sharing: Sharing::No,
        defaults: Defaults {
            memory_mib_per_gpu: Some(8_000),
            most_memory_mib_per_host: Some(32_000),
            ..Defaults::default()
        },
        allowed_accounts: None,
        denied_accounts: Vec::new(),
        allowed_groups: Some(vec!["ml".into(), "ops".into()]),
        wants_reservation: false,
    };
    assert_eq!(value[0], expected);
    let whole = &value[1];
    assert_eq!((whole.sharing, whole.state.as_str()), (Sharing::Exclusive, "DRAIN"));
    assert_eq!((whole.wants_reservation, whole.least_hosts, whole.most_hosts), (true, 2, None));
    assert_eq!(whole.denied_accounts, ["guest"]);
    assert_eq!((whole.max_time, whole.default_time), (Limit::Unlimited, Limit::Unset));
    let lines = |record: &str| record.lines().map(str::trim).collect::<Vec<_>>().join(" ");
    let short: Vec<String> = PARTITIONS.split("\n\n").map(lines).collect();
    assert_eq!(text::partitions(&short.join("\n")).value, value);
    let damaged = text::partitions(&PARTITIONS.replace("MaxNodes=4", "MaxNodes=four"));
    assert_eq!(damaged.diagnostics[0].field, "MaxNodes");
    assert_eq!(damaged.diagnostics[0].line, 5);
}

#[test]
fn the_partition_comes_before_the_cluster() {
    let cluster =
        Defaults { memory_mib_per_cpu: Some(100), cpus_per_gpu: Some(4), ..Defaults::default() };
    let partition = Defaults { memory_mib_per_host: Some(9), ..Defaults::default() };
    let both = partition.or(cluster);
    assert_eq!(
        (both.memory_mib_per_host, both.memory_mib_per_cpu, both.cpus_per_gpu),
        (Some(9), None, Some(4))
    );
    assert_eq!(Defaults::default().or(cluster), cluster);
}

#[test]
fn damaged_texts_never_panic() {
    for text in [CONFIG, PARTITIONS] {
        for end in 0..text.len() {
            let (head, tail) = text.split_at(end);
            for piece in [head.to_owned(), tail.to_owned(), format!("{head}é={tail}")] {
                text::config(&piece);
                text::partitions(&piece);
            }
        }
    }
}
