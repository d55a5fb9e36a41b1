//! Words into options, as `getopt_long` does it for Slurm: options end at the first word that is none.

use std::ops::Range;

use super::table::{Spec, Takes, options};
use super::{Own, Program};

/// An option among the words, or why there is none.
#[derive(Debug)]
pub(in crate::submit) enum Part {
    /// One of Slurm's.
    Known {
        /// Which.
        spec: &'static Spec,
        /// Its value.
        value: Option<String>,
        /// As it was written; a letter out of a bundle has a word of its own.
        words: Vec<String>,
    },
    /// A word that looks like an option of a plugin of the site.
    Unknown(String),
    /// One of bandpilot's own.
    Own,
    /// What is wrong, with the option and the mend.
    Bad { field: String, message: String, help: String },
}

/// The options at the beginning of the words, each with the words that it takes, and where the others begin.
pub(in crate::submit) fn scan(
    program: Program,
    words: &[&str],
    own: &[Own<'_>],
) -> (Vec<(Range<usize>, Part)>, usize) {
    let mut parts = Vec::new();
    let mut at = 0;
    while let Some(&word) = words.get(at) {
        if word == "--" {
            return (parts, at + 1);
        }
        let next = words.get(at + 1).copied();
        let start = at;
        at += 1;
        if let Some(long) = word.strip_prefix("--") {
            let (part, takes_next) = long_option(program, long, next, own);
            at += usize::from(takes_next);
            parts.push((start..at, part));
        } else if word.len() > 1 && word.starts_with('-') {
            let (bundle, takes_next) = letters(program, word, next);
            at += usize::from(takes_next);
            parts.extend(bundle.into_iter().map(|part| (start..at, part)));
        } else {
            return (parts, start);
        }
    }
    (parts, at.min(words.len()))
}

/// An option behind two dashes, and whether the next word is its value.
fn long_option(program: Program, long: &str, next: Option<&str>, own: &[Own<'_>]) -> (Part, bool) {
    let (name, value) = match long.split_once('=') {
        Some((name, value)) => (name, Some(value)),
        None => (long, None),
    };
    if let Some(own) = own.iter().find(|own| own.name == name) {
        return (Part::Own, own.takes_value && value.is_none() && next.is_some());
    }
    let written = format!("--{long}");
    let spec = match find(program, name) {
        Ok(Some(spec)) => spec,
        Ok(None) => return (unknown(program, written, value, next), false),
        Err(candidates) => {
            let message = format!("may be any of {}", candidates.join(", "));
            return (bad(&format!("--{name}"), message, "write it out"), false);
        }
    };
    let known = |value: Option<&str>, words| Part::Known {
        spec,
        value: value.map(ToOwned::to_owned),
        words,
    };
    match (spec.takes, value, next) {
        (Takes::Nothing, Some(_), _) => {
            (bad(&spec.name(), "takes no value".to_owned(), "leave out what follows '='"), false)
        }
        (Takes::Value, None, None) => (no_value(&spec.name()), false),
        (Takes::Value, None, Some(next)) => {
            (known(Some(next), vec![written, next.to_owned()]), true)
        }
        _ => (known(value, vec![written]), false),
    }
}

/// The option of a name that may be cut short.
///
/// # Errors
/// All that it may mean.
fn find(program: Program, name: &str) -> Result<Option<&'static Spec>, Vec<String>> {
    if let Some(exact) = options(program).find(|spec| spec.names.contains(&name)) {
        return Ok(Some(exact));
    }
    let begins = |spec: &&Spec| spec.names.iter().any(|long| long.starts_with(name));
    let found: Vec<&'static Spec> = options(program).filter(begins).collect();
    match found[..] {
        [] => Ok(None),
        [one] => Ok(Some(one)),
        _ => Err(found.iter().map(|spec| spec.name()).collect()),
    }
}

fn unknown(program: Program, written: String, value: Option<&str>, next: Option<&str>) -> Part {
    // Otherwise nobody can say whether the next word is its value or the script.
    if value.is_some() || next.is_none_or(|next| next.starts_with('-')) {
        return Part::Unknown(written);
    }
    let message = format!("is no option of {program} that bandpilot knows");
    let help = "if it has a value, write it behind '='; if not, put it before another option";
    bad(&written, message, help)
}

/// Options behind one dash, and whether the next word is the value of the last.
fn letters(program: Program, word: &str, next: Option<&str>) -> (Vec<Part>, bool) {
    let mut parts = Vec::new();
    for (at, letter) in word.char_indices().skip(1) {
        let Some(spec) = options(program).find(|spec| spec.letter == Some(letter)) else {
            let message = format!("is no option of {program}");
            parts.push(bad(&format!("-{letter}"), message, ""));
            return (parts, false);
        };
        let behind = &word[at + letter.len_utf8()..];
        let inline = (spec.takes != Takes::Nothing && !behind.is_empty()).then_some(behind);
        let mut words = vec![format!("-{letter}{}", inline.unwrap_or_default())];
        let mut value = inline;
        let takes_next = spec.takes == Takes::Value && inline.is_none();
        if takes_next {
            let Some(next) = next else {
                parts.push(no_value(&format!("-{letter}")));
                return (parts, false);
            };
            words.push(next.to_owned());
            value = Some(next);
        }
        parts.push(Part::Known { spec, value: value.map(ToOwned::to_owned), words });
        if takes_next || inline.is_some() {
            return (parts, takes_next);
        }
    }
    (parts, false)
}

fn bad(field: &str, message: String, help: &str) -> Part {
    Part::Bad { field: field.to_owned(), message, help: help.to_owned() }
}

fn no_value(field: &str) -> Part {
    bad(field, "needs a value".to_owned(), "write it behind the option")
}

/// Takes bandpilot's own options out of the words before the script or command: those, and all others. An own name
/// counts only written out, and goes before an option of Slurm's that could be cut short to it.
///
/// ```
/// use bandpilot_slurm::submit::options::{Own, Program, split_own};
/// let words: Vec<String> = "-N2 --explain --plan x job.sh --explain".split(' ').map(String::from).collect();
/// let own = [Own { name: "explain", takes_value: false }, Own { name: "plan", takes_value: true }];
/// let (own, rest) = split_own(Program::Sbatch, &words, &own);
/// assert_eq!(own, ["--explain", "--plan", "x"]);
/// assert_eq!(rest, ["-N2", "job.sh", "--explain"]);
/// ```
pub fn split_own(program: Program, args: &[String], own: &[Own<'_>]) -> (Vec<String>, Vec<String>) {
    let words: Vec<&str> = args.iter().map(String::as_str).collect();
    let (parts, _) = scan(program, &words, own);
    let mut is_own = vec![false; args.len()];
    for (span, part) in parts {
        if matches!(part, Part::Own) {
            is_own[span].fill(true);
        }
    }
    let pick = |wanted| {
        let chosen = args.iter().zip(&is_own).filter(move |(_, own)| **own == wanted);
        chosen.map(|(word, _)| word.clone()).collect()
    };
    (pick(true), pick(false))
}
