//! Slurm hostlists: `h[001-128,130],gpu-[1-2]x[0-3],login`.
//!
//! Items are separated by commas. An item is text with any number of bracketed lists of numbers and
//! ranges; several brackets multiply, the last one running fastest. A range keeps the zero padding of
//! its low end. Names consist of ASCII letters, digits, `-`, `_` and `.`.

use crate::Diagnostic;

/// The most names that one hostlist may stand for.
pub const MAX_HOSTS: usize = 100_000;

/// Longest host name, in bytes.
pub const MAX_NAME_BYTES: usize = 255;

/// Most brackets of one item. More would only multiply the work of a hostile list.
const MAX_BRACKETS: usize = 8;

/// Longest number that is read as a number, in digits.
const MAX_DIGITS: usize = 18;

/// True for a name that hostlists and placements can hold.
pub fn is_host_name(text: &str) -> bool {
    // A leading dash would be read as an option on a launch line.
    (1..=MAX_NAME_BYTES).contains(&text.len())
        && text.bytes().all(is_name_byte)
        && !text.starts_with('-')
}

/// All names in the order of the list; a name that stands twice is given twice.
///
/// ```
/// use bandpilot_readers::hostlist;
/// assert_eq!(hostlist::expand("h[08-10],login").unwrap(), ["h08", "h09", "h10", "login"]);
/// ```
///
/// # Errors
/// The first thing that is wrong, with its column.
pub fn expand(text: &str) -> Result<Vec<String>, Diagnostic> {
    expand_up_to(text, MAX_HOSTS)
}

/// [`expand`] with a smaller limit.
pub(crate) fn expand_up_to(text: &str, limit: usize) -> Result<Vec<String>, Diagnostic> {
    let mut names = Vec::new();
    for (start, item) in split_items(text) {
        let bare = item.trim();
        if bare.starts_with('-') {
            let reason = Diagnostic::error("", format!("'{bare}' begins with a dash")).at(1, 1);
            let blank = item.len() - item.trim_start().len();
            return Err(shifted(
                reason.help("a launch line would take such a host name for an option"),
                text,
                start + blank,
            ));
        }
        let pieces = parse_item(item).map_err(|d| shifted(d, text, start))?;
        let count = pieces.iter().fold(1_u64, |n, piece| n.saturating_mul(piece.count()));
        if (names.len() as u64).saturating_add(count) > limit as u64 {
            return Err(shifted(too_many(limit), text, start));
        }
        let first = names.len();
        names.push(String::new());
        for piece in &pieces {
            let grown: Vec<String> = names.drain(first..).flat_map(|p| piece.extend(p)).collect();
            names.extend(grown);
        }
    }
    Ok(names)
}

fn too_many(limit: usize) -> Diagnostic {
    Diagnostic::error("", format!("the list stands for more than {limit} hosts"))
        .at(1, 1)
        .help("check the ends of the ranges; write smaller lists")
}

/// One part of an item.
enum Piece {
    Text(String),
    Numbers(Vec<Range>),
}

struct Range {
    low: u64,
    high: u64,
    width: usize,
}

impl Piece {
    fn count(&self) -> u64 {
        match self {
            Self::Text(_) => 1,
            Self::Numbers(ranges) => {
                ranges.iter().fold(0, |n: u64, r| n.saturating_add(r.high - r.low + 1))
            }
        }
    }

    fn extend(&self, prefix: String) -> Vec<String> {
        match self {
            Self::Text(text) => vec![prefix + text],
            Self::Numbers(ranges) => ranges
                .iter()
                .flat_map(|r| (r.low..=r.high).map(move |n| (n, r.width)))
                .map(|(n, width)| format!("{prefix}{n:0width$}"))
                .collect(),
        }
    }
}

/// The comma-separated items with their byte offsets; commas inside brackets do not separate.
pub(crate) fn split_items(text: &str) -> Vec<(usize, &str)> {
    let mut items = Vec::new();
    let (mut start, mut depth) = (0, 0_usize);
    for (at, c) in text.char_indices() {
        match c {
            '[' => depth += 1,
            ']' => depth = depth.saturating_sub(1),
            ',' if depth == 0 => {
                items.push((start, &text[start..at]));
                start = at + 1;
            }
            _ => {}
        }
    }
    items.push((start, &text[start..]));
    items
}

/// Reads one item; columns count within the item.
fn parse_item(item: &str) -> Result<Vec<Piece>, Diagnostic> {
    let error = |at: usize, message: String| {
        let column = item.get(..at).map_or(1, |before| before.chars().count() + 1);
        Diagnostic::error("", message)
            .at(1, column as u32)
            .help("write for example h1, h[1-4] or h[01-08,10]")
    };
    let blank = item.len() - item.trim_start().len();
    let body = item.trim();
    if body.is_empty() {
        return Err(error(blank, "a host name is missing".to_owned()));
    }
    let mut pieces = Vec::new();
    let mut rest = body;
    let mut at = blank;
    while !rest.is_empty() {
        if let Some(inside) = rest.strip_prefix('[') {
            let Some(end) = inside.find(']') else {
                return Err(error(at, "'[' is not closed".to_owned()));
            };
            let (list, after) = (&inside[..end], &inside[end + 1..]);
            pieces.push(parse_numbers(list).map_err(|(offset, m)| error(at + 1 + offset, m))?);
            at += end + 2;
            rest = after;
        } else {
            let end = rest.find('[').unwrap_or(rest.len());
            let text = &rest[..end];
            if let Some((offset, c)) = text.char_indices().find(|(_, c)| !is_name_char(*c)) {
                return Err(error(at + offset, format!("'{c}' cannot be in a host name")));
            }
            pieces.push(Piece::Text(text.to_owned()));
            at += end;
            rest = &rest[end..];
        }
    }
    if longest_name(&pieces) > MAX_NAME_BYTES {
        return Err(error(blank, format!("the name is longer than {MAX_NAME_BYTES} bytes")));
    }
    if pieces.iter().filter(|piece| matches!(piece, Piece::Numbers(_))).count() > MAX_BRACKETS {
        return Err(error(blank, format!("more than {MAX_BRACKETS} brackets")));
    }
    Ok(pieces)
}

/// Bytes of the longest name that the pieces give.
fn longest_name(pieces: &[Piece]) -> usize {
    let longest = |piece: &Piece| match piece {
        Piece::Text(text) => text.len(),
        Piece::Numbers(ranges) => {
            let digits = |range: &Range| range.width.max(range.high.to_string().len());
            ranges.iter().map(digits).max().unwrap_or(0)
        }
    };
    pieces.iter().map(longest).sum()
}

/// Reads what is between brackets; errors carry the byte offset of the part.
fn parse_numbers(list: &str) -> Result<Piece, (usize, String)> {
    let mut ranges = Vec::new();
    let mut at = 0;
    for part in list.split(',') {
        let (low, high) = part.split_once('-').unwrap_or((part, part));
        let number = |text: &str| -> Result<u64, (usize, String)> {
            let digits = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
            if !digits {
                return Err((at, format!("'{part}' is neither a number nor a range")));
            }
            if text.len() > MAX_DIGITS {
                return Err((at, format!("'{text}' has more than {MAX_DIGITS} digits")));
            }
            text.parse().map_err(|_| (at, format!("'{text}' is not a number")))
        };
        let range = Range { low: number(low)?, high: number(high)?, width: low.len() };
        if range.low > range.high {
            return Err((at, format!("range '{part}' runs backwards")));
        }
        ranges.push(range);
        at += part.len() + 1;
    }
    Ok(Piece::Numbers(ranges))
}

/// A diagnostic about an item, moved to the item's place in the whole text.
fn shifted(mut diagnostic: Diagnostic, text: &str, start: usize) -> Diagnostic {
    let before = text.get(..start).map_or(0, |before| before.chars().count());
    diagnostic.column += before as u32;
    diagnostic
}

fn is_name_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.')
}

fn is_name_char(c: char) -> bool {
    u8::try_from(c).is_ok_and(is_name_byte)
}

/// The shortest simple hostlist for names in this order: runs that differ in their last number only.
///
/// [`expand`] gives back exactly the same names in the same order.
///
/// ```
/// use bandpilot_readers::hostlist;
/// assert_eq!(hostlist::compress(["h1", "h2", "h4", "login"]), "h[1-2,4],login");
/// ```
pub fn compress<'a>(names: impl IntoIterator<Item = &'a str>) -> String {
    let mut items: Vec<String> = Vec::new();
    let mut run: Option<Run<'a>> = None;
    for name in names {
        let numbered = split_number(name);
        match (&mut run, numbered) {
            (Some(current), Some(next)) if current.takes(&next) => current.push(&next),
            _ => {
                items.extend(run.take().map(Run::finish));
                match numbered {
                    Some(next) => run = Some(Run::new(&next)),
                    None => items.push(name.to_owned()),
                }
            }
        }
    }
    items.extend(run.map(Run::finish));
    items.join(",")
}

/// A name around its last number.
#[derive(Clone, Copy)]
struct Numbered<'a> {
    prefix: &'a str,
    digits: &'a str,
    value: u64,
    suffix: &'a str,
}

fn split_number(name: &str) -> Option<Numbered<'_>> {
    let end = name.rfind(|c: char| c.is_ascii_digit())? + 1;
    let head = name.get(..end)?;
    let start = head.rfind(|c: char| !c.is_ascii_digit()).map_or(0, |at| at + 1);
    // `rfind` gives the first byte of the character; digits may follow one of several bytes.
    let start = (start..=end).find(|at| head.is_char_boundary(*at))?;
    let digits = head.get(start..)?;
    if digits.len() > MAX_DIGITS {
        return None;
    }
    let value = digits.parse().ok()?;
    Some(Numbered { prefix: head.get(..start)?, digits, value, suffix: name.get(end..)? })
}

/// Names that share all but their last number.
struct Run<'a> {
    prefix: &'a str,
    suffix: &'a str,
    /// Low end as written, low and high value.
    ranges: Vec<(&'a str, u64, u64)>,
    names: usize,
}

impl<'a> Run<'a> {
    fn new(first: &Numbered<'a>) -> Self {
        Self {
            prefix: first.prefix,
            suffix: first.suffix,
            ranges: vec![(first.digits, first.value, first.value)],
            names: 1,
        }
    }

    fn takes(&self, next: &Numbered<'_>) -> bool {
        self.prefix == next.prefix && self.suffix == next.suffix
    }

    fn push(&mut self, next: &Numbered<'a>) {
        self.names += 1;
        if let Some((low, _, high)) = self.ranges.last_mut() {
            let width = low.len();
            if next.value == *high + 1 && next.digits == format!("{:0width$}", next.value) {
                *high += 1;
                return;
            }
        }
        self.ranges.push((next.digits, next.value, next.value));
    }

    fn finish(self) -> String {
        let parts: Vec<String> = self
            .ranges
            .iter()
            .map(|(low, value, high)| {
                let width = low.len();
                if value == high { (*low).to_owned() } else { format!("{low}-{high:0width$}") }
            })
            .collect();
        let (prefix, suffix) = (self.prefix, self.suffix);
        if self.names == 1 {
            format!("{prefix}{}{suffix}", parts.join(","))
        } else {
            format!("{prefix}[{}]{suffix}", parts.join(","))
        }
    }
}

#[cfg(test)]
#[path = "tests/hostlist.rs"]
mod tests;
