//! Lines of `Key=Value` pairs, as all of Slurm's files have them.
//!
//! Keys are read in any case. Blanks may stand around `=`; a value in double quotes may hold blanks and `#`. `#`
//! starts a comment, a backslash at its end continues a line.

/// One setting.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pair {
    /// The key as it is written.
    pub key: String,
    /// The value without quotes.
    pub value: String,
}

impl Pair {
    /// True for this key in any case.
    pub fn is(&self, key: &str) -> bool {
        self.key.eq_ignore_ascii_case(key)
    }
}

/// One line, continuations joined.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Line that it begins on, from 1.
    pub line: u32,
    /// The settings in order.
    pub pairs: Vec<Pair>,
    /// The file that the line takes in (`Include FILE`).
    pub include: Option<String>,
    /// The first word that is no setting.
    pub stray: Option<String>,
}

impl Entry {
    /// The first key in small letters.
    pub fn first(&self) -> Option<String> {
        self.pairs.first().map(|pair| pair.key.to_ascii_lowercase())
    }

    /// The last value of a key, as Slurm takes it.
    pub fn get(&self, key: &str) -> Option<&str> {
        self.pairs.iter().rev().find(|pair| pair.is(key)).map(|pair| pair.value.as_str())
    }

    /// All keys in small letters.
    pub fn keys(&self) -> impl Iterator<Item = String> {
        self.pairs.iter().map(|pair| pair.key.to_ascii_lowercase())
    }
}

/// All lines that hold anything.
///
/// ```
/// use bandpilot_readers::slurm::lines::entries;
/// let read = entries("NodeName=h[1-2] \\\n  Gres = gpu:8 Reason=\"fan # 2\" # loud\n");
/// assert_eq!(read[0].get("gres"), Some("gpu:8"));
/// assert_eq!(read[0].get("Reason"), Some("fan # 2"));
/// ```
pub fn entries(text: &str) -> Vec<Entry> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut entries = Vec::new();
    let mut open: Option<(u32, String)> = None;
    for (line, number) in text.lines().zip(1_u32..) {
        let line = without_comment(line).trim_end();
        let (body, more) = match line.strip_suffix('\\') {
            Some(body) => (body, true),
            None => (line, false),
        };
        let (start, joined) = match open.take() {
            Some((start, before)) => (start, before + body),
            None => (number, body.to_owned()),
        };
        if more {
            open = Some((start, joined));
        } else {
            entries.extend(entry(start, &joined));
        }
    }
    entries.extend(open.and_then(|(start, joined)| entry(start, &joined)));
    entries
}

/// A line up to the `#` that stands outside quotes.
fn without_comment(line: &str) -> &str {
    let mut quoted = false;
    let end = line.char_indices().find(|(_, c)| {
        quoted ^= *c == '"';
        *c == '#' && !quoted
    });
    match end {
        Some((at, _)) => &line[..at],
        // A quote that is never closed opens nothing.
        None if quoted => line.split('#').next().unwrap_or(""),
        None => line,
    }
}

fn entry(line: u32, text: &str) -> Option<Entry> {
    let mut found = Entry { line, pairs: Vec::new(), include: None, stray: None };
    let mut rest = text.trim_start();
    while !rest.is_empty() {
        let end = rest.find(|c: char| c == '=' || c.is_whitespace()).unwrap_or(rest.len());
        let (word, after) = rest.split_at(end);
        // Blanks may stand before and behind the sign.
        let value = after.trim_start().strip_prefix('=').filter(|_| !word.is_empty());
        let Some(value) = value else {
            let next = after.trim_start();
            if word.eq_ignore_ascii_case("include") && found.pairs.is_empty() && !next.is_empty() {
                found.include = Some(next.trim_end().to_owned());
                break;
            }
            // A sign without a key is a word of its own, up to the next blank.
            let end = rest.find(char::is_whitespace).unwrap_or(rest.len());
            let (word, after) = rest.split_at(end);
            found.stray = found.stray.or_else(|| Some(word.to_owned()));
            rest = after.trim_start();
            continue;
        };
        let (value, after) = taken(value);
        found.pairs.push(Pair { key: word.to_owned(), value: value.to_owned() });
        rest = after.trim_start();
    }
    (!found.pairs.is_empty() || found.include.is_some()).then_some(found)
}

/// A value at the beginning of a text, and what is behind it.
fn taken(text: &str) -> (&str, &str) {
    let bare = text.trim_start();
    let word = bare.split(char::is_whitespace).next().unwrap_or("");
    // `Reason= Gres=gpu:8` leaves the first one empty.
    if bare.len() < text.len() && word.contains('=') && !word.starts_with('"') {
        return ("", bare);
    }
    let text = bare;
    if let Some(inner) = text.strip_prefix('"')
        && let Some(end) = inner.find('"')
    {
        return (&inner[..end], &inner[end + 1..]);
    }
    let end = text.find(char::is_whitespace).unwrap_or(text.len());
    (text[..end].trim_matches('"'), &text[end..])
}
