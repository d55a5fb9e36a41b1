//! One line of a log without what launchers, terminals and NCCL put around and into it.

/// Marks of a line that NCCL itself writes, which may begin in the middle of a row.
const NCCL_MARKS: [&str; 4] = ["NCCL INFO", "NCCL WARN", "NCCL TRACE", "NCCL ABORT"];

/// What is left of a line.
pub(super) struct Cleaned {
    pub(super) text: String,
    /// True if a message of NCCL was cut off its end.
    pub(super) noisy: bool,
}

/// Takes escapes, labels, times and messages of NCCL out of a line.
pub(super) fn clean(raw: &str) -> Cleaned {
    let plain = without_escapes(raw);
    let untagged = without_tags(&plain);
    let mut text = untagged.as_str();
    while let Some(rest) = without_label(text) {
        text = rest;
    }
    match message_start(text) {
        Some(start) => {
            let kept = text.get(..start).unwrap_or("").trim_end();
            Cleaned { text: without_rank_tag(kept).to_owned(), noisy: true }
        }
        None => Cleaned { text: text.to_owned(), noisy: false },
    }
}

/// Without colours and other terminal escapes; control characters become blanks.
fn without_escapes(raw: &str) -> String {
    let mut text = String::with_capacity(raw.len());
    let mut chars = raw.chars().peekable();
    while let Some(c) = chars.next() {
        if c == '\u{1b}' && chars.peek() == Some(&'[') {
            chars.next();
            // Parameters, then one letter.
            while chars.next().is_some_and(|c| !('@'..='~').contains(&c)) {}
        } else if c.is_control() || c == '\u{feff}' {
            text.push(' ');
        } else {
            text.push(c);
        }
    }
    text
}

/// Without `[1,0]<stdout>:` anywhere: OpenMPI writes it again wherever a line was flushed half-way.
fn without_tags(text: &str) -> String {
    let mut left = text;
    let mut kept = String::with_capacity(text.len());
    while let Some((start, end)) = tag(left) {
        kept.push_str(left.get(..start).unwrap_or(""));
        kept.push(' ');
        left = left.get(end..).unwrap_or("");
    }
    kept.push_str(left);
    kept
}

/// Where the first `[..]<std..>:` begins and ends.
fn tag(text: &str) -> Option<(usize, usize)> {
    let middle = text.find("]<std")?;
    let start = text.get(..middle)?.rfind('[')?;
    let after = text.get(middle..)?;
    let close = after.find('>')?;
    let colon = usize::from(after.get(close + 1..)?.starts_with(':'));
    Some((start, middle + close + 1 + colon))
}

/// Without one label at the beginning: `0: ` of srun, `[0] ` of MPICH, `[pod/..] ` of kubectl, a time.
fn without_label(text: &str) -> Option<&str> {
    let text = text.trim_start();
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    if digits > 0 && text.get(digits..)?.starts_with(':') {
        let rest = text.get(digits + 1..)?;
        return (rest.is_empty() || rest.starts_with([' ', '#', '\t'])).then_some(rest);
    }
    if let Some((label, rest)) = text.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        let is_rank = !label.is_empty() && label.bytes().all(|b| b.is_ascii_digit());
        if is_rank || label.starts_with("pod/") || time_end(label) == Some(label.len()) {
            return Some(rest);
        }
    }
    text.get(time_end(text)?..)
}

/// Where a time such as `2026-01-31T12:00:00.123Z` at the beginning ends.
fn time_end(text: &str) -> Option<usize> {
    let shape = |from: usize, shape: &str| {
        let part = text.get(from..from + shape.len())?;
        let fits = part.bytes().zip(shape.bytes()).all(|(b, want)| match want {
            b'0' => b.is_ascii_digit(),
            b'T' => b == b'T' || b == b' ',
            _ => b == want,
        });
        fits.then_some(from + shape.len())
    };
    let seconds = shape(0, "0000-00-00T00:00:00")?;
    let rest = text.get(seconds..)?;
    // A time of a row stands at its end and is never followed by a fraction or a zone.
    let tail = rest.bytes().take_while(|b| b.is_ascii_digit() || b".,Z+:".contains(b)).count();
    Some(seconds + tail)
}

/// Where a message `host:pid:tid [0] NCCL INFO ...` begins.
fn message_start(text: &str) -> Option<usize> {
    let mark = NCCL_MARKS.iter().filter_map(|mark| text.find(mark)).min()?;
    let before = text.get(..mark)?.trim_end();
    let device = before.rfind(char::is_whitespace)?;
    let sender_end = text.get(..device)?.trim_end().len();
    let word = text.get(..sender_end)?.rfind(char::is_whitespace).map_or(0, |at| at + 1);
    let sender = text.get(word..sender_end)?;
    if sender.matches(':').count() < 2 {
        return Some(mark);
    }
    // A cell of the row may stand right before the host name.
    let cell = sender.bytes().take_while(|b| b.is_ascii_digit() || b"-.".contains(b)).count();
    Some(if sender.as_bytes().get(cell) == Some(&b':') { word } else { word + cell })
}

/// Without the `[0]` that MPICH writes before the message that was cut off.
fn without_rank_tag(text: &str) -> &str {
    let Some(inner) = text.strip_suffix(']') else { return text };
    let digits = inner.bytes().rev().take_while(u8::is_ascii_digit).count();
    let start = inner.len() - digits;
    match inner.get(..start).and_then(|rest| rest.strip_suffix('[')) {
        Some(rest) if digits > 0 => rest,
        _ => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_tags_times_and_colours_are_taken_off() {
        for raw in [
            "  8  2 float",
            "0:  8  2 float",
            " 12:  8  2 float",
            "[1,0]<stdout>:  8  2 float",
            "[1,0]<stdout>:  8 [1,0]<stdout>: 2 float",
            "[prterun-h1-42@1,0]<stdout>:  8  2 float",
            "[0]  8  2 float",
            "[pod/launcher-x7/main]  8  2 float",
            "2026-01-31T12:00:00.123456789Z  8  2 float",
            "[2026-01-31 12:00:00]  8  2 float",
            "2026-01-31 12:00:00,123 0:  8  2 float",
            "\u{1b}[32m  8  2\u{1b}[0m float\r",
        ] {
            let cells: Vec<String> =
                clean(raw).text.split_whitespace().map(str::to_owned).collect();
            assert_eq!(cells, ["8", "2", "float"], "{raw}");
        }
    }

    #[test]
    fn messages_of_nccl_are_cut_off() {
        for (raw, left) in [
            ("h1:12:13 [0] NCCL INFO Bootstrap", ""),
            ("[0] h1:12:13 [0] NCCL WARN busy", ""),
            ("  8  2 float sum -1[0] h1:12:13 [0] NCCL INFO 8 Bytes", "  8  2 float sum -1"),
            ("  8  2 float sum -1h1:12:13 [0] NCCL INFO 8 Bytes", "  8  2 float sum -1"),
            ("  8  2 float sum h1:12:13 [0] NCCL INFO 8 Bytes", "  8  2 float sum"),
            ("[1,0]<stdout>:  8 h1:12:13 [0] NCCL INFO x", "   8"),
        ] {
            let cleaned = clean(raw);
            assert_eq!((cleaned.text.as_str(), cleaned.noisy), (left, true), "{raw}");
        }
    }

    #[test]
    fn other_beginnings_stay() {
        for raw in
            ["[...]", "[0x0f] x", "h1:2 3", "12:30 x", "2026-01-31 x", "é[", "]<std", "[]<std"]
        {
            assert_eq!(clean(raw).text.trim(), raw, "{raw}");
        }
    }
}
