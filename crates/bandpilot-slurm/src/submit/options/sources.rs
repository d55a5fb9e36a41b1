//! Where options stand: command line, environment, script.

use bandpilot_readers::Diagnostic;

use super::table::{Key, Spec, Takes, Use, options};
use super::words::{Part, scan};
use super::{Environment, Program, values};
use crate::Remark;
use crate::submit::script::Directives;

/// Where an option was said.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Origin {
    CommandLine,
    Variable(&'static str),
    /// The line.
    Script(u32),
}

/// An option with its value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Given {
    /// `None` for one of a plugin of the site.
    pub spec: Option<&'static Spec>,
    pub value: Option<String>,
    /// As it was written; empty for a variable.
    pub words: Vec<String>,
    pub origin: Origin,
}

impl Given {
    pub fn becomes(&self) -> Use {
        self.spec.map_or(Use::Passed, |spec| spec.becomes)
    }
}

/// All options that were said.
#[derive(Debug, Default)]
pub(super) struct Sources {
    pub command_line: Vec<Given>,
    pub variables: Vec<Given>,
    pub script: Vec<Given>,
    /// What could not be read.
    pub wrong: Vec<(Origin, Diagnostic)>,
}

impl Sources {
    /// Reads the options of a command line, and gives the words behind them.
    pub fn add_command_line<'a>(&mut self, program: Program, words: &[&'a str]) -> Vec<&'a str> {
        let (parts, rest) = scan(program, words, &[]);
        for (_, part) in parts {
            self.add(part, Origin::CommandLine);
        }
        words[rest..].to_vec()
    }

    pub fn add_script(&mut self, directives: &Directives) {
        let words: Vec<&str> = directives.words.iter().map(|word| word.text.as_str()).collect();
        let line = |at: usize| directives.words.get(at).map_or(0, |word| word.line);
        let (parts, rest) = scan(Program::Sbatch, &words, &[]);
        for (span, part) in parts {
            self.add(part, Origin::Script(line(span.start)));
        }
        if let Some(word) = words.get(rest) {
            let error = Diagnostic::error("", format!("'{word}' is no option"));
            let help = "sbatch refuses such a line; quotes hold the words of a value together";
            self.wrong.push((Origin::Script(line(rest)), error.help(help)));
        }
        for (line, reason) in &directives.wrong {
            self.wrong.push((Origin::Script(*line), Diagnostic::error("", *reason)));
        }
    }

    pub fn add_variables(&mut self, program: Program, env: &Environment) {
        for spec in options(program) {
            let set = spec.variables(program).iter().find_map(|name| {
                let value = env.get(*name)?;
                (!value.is_empty() || spec.takes != Takes::Value).then_some((*name, value))
            });
            if let Some((name, value)) = set {
                self.variables.push(Given {
                    spec: Some(spec),
                    value: Some(value.clone()),
                    words: Vec::new(),
                    origin: Origin::Variable(name),
                });
            }
        }
    }

    fn add(&mut self, part: Part, origin: Origin) {
        let given = match part {
            Part::Known { spec, value, words } => Given { spec: Some(spec), value, words, origin },
            Part::Unknown(word) => Given { spec: None, value: None, words: vec![word], origin },
            Part::Own => return,
            Part::Bad { field, message, help } => {
                self.wrong.push((origin, Diagnostic::error(field, message).help(help)));
                return;
            }
        };
        let list = match origin {
            Origin::Script(_) => &mut self.script,
            _ => &mut self.command_line,
        };
        list.push(given);
    }

    /// The option that counts.
    pub fn of(&self, key: Key) -> Option<&Given> {
        let last = |list: &'_ [Given]| list.iter().rposition(|given| is(given, key));
        let of = |list: &'_ Vec<Given>| last(list).map(|at| (at, list.len()));
        if let Some((at, _)) = of(&self.command_line) {
            return self.command_line.get(at);
        }
        if let Some((at, _)) = of(&self.variables) {
            return self.variables.get(at);
        }
        last(&self.script).and_then(|at| self.script.get(at))
    }

    /// Options that are passed on or refused: those of the script, of which a variable does not go before it, then
    /// those of the command line.
    pub fn others(&self) -> impl Iterator<Item = &Given> {
        let hidden = |given: &&Given| {
            let spec = given.spec;
            spec.is_none() || !self.variables.iter().any(|variable| variable.spec == spec)
        };
        self.script.iter().filter(hidden).chain(&self.command_line)
    }

    /// True if any option asks for GPUs, in whatever form.
    pub fn ask_for_gpus(&self) -> bool {
        let count = |key| {
            let value = self.of(key).and_then(|given| given.value.as_deref());
            value.is_some_and(|text| {
                values::gpus(text).is_ok_and(|list| !list.is_empty()) || values::gpus(text).is_err()
            })
        };
        let text = |key| self.of(key).and_then(|given| given.value.as_deref()).unwrap_or_default();
        let gres = text(Key::Gres);
        [Key::Gpus, Key::GpusPerNode, Key::GpusPerTask, Key::GpusPerSocket].into_iter().any(count)
            || gres.contains("gpu") && values::gres(gres).map_or(true, |(gpus, _)| !gpus.is_empty())
            || self.of(Key::NtasksPerGpu).is_some()
            || text(Key::TresPerTask).contains("gpu")
    }
}

fn is(given: &Given, key: Key) -> bool {
    given.spec.is_some_and(|spec| spec.key() == Some(key))
}

/// True if words that could not be read may be about GPUs.
pub(super) fn may_ask_for_gpus<'a>(words: impl IntoIterator<Item = &'a str>) -> bool {
    words.into_iter().any(|word| word.contains("gpu") || word.starts_with("-G"))
}

/// What is to be said about a place.
pub(super) fn at(origin: Origin, program: Program, script: &str, remark: Diagnostic) -> Remark {
    match origin {
        Origin::CommandLine => (format!("{program} options"), remark),
        Origin::Variable(name) => (name.to_owned(), remark),
        Origin::Script(line) => (script.to_owned(), remark.at(line, 0)),
    }
}
