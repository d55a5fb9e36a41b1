use super::*;
use crate::{JobState, Limit};

const NODE: &str = "\
NodeName=h1 Arch=x86_64 CoresPerSocket=16
   CPUAlloc=2 CPUEfctv=32 CPUTot=32 CPULoad=2.44
   AvailableFeatures=h100,ib
   ActiveFeatures=h100,ib
   Gres=gpu:g0:1(S:0),gpu:g1:1(S:0),gpu:g2:1(S:1)
   GresUsed=gpu:g0:0(IDX:N/A),gpu:g1:1(IDX:1),gpu:g2:0(IDX:N/A)
   OS=Linux 6.1 #1 SMP State=DOWN
   RealMemory=100000 AllocMem=2048 FreeMem=18164 Sockets=2 Boards=1
   State=IDLE*+DRAIN ThreadsPerCore=1 TmpDisk=0 Weight=1 Owner=N/A MCS_label=N/A
   Partitions=gpu,debug
   Reason=fan is State=BAD [root@2026-11-30T18:34:20]
";

const JOB: &str = "\
JobId=12 ArrayJobId=11 ArrayTaskId=3 JobName=my JobState=FAILED run
   UserId=ann(1000) GroupId=ann(1000) MCS_label=N/A
   Priority=4294901758 Nice=0 Account=(null) QOS=normal
   JobState=RUNNING Reason=None Dependency=(null)
   RunTime=00:00:02 TimeLimit=1-00:30:00 TimeMin=N/A
   SubmitTime=2026-11-30T18:34:20 EligibleTime=2026-11-30T18:34:20
   StartTime=2026-11-30T18:34:20 EndTime=Unknown Deadline=N/A
   Partition=gpu AllocNode:Sid=localhost:20750
   ReqNodeList=(null) ExcNodeList=h9
   NodeList=h[1-3]
   NumNodes=3-3 NumCPUs=6 NumTasks=3 CPUs/Task=2 ReqB:S:C:T=0:0:*:*
   JOB_GRES=gpu:7
     Nodes=h[1-2] CPU_IDs=0-1 Mem=0 GRES=gpu:2(IDX:0,5)
     Nodes=h3 CPU_IDs=0-1 Mem=0 GRES=gpu:3(IDX:1-3)
   MinCPUsNode=2 MinMemoryNode=1.50G MinTmpDiskNode=0
   Features=h100&ib DelayBoot=00:00:00
   TresPerNode=gres:gpu:2
";

#[test]
fn a_host_is_read_whole() {
    let Parsed { value, diagnostics } = hosts(NODE);
    assert_eq!(diagnostics, []);
    let host = &value[0];
    assert_eq!(
        (host.state.as_str(), host.flags.as_slice()),
        ("IDLE", &["NOT_RESPONDING".to_owned(), "DRAIN".to_owned()][..])
    );
    assert_eq!(host.closed_by(), Some("NOT_RESPONDING"));
    assert_eq!(host.reason, "fan is State=BAD");
    assert_eq!(
        (host.cpus, host.cpus_in_use, host.memory_mib, host.memory_in_use_mib),
        (32, 2, 100_000, 2048)
    );
    assert_eq!((host.features.len(), host.partitions.len()), (2, 2));
    assert_eq!((host.gpus.len(), host.gpus_in_use().to_string()), (3, "1".to_owned()));
    assert_eq!(host.gpus[2].kind.as_deref(), Some("g2"));
}

#[test]
fn a_job_is_read_whole_and_its_name_is_only_a_name() {
    let Parsed { value, diagnostics } = jobs(JOB);
    assert_eq!(diagnostics, []);
    let job = &value[0];
    assert_eq!(job.name, "my JobState=FAILED run");
    assert_eq!((job.state, job.label()), (JobState::Running, "11_3".to_owned()));
    assert_eq!(job.user, "ann");
    let gpus: Vec<String> = job.gpus.iter().map(|(host, mask)| format!("{host}:{mask}")).collect();
    assert_eq!(gpus, ["h1:0,5", "h2:0,5", "h3:1-3"]);
    assert_eq!(job.request.time_limit, Limit::Seconds(88_200));
    assert_eq!(job.request.memory_mib_per_host, Some(1536));
    assert_eq!((job.request.hosts, job.request.cpus, job.request.tasks), (3, 6, Some(3)));
    assert_eq!((job.start_s, job.end_s), (Some(1_796_063_660), None));
}

#[test]
fn one_line_says_the_same_as_many() {
    let line = |text: &str| text.lines().map(str::trim).collect::<Vec<_>>().join(" ");
    let plain = JOB.replace("my JobState=FAILED run", "my run");
    assert_eq!(jobs(&line(&plain)).value, jobs(&plain).value);
    // In one line nothing tells where a name ends: then nothing is believed.
    let forged = jobs(&line(JOB));
    assert!(forged.value.is_empty() && forged.has_errors(), "{forged:?}");
}

#[test]
fn damage_is_named_with_its_line() {
    let text = NODE.replace("CPUTot=32", "CPUTot=many").replace("gpu:g2:1(S:1)", "gpu:g2:x");
    let read = hosts(&text);
    let places: Vec<(u32, &str)> =
        read.diagnostics.iter().map(|d| (d.line, d.field.as_str())).collect();
    assert_eq!(places, [(5, "Gres"), (2, "CPUTot")]);
    let read = jobs("slurm_load_jobs error: Unable to contact slurm controller\n");
    assert_eq!((read.value.len(), read.diagnostics[0].line), (0, 1));
    assert!(jobs("No jobs in the system\n").diagnostics.is_empty());
    let odd = jobs(&JOB.replace("JobState=RUNNING", "JobState=DANCING"));
    assert_eq!((odd.value.len(), odd.diagnostics[0].line), (0, 4));
}

#[test]
fn damaged_texts_never_panic() {
    for text in [NODE, JOB] {
        for end in (0..text.len()).filter(|end| text.is_char_boundary(*end)) {
            let (cut, rest) = text.split_at(end);
            for piece in [
                cut.to_owned(),
                rest.to_owned(),
                format!("{cut}é={rest}"),
                format!("{cut}\n{rest}"),
            ] {
                hosts(&piece);
                jobs(&piece);
                reservations(&piece);
            }
        }
    }
}

#[test]
fn reservations_have_hosts_and_times() {
    let text = "ReservationName=maint StartTime=2026-11-30T18:34:20 EndTime=2026-11-30T19:34:20 Duration=01:00:00
   Nodes=h[1-2] NodeCnt=2 CoreCnt=32 Features=(null) PartitionName=(null) Flags=IGNORE_JOBS,SPEC_NODES
   TRES=cpu=32
   Users=root Groups=(null) Accounts=(null) Licenses=(null) State=ACTIVE BurstBuffer=(null) Watts=n/a
   MaxStartDelay=(null)
";
    let read = reservations(text);
    assert_eq!(read.diagnostics, []);
    let one = &read.value[0];
    assert_eq!((one.name.as_str(), one.hosts.len(), one.active), ("maint", 2, true));
    assert_eq!(one.end_s, Some(1_796_067_260));
    assert_eq!(one.users, "root");
}
