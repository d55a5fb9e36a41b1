//! Slurm's notations of times.

use crate::Limit;

/// Seconds since 1970 of `2026-11-30T18:34:20`, read as UTC, or of a plain number; `None` for `Unknown` and the like.
pub fn stamp(text: &str) -> Option<i64> {
    if let Ok(seconds) = text.parse::<i64>() {
        return (seconds > 0).then_some(seconds);
    }
    let (date, clock) = text.split_once('T')?;
    let [year, month, day] = numbers(date, '-')?;
    let [hour, minute, second] = numbers(clock, ':')?;
    let in_range = (1970..10_000).contains(&year)
        && (1..=12).contains(&month)
        && (1..=31).contains(&day)
        && hour < 24
        && minute < 60
        && second <= 60;
    in_range
        .then(|| days_since_1970(year, month, day) * 86_400 + hour * 3_600 + minute * 60 + second)
}

/// Days of the Gregorian calendar. Years are counted from March, so that the leap day is the last of its year.
const fn days_since_1970(year: i64, month: i64, day: i64) -> i64 {
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let leap_days = year / 4 - year / 100 + year / 400;
    // 719,468 days lie between the first of March of year 0 and 1970.
    year * 365 + leap_days + (153 * month + 2) / 5 + day - 1 - 719_468
}

/// `1-02:03:04`, `02:03:04`, `UNLIMITED`; anything else is [`Limit::Unset`].
pub fn limit(text: &str) -> Limit {
    if text.eq_ignore_ascii_case("unlimited") {
        return Limit::Unlimited;
    }
    let (days, clock) = match text.split_once('-') {
        Some((days, clock)) => (days.parse::<u64>().ok(), clock),
        None => (Some(0), text),
    };
    let clock = numbers::<3>(clock, ':');
    match (days, clock) {
        (Some(days), Some([h, m, s])) if days < 100_000 && h < 100_000 && m < 60 && s < 60 => {
            Limit::Seconds(days * 86_400 + (h * 3_600 + m * 60 + s) as u64)
        }
        _ => Limit::Unset,
    }
}

fn numbers<const N: usize>(text: &str, between: char) -> Option<[i64; N]> {
    let number = |part: &str| {
        let digits = (1..=6).contains(&part.len()) && part.bytes().all(|b| b.is_ascii_digit());
        if digits { part.parse().ok() } else { None }
    };
    let all: Option<Vec<i64>> = text.split(between).map(number).collect();
    all?.try_into().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stamps_are_utc() {
        assert_eq!(stamp("1970-01-01T00:00:01"), Some(1));
        assert_eq!(stamp("2000-02-29T12:00:00"), Some(951_825_600));
        assert_eq!(stamp("2026-11-30T18:34:20"), Some(1_796_063_660));
        assert_eq!(stamp("1796063660"), Some(1_796_063_660));
        for nothing in ["Unknown", "None", "N/A", "", "0", "2026-13-01T00:00:00", "T", "é-1T1:1"] {
            assert_eq!(stamp(nothing), None, "{nothing}");
        }
    }

    #[test]
    fn limits_have_days() {
        assert_eq!(limit("00:30:00"), Limit::Seconds(1800));
        assert_eq!(limit("1-02:03:04"), Limit::Seconds(93_784));
        assert_eq!(limit("UNLIMITED"), Limit::Unlimited);
        assert_eq!(limit("Partition_Limit"), Limit::Unset);
        assert_eq!(limit("99999999999999999999-00:00:00"), Limit::Unset);
    }
}
