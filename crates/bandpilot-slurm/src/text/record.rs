//! Records of `Key=Value` pairs.

use bandpilot_readers::{Diagnostic, Parsed, hostlist};

/// Keys whose value is free text up to the end of the line.
const FREE_TEXT: [&str; 11] = [
    "JobName",
    "Comment",
    "AdminComment",
    "SystemComment",
    "Extra",
    "Command",
    "WorkDir",
    "StdErr",
    "StdIn",
    "StdOut",
    "OS",
];

/// Most hosts of all jobs of a record together.
const MAX_HOSTS: usize = 100_000;

struct Pair {
    key: String,
    value: String,
    line: u32,
}

/// What is said of one host, job or reservation.
pub(super) struct Record {
    line: u32,
    pairs: Vec<Pair>,
    contradiction: bool,
    room: usize,
    pub(super) remarks: Vec<Diagnostic>,
}

impl Record {
    /// A value; empty if it is not there or Slurm's word for nothing.
    pub(super) fn text(&mut self, key: &str) -> String {
        let mut found = self.pairs.iter().filter(|pair| pair.key == key);
        let Some(first) = found.next() else { return String::new() };
        let other = found.find(|pair| pair.value != first.value).map(|pair| pair.line);
        let value = match first.value.as_str() {
            "(null)" | "N/A" | "n/a" => String::new(),
            value => value.to_owned(),
        };
        // The hosts of a job have a pair each.
        if let Some(line) = other.filter(|_| key != "Nodes") {
            let reason = Diagnostic::error(key, "stands twice with different values");
            self.remarks.push(reason.at(line, 0));
            self.contradiction = true;
        }
        value
    }

    /// A number; a value that is none is reported.
    pub(super) fn number<T: std::str::FromStr>(&mut self, key: &str) -> Option<T> {
        let value = self.text(key);
        if value.is_empty() {
            return None;
        }
        let number = value.parse().ok();
        if number.is_none() {
            self.error(key, format!("'{value}' is not a number that fits here"));
        }
        number
    }

    /// The pairs of these keys in order.
    pub(super) fn all(&self, keys: &[&str]) -> Vec<(String, String)> {
        let chosen = self.pairs.iter().filter(|pair| keys.contains(&pair.key.as_str()));
        chosen.map(|pair| (pair.key.clone(), pair.value.clone())).collect()
    }

    /// The names of a hostlist; one that is wrong is reported.
    pub(super) fn hosts(&mut self, key: &str, list: &str) -> Vec<String> {
        if matches!(list, "" | "(null)") {
            return Vec::new();
        }
        match hostlist::expand(list) {
            Ok(names) if names.len() <= self.room => {
                self.room -= names.len();
                names
            }
            Ok(_) => {
                self.error(key, format!("more than {MAX_HOSTS} hosts"));
                Vec::new()
            }
            Err(reason) => {
                self.error(key, reason.message);
                Vec::new()
            }
        }
    }

    pub(super) const fn contradicts_itself(&self) -> bool {
        self.contradiction
    }

    pub(super) fn error(&mut self, key: &str, message: impl Into<String>) {
        self.remarks.push(Diagnostic::error(key, message).at(self.line_of(key), 0));
    }

    pub(super) fn warning(&mut self, key: &str, message: impl Into<String>) {
        self.remarks.push(Diagnostic::warning(key, message).at(self.line_of(key), 0));
    }

    fn line_of(&self, key: &str) -> u32 {
        self.pairs.iter().find(|pair| pair.key == key).map_or(self.line, |pair| pair.line)
    }
}

/// The records that begin with a key, and what is none of them.
pub(super) fn records(text: &str, first: &str) -> Parsed<Vec<Record>> {
    let mut blocks: Vec<Vec<(u32, &str)>> = Vec::new();
    let mut diagnostics = Vec::new();
    for (line, number) in text.lines().zip(1_u32..) {
        let begins = line.strip_prefix(first).is_some_and(|rest| rest.starts_with('='));
        if begins {
            blocks.push(vec![(number, line)]);
        } else if line.trim().is_empty() || line.starts_with("No ") {
            // `No jobs in the system`
        } else if let Some(block) = blocks.last_mut().filter(|_| line.starts_with(' ')) {
            block.push((number, line));
        } else {
            let shown: String = line.chars().take(60).collect();
            let message = format!("'{shown}' belongs to no {first}=..., not used");
            diagnostics.push(Diagnostic::error("", message).at(number, 0));
        }
    }
    let value = blocks
        .into_iter()
        .map(|block| Record {
            line: block.first().map_or(0, |(number, _)| *number),
            pairs: pairs(&block),
            contradiction: false,
            room: MAX_HOSTS,
            remarks: Vec::new(),
        })
        .collect();
    Parsed { value, diagnostics }
}

fn pairs(block: &[(u32, &str)]) -> Vec<Pair> {
    let in_lines = block.len() > 1;
    let mut pairs: Vec<Pair> = Vec::new();
    for (line, text) in block {
        let mut free = false;
        for (at, word) in text.split(' ').filter(|word| !word.is_empty()).enumerate() {
            let key = word.split_once('=').filter(|(key, _)| !free && is_key(key));
            match (key, pairs.last_mut()) {
                (Some((key, value)), _) => {
                    pairs.push(Pair { key: key.to_owned(), value: value.to_owned(), line: *line });
                    // The reason of a host has a line of its own, that of a job is one word.
                    free = in_lines && (FREE_TEXT.contains(&key) || key == "Reason" && at == 0);
                }
                (None, Some(pair)) => {
                    pair.value.push(' ');
                    pair.value.push_str(word);
                }
                (None, None) => {}
            }
        }
    }
    pairs
}

fn is_key(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_uppercase())
        && text.bytes().all(|b| b.is_ascii_alphanumeric() || b"_/:&.".contains(&b))
}
