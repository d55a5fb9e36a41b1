//! The reading of a submit.

use std::collections::BTreeMap;

use bandpilot_manager::audit;
use bandpilot_manager::exchange::Call;
use bandpilot_readers::{Diagnostic, hostlist};

use super::gpus::Said;
use super::sources::{Given, Origin, Sources, at, may_ask_for_gpus};
use super::table::{Key, Use};
use super::{GpuType, Program, features, values};
use crate::submit::ask::{Ask, GpuCount, Memory};
use crate::submit::script::{Directives, directives};
use crate::submit::{Export, Passed, Reading, Submission, Untouched, Work, Written};
use crate::{Limit, Remark};

/// Environment variables.
pub type Environment = BTreeMap<String, String>;

/// Options that are looked at and passed on all the same.
const HANDED_ON: [Key; 3] = [Key::ExportFile, Key::IgnorePbs, Key::TresPerTask];
/// The name of the script that comes through standard input.
const STDIN: &str = "-";

/// Reads the words behind `sbatch` or `srun`, without bandpilot's own, with what the environment and the script say.
///
/// `read_file` gives the text of a script (`-` is standard input) or of a list of hosts; a name without a slash is to be
/// looked for as sbatch does it, in the current folder and then in `PATH`.
///
/// # Errors
/// What is wrong with a job that asks for GPUs, each with the place: the script, the name of a variable, or
/// `sbatch options`. What is wrong with any other job is left to Slurm, which gets it untouched.
pub fn read(
    program: Program,
    args: &[String],
    env: &Environment,
    read_file: &mut dyn FnMut(&str) -> Result<String, String>,
) -> Result<Reading, Vec<Remark>> {
    let words: Vec<&str> = args.iter().map(String::as_str).collect();
    let mut sources = Sources::default();
    let components: Vec<&[&str]> = words.split(|word| *word == ":").collect();
    let rest = sources.add_command_line(program, components[0]);
    let mut call = Call { argv: vec![program.name().to_owned()], ..Call::default() };
    call.argv.extend_from_slice(args);
    if let Some(why) = no_job(program, &sources, env) {
        return Ok(Reading::Untouched { why, call });
    }
    let script = match run(program, &sources, &rest, read_file).map_err(|error| vec![error])? {
        Ok(script) => script,
        // The command may stand behind another component; that is refused below.
        Err(_) if components.len() > 1 => Script::default(),
        Err(why) => return Ok(Reading::Untouched { why, call }),
    };
    if script.name == STDIN {
        call.stdin.clone_from(&script.text);
    }
    let directives = directives(&script.text);
    sources.add_script(&directives);
    sources.add_variables(program, env);
    let several = components.len() > 1 || directives.component.is_some();
    let elsewhere = components[1..].iter().any(|words| {
        let mut others = Sources::default();
        others.add_command_line(program, words);
        others.ask_for_gpus()
    });
    let unclear = || {
        let lines = directives.words.iter().map(|word| word.text.as_str());
        may_ask_for_gpus(words.iter().copied().chain(lines))
    };
    if !sources.ask_for_gpus() && !elsewhere && (sources.wrong.is_empty() || !unclear()) {
        return Ok(Reading::Untouched { why: Untouched::NoGpus, call });
    }
    let mut reader = Reader { program, script, sources, errors: Vec::new(), remarks: Vec::new() };
    if several {
        reader.refuse_components(&directives);
    }
    let submission = reader.submission(env, &directives, call, read_file);
    submission.map(|submission| Reading::Planned(Box::new(submission)))
}

fn no_job(program: Program, sources: &Sources, env: &Environment) -> Option<Untouched> {
    let inside = ["SLURM_JOB_ID", "SLURM_JOBID"]
        .iter()
        .any(|name| env.get(*name).is_some_and(|id| !id.is_empty()));
    if program == Program::Srun && inside {
        return Some(Untouched::InsideJob);
    }
    let option = sources.command_line.iter().find(|given| given.becomes() == Use::NoJob)?;
    Some(Untouched::NoJob(option.spec?.name()))
}

/// What is run, and by which name it is known.
#[derive(Default)]
struct Script {
    /// For messages.
    name: String,
    /// Empty if it is none.
    text: String,
    job_name: String,
    work: Work,
}

/// What is run; the inner error says that Slurm would refuse it.
fn run(
    program: Program,
    sources: &Sources,
    rest: &[&str],
    read_file: &mut dyn FnMut(&str) -> Result<String, String>,
) -> Result<Result<Script, Untouched>, Remark> {
    let rest: Vec<String> = rest.iter().map(|word| (*word).to_owned()).collect();
    let plain = |job_name: &str, work| Script {
        name: String::new(),
        text: String::new(),
        job_name: job_name.to_owned(),
        work,
    };
    let wrap = sources
        .command_line
        .iter()
        .rev()
        .find(|given| given.spec.is_some_and(|spec| spec.key() == Some(Key::Wrap)));
    Ok(match (program, wrap, rest.split_first()) {
        (Program::Srun, _, None) | (Program::Sbatch, Some(_), Some(_)) => {
            Err(Untouched::NothingToRun)
        }
        (Program::Srun, _, Some(_)) => Ok(plain("", Work::Command(rest))),
        (Program::Sbatch, Some(wrap), None) => {
            Ok(plain("wrap", Work::Wrap(wrap.value.clone().unwrap_or_default())))
        }
        (Program::Sbatch, None, first) => {
            let name = first.map_or(STDIN, |(name, _)| name).to_owned();
            let text = read_file(&name).map_err(|reason| {
                (name.clone(), Diagnostic::error("", format!("cannot be read: {reason}")))
            })?;
            // Slurm refuses both kinds.
            if !text.starts_with("#!") || text.contains("\r\n") {
                return Ok(Err(Untouched::NothingToRun));
            }
            let args = first.map_or(&[][..], |(_, args)| args).to_vec();
            let job_name = match name.rsplit('/').next() {
                Some(STDIN) | None => "sbatch".to_owned(),
                Some(base) => base.to_owned(),
            };
            Ok(Script { name, text: text.clone(), job_name, work: Work::Script { text, args } })
        }
    })
}

struct Reader {
    program: Program,
    script: Script,
    sources: Sources,
    errors: Vec<Remark>,
    remarks: Vec<Remark>,
}

impl Reader {
    fn submission(
        mut self,
        env: &Environment,
        directives: &Directives,
        untouched: Call,
        read_file: &mut dyn FnMut(&str) -> Result<String, String>,
    ) -> Result<Submission, Vec<Remark>> {
        for (origin, wrong) in std::mem::take(&mut self.sources.wrong) {
            self.error(origin, wrong);
        }
        let (exclusive, partly) = self.exclusive();
        let mut ask = self.ask(exclusive, read_file);
        let (gpu_types, other_gres) = self.gpus(&mut ask);
        let per_task = self.value(Key::GpusPerTask, values::gpus);
        let passed = self.passed(partly);
        let export = self.export();
        let comment = self.comment();
        self.notice_pbs(directives);
        let job_name = self.text(Key::JobName);
        let superseded = self.superseded(env);
        let gpu_bind = self.is_said("gpu-bind");
        let waits = self.sources.of(Key::Wait).is_some();
        let written = Written {
            constraint: self.text(Key::Constraint),
            time: self.text(Key::Time),
            gpu_bind,
        };
        if !self.errors.is_empty() {
            return Err(self.errors);
        }
        Ok(Submission {
            program: self.program,
            ask,
            gpu_types,
            gpus_per_task: per_task
                .map(|list| list.iter().map(|gpus| gpus.count).sum())
                .filter(|count| *count > 0),
            other_gres,
            passed,
            job_name: if job_name.is_empty() { self.script.job_name } else { job_name },
            work: self.script.work,
            comment,
            export,
            written,
            parsable: self.sources.of(Key::Parsable).is_some(),
            waits,
            quiet: self.sources.of(Key::Quiet).is_some(),
            variables: env.keys().cloned().collect(),
            superseded,
            remarks: self.remarks,
            untouched,
        })
    }

    fn ask(
        &mut self,
        exclusive: bool,
        read_file: &mut dyn FnMut(&str) -> Result<String, String>,
    ) -> Ask {
        let partitions = self.text(Key::Partition);
        Ask {
            gpus: GpuCount::Total(0),
            gpu_model: None,
            hosts: self.value(Key::Nodes, values::hosts),
            tasks: self.value(Key::Ntasks, values::count),
            tasks_per_host: self.value(Key::NtasksPerNode, values::count),
            tasks_per_gpu: None,
            cpus_per_task: self.value(Key::CpusPerTask, values::count),
            cpus_per_gpu: self.value(Key::CpusPerGpu, values::count),
            memory: self.memory(),
            named_hosts: self.hosts(Key::Nodelist, read_file),
            excluded_hosts: self.hosts(Key::Exclude, read_file),
            features: self.value(Key::Constraint, features::read).unwrap_or_default(),
            partitions: partitions
                .split(',')
                .filter(|name| !name.is_empty())
                .map(ToOwned::to_owned)
                .collect(),
            reservation: self.text(Key::Reservation),
            exclusive,
            time_limit: self.value(Key::Time, values::time).unwrap_or(Limit::Unset),
            account: self.text(Key::Account),
            begin: self.text(Key::Begin),
            dependency: self.text(Key::Dependency),
            array: self.value(Key::Array, values::array),
        }
    }

    fn error(&mut self, origin: Origin, error: Diagnostic) {
        self.errors.push(at(origin, self.program, &self.script.name, error));
    }

    fn refuse_components(&mut self, directives: &Directives) {
        let origin = directives.component.map_or(Origin::CommandLine, Origin::Script);
        let error = Diagnostic::error(
            ":",
            "separates components of a heterogeneous job, which bandpilot makes itself where a job needs them",
        );
        self.error(
            origin,
            error.help("ask for all GPUs at once, or submit with Slurm's own command"),
        );
    }

    /// The value of the option that counts; what is wrong with it is written down.
    fn value<T>(&mut self, key: Key, read: fn(&str) -> Result<T, String>) -> Option<T> {
        let given = self.sources.of(key)?;
        let text = given.value.as_deref().unwrap_or_default();
        match read(text) {
            Ok(value) => Some(value),
            Err(reason) => {
                let (origin, name) = (given.origin, name(given));
                self.error(origin, Diagnostic::error(name, reason));
                None
            }
        }
    }

    fn text(&self, key: Key) -> String {
        self.sources.of(key).and_then(|given| given.value.clone()).unwrap_or_default()
    }

    /// An option goes before a variable for another kind of memory; two of either are too many.
    fn memory(&mut self) -> Memory {
        let kinds = [Key::Mem, Key::MemPerCpu, Key::MemPerGpu];
        let is_variable = |key: &Key| {
            self.sources.of(*key).is_some_and(|given| matches!(given.origin, Origin::Variable(_)))
        };
        let said: Vec<Key> =
            kinds.into_iter().filter(|key| self.sources.of(*key).is_some()).collect();
        let by_option: Vec<Key> = said.iter().copied().filter(|key| !is_variable(key)).collect();
        let counts = if by_option.is_empty() { said } else { by_option };
        if let [_, second, ..] = counts[..] {
            let origin = self.sources.of(second).map_or(Origin::CommandLine, |given| given.origin);
            let error = Diagnostic::error(
                "--mem",
                "and --mem-per-cpu and --mem-per-gpu exclude each other",
            );
            self.error(origin, error);
        }
        let Some(key) = counts.first() else { return Memory::Unset };
        let kind = match key {
            Key::Mem => Memory::PerHost,
            Key::MemPerCpu => Memory::PerCpu,
            _ => Memory::PerGpu,
        };
        self.value(*key, values::memory).map_or(Memory::Unset, kind)
    }

    fn hosts(
        &mut self,
        key: Key,
        read_file: &mut dyn FnMut(&str) -> Result<String, String>,
    ) -> Vec<String> {
        let Some(given) = self.sources.of(key) else { return Vec::new() };
        let text = given.value.clone().unwrap_or_default();
        let (origin, name) = (given.origin, name(given));
        let listed = if text.contains('/') {
            let read =
                read_file(&text).map_err(|reason| format!("{text}: cannot be read: {reason}"));
            read.map(|text| text.split_whitespace().collect::<Vec<&str>>().join(","))
        } else {
            Ok(text)
        };
        let expanded = listed.and_then(|list| {
            let list = list.trim_matches(',');
            hostlist::expand(list).map_err(|reason| format!("'{list}': {}", reason.message))
        });
        match expanded {
            Ok(mut hosts) => {
                let mut seen = std::collections::BTreeSet::new();
                hosts.retain(|host| seen.insert(host.clone()));
                hosts
            }
            Err(reason) => {
                self.error(origin, Diagnostic::error(name, reason));
                Vec::new()
            }
        }
    }

    /// Whether hosts are taken whole; and a form of it that is passed on.
    fn exclusive(&mut self) -> (bool, Option<String>) {
        let Some(given) = self.sources.of(Key::Exclusive) else { return (false, None) };
        let Some(form) =
            given.value.clone().filter(|form| ["user", "mcs", "topo"].contains(&form.as_str()))
        else {
            return (true, None);
        };
        let note = Diagnostic::note(
            "--exclusive",
            format!("={form} is passed on; for the plan the job shares its hosts"),
        );
        let note = at(given.origin, self.program, &self.script.name, note);
        self.remarks.push(note);
        (false, Some(form))
    }

    fn gpus(&mut self, ask: &mut Ask) -> (Vec<GpuType>, Vec<String>) {
        let some = |list: Option<Vec<GpuType>>| list.filter(|list| !list.is_empty());
        let (gres, others) = self.value(Key::Gres, values::gres).unwrap_or_default();
        let said = Said {
            total: some(self.value(Key::Gpus, values::gpus)),
            per_node: some(self.value(Key::GpusPerNode, values::gpus)),
            gres: some(Some(gres)),
            per_task: some(self.value(Key::GpusPerTask, values::gpus)),
            tasks_per_gpu: self.value(Key::NtasksPerGpu, values::count),
        };
        for (key, option) in
            [(Key::GpusPerSocket, "--gpus-per-node"), (Key::TresPerTask, "--gpus-per-task")]
        {
            let Some(given) = self.sources.of(key) else { continue };
            let value = given.value.as_deref().unwrap_or_default();
            if key == Key::GpusPerSocket || value.contains("gpu") {
                let error = Diagnostic::error(
                    name(given),
                    "cannot be planned: which GPUs are meant depends on the host",
                );
                let origin = given.origin;
                self.error(origin, error.help(format!("use {option}")));
            }
        }
        if !self.errors.is_empty() {
            return (Vec::new(), others);
        }
        match said.resolve(ask) {
            Ok(types) => (types, others),
            Err((field, reason)) => {
                self.error(Origin::CommandLine, Diagnostic::error(field, reason));
                (Vec::new(), others)
            }
        }
    }

    /// Options that are passed on, with what is to be said about them; refused ones become errors.
    fn passed(&mut self, exclusive: Option<String>) -> Vec<Passed> {
        let mut passed = Vec::new();
        let (mut errors, mut remarks) = (Vec::new(), Vec::new());
        for given in self.sources.others().chain(&self.sources.variables) {
            let from_variable = matches!(given.origin, Origin::Variable(_));
            let once = given.becomes() == Use::Once;
            match given.becomes() {
                Use::Refused(reason, help) => {
                    errors.push((given.origin, Diagnostic::error(name(given), reason).help(help)));
                    continue;
                }
                Use::Remarked(reason) => {
                    remarks.push((given.origin, Diagnostic::warning(name(given), reason)));
                }
                Use::Heeded(key) if !HANDED_ON.contains(&key) => continue,
                Use::Heeded(_) | Use::Passed | Use::Once | Use::NoJob => {}
            }
            if !from_variable {
                passed.push(Passed { words: given.words.clone(), once });
            }
        }
        passed.extend(
            exclusive
                .map(|form| Passed { words: vec![format!("--exclusive={form}")], once: false }),
        );
        for (origin, error) in errors {
            self.error(origin, error);
        }
        for (origin, remark) in remarks {
            self.remarks.push(at(origin, self.program, &self.script.name, remark));
        }
        passed
    }

    fn export(&mut self) -> Export {
        let file = self
            .sources
            .of(Key::ExportFile)
            .map(|given| (given.origin, Export::File(given.value.clone().unwrap_or_default())));
        let said = self.sources.of(Key::Export).map(|given| {
            let text = given.value.clone().unwrap_or_default();
            let is = |word: &str| text.eq_ignore_ascii_case(word);
            let all = text.split(',').any(|name| name.trim().eq_ignore_ascii_case("all"));
            let export = if all {
                Export::All(text)
            } else if is("none") || is("nil") || text.is_empty() {
                Export::None(text)
            } else {
                Export::List(text)
            };
            (given.origin, export)
        });
        let Some((origin, export)) = file.or(said) else { return Export::All(String::new()) };
        if matches!(export, Export::None(_) | Export::File(_)) {
            let note = Diagnostic::warning(
                "--export",
                "keeps BANDPILOT_PLAN, BANDPILOT_GPUS, BANDPILOT_RANKS, CUDA_DEVICE_ORDER and the hints for NCCL from the job",
            );
            let note = note.help("use --export=ALL, or set in the script what it needs");
            self.remarks.push(at(origin, self.program, &self.script.name, note));
        }
        export
    }

    fn comment(&mut self) -> String {
        let comment = self.text(Key::Comment);
        // What marks a job of bandpilot, without the id.
        let mark = audit::comment("");
        if comment.contains(&mark) {
            let origin =
                self.sources.of(Key::Comment).map_or(Origin::CommandLine, |given| given.origin);
            let error = Diagnostic::error(
                "--comment",
                format!("holds '{mark}', by which bandpilot finds its jobs"),
            );
            self.error(origin, error.help("write it otherwise"));
        }
        comment
    }

    fn notice_pbs(&mut self, directives: &Directives) {
        let ignored = self.sources.of(Key::IgnorePbs).is_some();
        if let (Some(line), false) = (directives.pbs, ignored) {
            let warning = Diagnostic::warning(
                "#PBS",
                "lines are not read by bandpilot; sbatch may still heed them",
            );
            let warning = warning.help("add --ignore-pbs, or write them as #SBATCH lines");
            self.remarks.push(at(Origin::Script(line), self.program, &self.script.name, warning));
        }
    }

    /// Variables of heeded options: what they say is now said by options, or would contradict the plan.
    fn superseded(&self, env: &Environment) -> Vec<String> {
        let heeded = super::table::options(self.program)
            .filter(|spec| spec.key().is_some_and(|key| !HANDED_ON.contains(&key)));
        let names = heeded.flat_map(|spec| spec.variables(self.program));
        let mut names: Vec<String> =
            names.filter(|name| env.contains_key(**name)).map(|name| (*name).to_owned()).collect();
        names.sort_unstable();
        names
    }

    /// Whether an option that is passed on was said, by option or variable.
    fn is_said(&self, name: &str) -> bool {
        let all = self.sources.others().chain(&self.sources.variables);
        let mut specs = all.filter_map(|given| given.spec);
        specs.any(|spec| spec.names.contains(&name))
    }
}

fn name(given: &Given) -> String {
    given.spec.map_or_else(String::new, super::table::Spec::name)
}
