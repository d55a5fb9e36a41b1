//! A text as lines without terminal escapes, sorted by the host that they came from.

use std::collections::{BTreeMap, BTreeSet};

use crate::hostlist;

/// A line of the text, cleaned.
#[derive(Debug, Clone)]
pub(super) struct Line {
    /// Number in the whole text, from 1.
    pub(super) number: u32,
    /// Without escapes and without the name of the host in front.
    pub(super) text: String,
    /// True for the last line of a text that does not end with a line end: it may have been cut.
    pub(super) open: bool,
}

/// The lines of one host, or of several that said the same.
#[derive(Debug, Default)]
pub(super) struct Segment {
    /// Names of the hosts; empty if the text gives none.
    pub(super) hosts: Vec<String>,
    pub(super) lines: Vec<Line>,
}

/// The segments in the order in which their hosts occur; one without a name comes first if it has any lines.
pub(super) fn split(text: &str) -> Vec<Segment> {
    let lines = clean(text);
    let prefixes = prefixes(&lines);
    let mut segments = vec![Segment::default()];
    let mut by_prefix: BTreeMap<String, usize> = BTreeMap::new();
    let mut current = 0;
    let mut room = hostlist::MAX_HOSTS;
    let mut prompt: Option<String> = None;
    let mut at = 0;
    while let Some(line) = lines.get(at) {
        at += 1;
        if let Some((name, rest)) = prefix(&line.text).filter(|(name, _)| prefixes.contains(*name))
        {
            let index = *by_prefix.entry(name.to_owned()).or_insert(segments.len());
            if index == segments.len() {
                segments.push(Segment { hosts: vec![name.to_owned()], lines: Vec::new() });
            }
            let line = Line { text: rest.to_owned(), ..line.clone() };
            segments[index].lines.push(line);
            continue;
        }
        if let Some((hosts, taken)) = banner(&lines[at - 1..], room) {
            current = segments.len();
            room -= hosts.len();
            segments.push(Segment { hosts, lines: Vec::new() });
            at += taken - 1;
            continue;
        }
        // A session that goes on at another host.
        if let Some(host) = prompt_host(&line.text) {
            if prompt.as_deref().is_some_and(|before| before != host) {
                current = segments.len();
                segments.push(Segment::default());
            }
            prompt = Some(host.to_owned());
        }
        segments[current].lines.push(line.clone());
    }
    segments.retain(|segment| segment.lines.iter().any(|line| !line.text.trim().is_empty()));
    segments
}

/// The host of a shell prompt: `user@host:~$ ` or `[user@host ~]# `.
pub(super) fn prompt_host(line: &str) -> Option<&str> {
    let (user, rest) = line.trim_start().trim_start_matches('[').split_once('@')?;
    let host = rest.split(|c: char| !(c.is_ascii_alphanumeric() || "-_.".contains(c))).next()?;
    let behind = rest.get(host.len()..)?;
    let sign = behind.contains("$ ") || behind.contains("# ");
    let sound = sign && hostlist::is_host_name(user) && hostlist::is_host_name(host);
    sound.then_some(host)
}

fn clean(text: &str) -> Vec<Line> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let last = text.lines().count() as u32;
    let open = !text.ends_with('\n');
    text.lines()
        .zip(1_u32..)
        .map(|(line, number)| Line {
            number,
            text: without_escapes(line).trim_end().to_owned(),
            open: open && number == last,
        })
        .collect()
}

/// Takes out `ESC [ ... letter`, what a terminal gets for underlining and colours.
fn without_escapes(line: &str) -> String {
    let mut out = String::with_capacity(line.len());
    let mut chars = line.chars();
    while let Some(c) = chars.next() {
        if c != '\u{1b}' {
            out.push(c);
            continue;
        }
        match chars.next() {
            Some('[') => {
                chars.by_ref().find(|c| ('@'..='~').contains(c));
            }
            // Choice of a character set: one more character belongs to it.
            Some('(' | ')') => {
                chars.next();
            }
            _ => {}
        }
    }
    out
}

/// `h1: rest`, as pdsh puts it in front of every line.
fn prefix(line: &str) -> Option<(&str, &str)> {
    let (name, rest) = line.split_once(':')?;
    hostlist::is_host_name(name).then(|| (name, rest.strip_prefix(' ').unwrap_or(rest)))
}

/// The prefixes behind which a header or a row of a matrix stands.
fn prefixes(lines: &[Line]) -> BTreeSet<String> {
    let of_matrix = |rest: &str| {
        let mut words = rest.split_whitespace();
        super::table::gpu_index(words.next().unwrap_or("")).is_some() && words.next().is_some()
    };
    let named = lines.iter().filter_map(|line| prefix(&line.text));
    named.filter(|(_, rest)| of_matrix(rest)).map(|(name, _)| name.to_owned()).collect()
}

/// The hosts of a line that says whose output follows, and the number of lines it takes: dashes around a hostlist
/// (dshbak, clush) of at most `room` hosts, or `h1 | CHANGED | rc=0 >>` (ansible).
fn banner(lines: &[Line], room: usize) -> Option<(Vec<String>, usize)> {
    let text = |at: usize| lines.get(at).map_or("", |line| line.text.trim());
    let ruler = |text: &str| text.len() >= 4 && text.bytes().all(|b| b == b'-');
    if ruler(text(0)) && ruler(text(2)) {
        let named = text(1);
        // clush adds the number of hosts: `h[1-4] (4)`.
        let list = named.split_once(" (").map_or(named, |(list, _)| list);
        return hostlist::expand_up_to(list, room).ok().map(|hosts| (hosts, 3));
    }
    let mut parts = text(0).split('|').map(str::trim);
    let (name, state) = (parts.next()?, parts.next()?);
    let known = ["CHANGED", "SUCCESS", "FAILED", "UNREACHABLE!"];
    let marked = known.iter().any(|word| state.starts_with(word));
    (marked && room > 0 && hostlist::is_host_name(name)).then(|| (vec![name.to_owned()], 1))
}
