//! Numbers for people.

/// Digits in groups of three, with so many decimals: `1 234.5`. The blank is narrow and does not break.
///
/// ```
/// assert_eq!(bandpilot_report::grouped(-1234567.26, 1), "-1\u{202f}234\u{202f}567.3");
/// ```
pub fn grouped(value: f64, decimals: usize) -> String {
    let text = format!("{:.decimals$}", value.abs());
    let (whole, rest) = text.split_once('.').map_or((&*text, ""), |(whole, rest)| (whole, rest));
    let mut out = String::with_capacity(text.len() + 8);
    // A number that is rounded to nothing has no sign.
    if value < 0.0 && text.bytes().any(|digit| (b'1'..=b'9').contains(&digit)) {
        out.push('-');
    }
    for (at, digit) in whole.chars().enumerate() {
        if at > 0 && (whole.len() - at).is_multiple_of(3) && digit.is_ascii_digit() {
            out.push('\u{202f}');
        }
        out.push(digit);
    }
    if !rest.is_empty() {
        out.push('.');
        out.push_str(rest);
    }
    out
}

/// A time in the largest unit of which there is at least one, two digits at least: `17 min`.
///
/// ```
/// assert_eq!(bandpilot_report::duration(100_000.0), "1.2 d");
/// ```
pub fn duration(seconds: f64) -> String {
    let (unit_s, unit) = unit(seconds);
    let value = seconds / unit_s;
    let decimals = match value.abs() {
        value if (value - value.round()).abs() < 1e-9 || value >= 9.95 => 0,
        value if value >= 1.0 => 1,
        value => (-value.log10().floor()).clamp(1.0, 6.0) as usize,
    };
    format!("{} {unit}", grouped(value, decimals))
}

/// The same with three digits, for times that are compared: `1.16 d`.
///
/// ```
/// assert_eq!(bandpilot_report::span(100_000.0), "1.16 d");
/// ```
pub fn span(seconds: f64) -> String {
    let (unit_s, unit) = unit(seconds);
    let value = seconds / unit_s;
    let decimals = match value.abs() {
        value if value < 0.005 => 0,
        value if value < 9.995 => 2,
        value if value < 99.95 => 1,
        _ => 0,
    };
    format!("{} {unit}", grouped(value, decimals))
}

/// The unit for times of this size: its length in seconds and its sign.
pub(crate) fn unit(seconds: f64) -> (f64, &'static str) {
    let units = [(86_400.0, "d"), (3_600.0, "h"), (60.0, "min")];
    units.into_iter().find(|(length, _)| seconds.abs() >= *length).unwrap_or((1.0, "s"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short() {
        let plain = |text: String| text.replace('\u{202f}', "_");
        let cases = [(0.0, 0, "0"), (999.0, 0, "999"), (1e3, 0, "1_000"), (-0.04, 1, "0.0")];
        for (value, decimals, expected) in cases {
            assert_eq!(plain(grouped(value, decimals)), expected);
        }
        let times = [(0.0, "0 s"), (0.05, "0.05 s"), (59.0, "59 s"), (90.0, "1.5 min")];
        for (seconds, expected) in times.into_iter().chain([(1e4, "2.8 h"), (1e8, "1_157 d")]) {
            assert_eq!(plain(duration(seconds)), expected);
        }
    }
}
