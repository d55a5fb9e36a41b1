//! What all lines together say of each plan.

use std::collections::{BTreeMap, BTreeSet};

use bandpilot_readers::{Diagnostic, Parsed};
use serde_json::Value;

use super::{Entry, FORMAT, HEADER, Planned, Seen, Source, TORN, VERSION, What, line};

/// How far a plan has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum State {
    /// Made, and nothing is known of a job: its submitter is at it, or was killed.
    #[default]
    Planned,
    /// Handed over; the manager has not told yet what its job has.
    Submitted,
    /// Its job was taken back.
    Withdrawn,
    /// It was not handed over.
    Failed,
    /// Its job has what was planned, as the manager says and no host denies.
    Verified,
    /// Its job has something else, as at least one says.
    Differs,
    /// Its job is over, and the manager could not say any more what it had.
    Unseen,
}

/// What is known of one plan.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Known {
    /// Its id.
    pub id: String,
    /// When it was made, seconds since 1970; of its first line if the plan's own is missing.
    pub at_s: i64,
    /// The plan; `None` if its line is missing.
    pub planned: Option<Planned>,
    /// The job that it was last submitted as.
    pub job: Option<String>,
    /// How far it has come.
    pub state: State,
    /// Why it was withdrawn or failed; empty if neither.
    pub why: String,
    /// The plan that took its place.
    pub replaced_by: Option<String>,
    /// What its job was seen to have, in the order of lines, each with its time.
    pub facts: Vec<(i64, Seen)>,
}

/// What is known of all plans.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Audit {
    /// In the order of their first lines.
    pub plans: Vec<Known>,
    places: BTreeMap<String, usize>,
}

impl Audit {
    /// One of them.
    pub fn plan(&self, id: &str) -> Option<&Known> {
        self.plans.get(*self.places.get(id)?)
    }

    /// Those that were submitted, and the manager has not told yet what their jobs have or had.
    pub fn open(&self) -> impl Iterator<Item = &Known> {
        self.plans.iter().filter(|known| known.state == State::Submitted)
    }

    /// Takes up one more entry.
    pub fn add(&mut self, entry: Entry) {
        let Entry { plan, at_s, what } = entry;
        let place = *self.places.entry(plan.clone()).or_insert(self.plans.len());
        if place == self.plans.len() {
            self.plans.push(Known { id: plan, at_s, ..Known::default() });
        }
        if let Some(known) = self.plans.get_mut(place) {
            known.add(at_s, what);
        }
    }
}

impl Known {
    fn add(&mut self, at_s: i64, what: What) {
        match what {
            What::Plan(planned) => {
                // A second plan of one id is no plan: what was promised first holds.
                if self.planned.is_none() {
                    (self.at_s, self.planned) = (at_s, Some(*planned));
                }
            }
            What::Submitted { job } => {
                if matches!(self.state, State::Planned | State::Withdrawn | State::Failed) {
                    self.state = State::Submitted;
                }
                self.job = Some(job);
            }
            What::Withdrawn { job, why, replaced_by } => {
                self.state = State::Withdrawn;
                (self.job, self.why, self.replaced_by) = (Some(job), why, replaced_by);
            }
            What::Failed { why } => (self.state, self.why) = (State::Failed, why),
            What::Fact(seen) => {
                self.state = match (seen.agrees, seen.source, self.state) {
                    (Some(false), _, _) | (_, _, State::Differs) => State::Differs,
                    // One host of perhaps many.
                    (_, Source::Host, state) => state,
                    (Some(true), _, _) | (None, _, State::Verified) => State::Verified,
                    (None, _, _) => State::Unseen,
                };
                self.job.get_or_insert_with(|| seen.job.clone());
                self.facts.push((at_s, seen));
            }
        }
    }
}

/// Reads an audit and folds its entries. An empty text is an empty audit.
///
/// ```
/// use bandpilot_manager::audit::{self, State};
/// let text = format!("{}\n{}\n", audit::HEADER, r#"{"what":"submitted","plan":"7f3a","at_s":5,"job":"12"}"#);
/// let audit = audit::read(&text).value;
/// assert_eq!(audit.plan("7f3a").unwrap().state, State::Submitted);
/// ```
pub fn read(text: &str) -> Parsed<Audit> {
    let mut audit = Audit::default();
    let mut diagnostics = Vec::new();
    if is_torn_header(text) {
        return Parsed { value: audit, diagnostics };
    }
    if let Err(reason) = check_header(text) {
        return Parsed { value: audit, diagnostics: vec![reason] };
    }
    let mut warned = BTreeSet::new();
    let mut lines = (1_u32..).zip(text.split('\n')).skip(1).peekable();
    while let Some((number, text)) = lines.next() {
        // The piece behind the last line end is the only one that may be torn.
        let last = lines.peek().is_none();
        let text = text.trim();
        if text.is_empty() || text.starts_with('#') {
            continue;
        }
        match line::read(text) {
            Ok((entry, unknown)) => {
                let new = unknown.into_iter().filter(|key| warned.insert(key.clone()));
                diagnostics.extend(
                    new.map(|key| Diagnostic::warning(key, "unknown key, not used").at(number, 0)),
                );
                audit.add(entry);
            }
            Err(_) if text.ends_with(TORN) => {
                diagnostics.push(Diagnostic::note("", "a torn line, left out").at(number, 0));
            }
            Err(_) if last => {
                let torn = Diagnostic::warning("", "the last line is torn, left out");
                diagnostics.push(torn.at(number, 0).help("the next append closes it"));
            }
            Err(reason) => diagnostics.push(reason.at(number, 0)),
        }
    }
    for known in audit.plans.iter().filter(|known| known.planned.is_none()) {
        let message = format!("there is no line of plan '{}' itself", shown(&known.id));
        let help = "what its job was to get is not known: it is not compared";
        diagnostics.push(Diagnostic::warning("plan", message).help(help));
    }
    Parsed { value: audit, diagnostics }
}

/// Ids come from a file, and a terminal would obey control characters.
fn shown(id: &str) -> String {
    id.chars().take(60).map(|c| if c.is_control() { '?' } else { c }).collect()
}

/// True for an empty text and for a header that was not written to its end.
pub fn is_torn_header(text: &str) -> bool {
    HEADER.starts_with(text)
}

pub fn check_header(text: &str) -> Result<(), Diagnostic> {
    let first = text.split('\n').next().unwrap_or("");
    let header: Value = serde_json::from_str(first).unwrap_or(Value::Null);
    if header["format"] != FORMAT {
        let help = format!("an audit begins with the line '{HEADER}'");
        return Err(Diagnostic::error("", "the file is not an audit").at(1, 1).help(help));
    }
    if header["version"] == VERSION {
        return Ok(());
    }
    let message =
        format!("the audit is of version {}, this program reads {VERSION}", header["version"]);
    let help = "use the program that wrote it, or begin a new file";
    Err(Diagnostic::error("version", message).at(1, 1).help(help))
}
