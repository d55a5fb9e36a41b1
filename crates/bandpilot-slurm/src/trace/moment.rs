//! Times as people give them, in notations that `sacct -S` reads as well.

use super::MAX_S;
use crate::time;

/// A time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Moment {
    /// Seconds since 1970.
    At(i64),
    /// So many seconds before now.
    Ago(i64),
}

impl Moment {
    /// Reads `2026-11-01`, `2026-11-01T12:00:00` (both UTC), `now` or `now-30days`.
    ///
    /// # Errors
    /// What else it is.
    pub fn parse(text: &str) -> Result<Self, String> {
        let help = "write 2026-11-01, 2026-11-01T12:00:00 (UTC) or now-30days";
        let moment = match text.strip_prefix("now") {
            Some("") => Some(Self::Ago(0)),
            Some(span) => span.strip_prefix('-').and_then(ago).map(Self::Ago),
            None => at(text).map(Self::At),
        };
        moment.ok_or_else(|| format!("'{text}' is not a time: {help}"))
    }

    /// Seconds since 1970.
    pub fn at_s(self, now_s: i64) -> i64 {
        match self {
            Self::At(at_s) => at_s,
            Self::Ago(span_s) => now_s.saturating_sub(span_s),
        }
    }
}

fn at(text: &str) -> Option<i64> {
    if text.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    let whole = if text.contains('T') { text.to_owned() } else { format!("{text}T00:00:00") };
    // It knows a plain 1970 as no time at all.
    time::stamp(&whole).filter(|at_s| *at_s <= MAX_S)
}

fn ago(span: &str) -> Option<i64> {
    let digits = span.len() - span.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let (number, unit) = span.split_at(digits);
    let unit_s = match unit {
        "minute" | "minutes" => 60,
        "hour" | "hours" => 3_600,
        "day" | "days" => 86_400,
        "week" | "weeks" => 7 * 86_400,
        _ => return None,
    };
    number.parse::<i64>().ok()?.checked_mul(unit_s).filter(|span_s| *span_s <= MAX_S)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notations_are_those_of_sacct() {
        assert_eq!(Moment::parse("1970-01-02"), Ok(Moment::At(86_400)));
        assert_eq!(Moment::parse("1970-01-02T00:01:00"), Ok(Moment::At(86_460)));
        assert_eq!(Moment::parse("now-2days"), Ok(Moment::Ago(172_800)));
        assert_eq!(Moment::parse("now").map(|now| now.at_s(7)), Ok(7));
        for wrong in ["", "yesterday", "now-", "now-3", "now-days", "now+1day", "20261101", "é"] {
            assert!(Moment::parse(wrong).is_err(), "{wrong}");
        }
        assert!(Moment::parse("now-99999999999999999999days").is_err());
    }
}
