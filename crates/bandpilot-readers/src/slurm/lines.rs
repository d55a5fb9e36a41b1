//! Lines of `Key=Value` pairs.

/// One line, continuations joined.
pub(super) struct Entry {
    /// Line that it begins on, from 1.
    pub(super) line: u32,
    /// Keys in small letters with their values, in order.
    pairs: Vec<(String, String)>,
    /// The first word that is no pair.
    pub(super) stray: Option<String>,
}

impl Entry {
    pub(super) fn first(&self) -> Option<&str> {
        self.pairs.first().map(|(key, _)| key.as_str())
    }

    /// The last value of a key, as Slurm takes it.
    pub(super) fn get(&self, key: &str) -> Option<&str> {
        self.pairs.iter().rev().find(|(name, _)| name == key).map(|(_, value)| value.as_str())
    }

    pub(super) fn keys(&self) -> impl Iterator<Item = &str> {
        self.pairs.iter().map(|(key, _)| key.as_str())
    }
}

/// All lines that hold anything.
pub(super) fn entries(text: &str) -> Vec<Entry> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut entries = Vec::new();
    let mut open: Option<(u32, String)> = None;
    for (line, number) in text.lines().zip(1_u32..) {
        let line = line.split('#').next().unwrap_or("").trim_end();
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

fn entry(line: u32, text: &str) -> Option<Entry> {
    let mut pairs = Vec::new();
    let mut stray = None;
    for word in text.split_whitespace() {
        match word.split_once('=') {
            Some((key, value)) if !key.is_empty() => {
                let value = value.trim_matches('"').to_owned();
                pairs.push((key.to_ascii_lowercase(), value));
            }
            _ => stray = stray.or_else(|| Some(word.to_owned())),
        }
    }
    (!pairs.is_empty()).then_some(Entry { line, pairs, stray })
}
