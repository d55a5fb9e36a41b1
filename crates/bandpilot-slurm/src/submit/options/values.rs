//! Values of options. What is wrong is said in words that continue the name of the option.

use crate::Limit;
use crate::gres;
use crate::submit::ask::{ArrayIndexes, Hosts};

/// More is taken for a mistake: no cluster has so many of anything that is counted here.
const MOST: usize = 1_000_000;
/// Most tasks of an array. Slurm's own limit is 1,000 unless the site raises it.
const MOST_TASKS_OF_ARRAY: usize = 100_000;
const MIB_OF_GIB: u64 = 1024;

/// GPUs of a type.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GpuType {
    /// Type; `None` if any will do.
    pub name: Option<String>,
    /// How many.
    pub count: usize,
}

/// A whole number from 1.
pub(super) fn count(text: &str) -> Result<usize, String> {
    let digits = text.bytes().all(|b| b.is_ascii_digit());
    let number = text.parse::<usize>().ok().filter(|n| digits && (1..=MOST).contains(n));
    number.ok_or_else(|| format!("'{text}' is not a whole number from 1 to {MOST}"))
}

/// `2`, `2-4`.
pub(super) fn hosts(text: &str) -> Result<Hosts, String> {
    if text.contains([',', ':']) {
        return Err(format!(
            "'{text}' is a list of sizes, of which bandpilot plans none: write one, or a range"
        ));
    }
    let (least, most) = text.split_once('-').unwrap_or((text, text));
    let (least, most) = (count(least)?, count(most)?);
    if least > most {
        return Err(format!("'{text}' ends below its beginning"));
    }
    Ok(Hosts { least, most })
}

/// `4`, `h100:4`, `h100:2,a100:2`; parts of no GPU are left out.
pub(super) fn gpus(text: &str) -> Result<Vec<GpuType>, String> {
    let items: Vec<String> = text.split(',').map(|item| format!("gpu:{}", item.trim())).collect();
    if text.contains(['(', '[']) || items.iter().any(|item| item.ends_with(':')) {
        return Err(format!("'{text}' is not [TYPE:]NUMBER"));
    }
    of_entries(gres::gpus(&items.join(","))?)
}

fn of_entries(entries: Vec<gres::Entry>) -> Result<Vec<GpuType>, String> {
    let some = entries.into_iter().filter(|entry| entry.count > 0);
    let list: Vec<GpuType> =
        some.map(|entry| GpuType { name: entry.kind, count: entry.count }).collect();
    let is_name = |name: &str| name.starts_with(|c: char| c.is_ascii_alphanumeric());
    match list.iter().filter_map(|gpus| gpus.name.as_deref()).find(|name| !is_name(name)) {
        Some(name) => Err(format!("'{name}' is no type of GPUs, nor a number of them")),
        None => Ok(list),
    }
}

/// A list of generic resources: GPUs, and the others as they were written.
pub(super) fn gres(text: &str) -> Result<(Vec<GpuType>, Vec<String>), String> {
    let (mut gpus, mut others) = (Vec::new(), Vec::new());
    for item in text.split(',').map(str::trim) {
        let bare = item.strip_prefix("gres:").or_else(|| item.strip_prefix("gres/"));
        let bare = bare.unwrap_or(item);
        match bare.split([':', '=']).next() {
            Some("gpu") if bare.contains(['(', '[']) => {
                return Err(format!("'{item}' is not gpu[:TYPE][:NUMBER]"));
            }
            Some("gpu") => gpus.extend(of_entries(gres::gpus(bare)?)?),
            Some("" | "none") => {}
            _ => others.push(item.to_owned()),
        }
    }
    Ok((gpus, others))
}

/// Memory in MiB: `4G`, `4GB`, `4096`, `0`. Kilobytes are rounded up, as Slurm does it.
pub(super) fn memory(text: &str) -> Result<u64, String> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (number, unit) = text.split_at(digits);
    let mib = |number: u64| match unit.to_ascii_lowercase().as_str() {
        "k" | "kb" => Some(number.div_ceil(MIB_OF_GIB)),
        "" | "m" | "mb" => Some(number),
        "g" | "gb" => number.checked_mul(MIB_OF_GIB),
        "t" | "tb" => number.checked_mul(MIB_OF_GIB * MIB_OF_GIB),
        _ => None,
    };
    let value = number.parse().ok().and_then(mib).filter(|mib| *mib < u64::from(u32::MAX));
    value.ok_or_else(|| format!("'{text}' is not a size such as 4096 (MiB), 512K, 64G or 1T"))
}

/// A time limit in any of Slurm's forms. Seconds are rounded up to minutes, as Slurm does it.
pub(super) fn time(text: &str) -> Result<Limit, String> {
    if matches!(text.to_ascii_lowercase().as_str(), "infinite" | "unlimited" | "-1") {
        return Ok(Limit::Unlimited);
    }
    let wrong = || {
        format!(
            "'{text}' is not MINUTES, MINUTES:SECONDS, HOURS:MINUTES:SECONDS, DAYS-HOURS[:MINUTES[:SECONDS]] or UNLIMITED"
        )
    };
    let number = |part: &str| match part.len() {
        1..=7 if !part.starts_with('+') => part.parse::<u64>().map_err(|_| wrong()),
        _ => Err(wrong()),
    };
    let (days, clock) = match text.split_once('-') {
        Some((days, clock)) => (Some(number(days)?), clock),
        None => (None, text),
    };
    let parts: Vec<&str> =
        if clock.is_empty() && days.is_some() { vec!["0"] } else { clock.split(':').collect() };
    let parts = parts.into_iter().map(number).collect::<Result<Vec<u64>, String>>()?;
    let seconds = match (days, &parts[..]) {
        (Some(days), [h]) => days * 86_400 + h * 3_600,
        (Some(days), [h, m]) => days * 86_400 + h * 3_600 + m * 60,
        (Some(days), [h, m, s]) => days * 86_400 + h * 3_600 + m * 60 + s,
        (None, [m]) => m * 60,
        (None, [m, s]) => m * 60 + s,
        (None, [h, m, s]) => h * 3_600 + m * 60 + s,
        _ => return Err(wrong()),
    };
    Ok(if seconds == 0 { Limit::Unlimited } else { Limit::Seconds(seconds.div_ceil(60) * 60) })
}

/// `0-9`, `1,3,5`, `0-15:4`, each with `%limit`.
pub(super) fn array(text: &str) -> Result<ArrayIndexes, String> {
    let (list, at_once) = match text.split_once('%') {
        Some((list, limit)) => {
            let limit = limit.parse::<usize>().ok().filter(|limit| *limit <= MOST);
            let limit = limit.ok_or_else(|| format!("'{text}' has no number behind '%'"))?;
            // Slurm reads 0 as no limit.
            (list, (limit > 0).then_some(limit))
        }
        None => (text, None),
    };
    let bare = list.strip_prefix('[').and_then(|list| list.strip_suffix(']')).unwrap_or(list);
    let mut indexes: Vec<u32> = Vec::new();
    for part in bare.split(',') {
        let wrong = || format!("'{part}' is not INDEX, FIRST-LAST or FIRST-LAST:STEP");
        let number = |text: &str| {
            let digits = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
            if digits { text.parse::<u32>().map_err(|_| wrong()) } else { Err(wrong()) }
        };
        let (range, step) = match part.split_once(':') {
            Some((range, step)) => (range, number(step)?),
            None => (part, 1),
        };
        let (first, last) = match range.split_once('-') {
            Some((first, last)) => (number(first)?, number(last)?),
            None if step == 1 && !part.contains(':') => (number(range)?, number(range)?),
            None => return Err(wrong()),
        };
        if first > last || step == 0 {
            return Err(wrong());
        }
        if indexes.len() + ((last - first) / step) as usize >= MOST_TASKS_OF_ARRAY {
            return Err(format!("'{text}' has more than {MOST_TASKS_OF_ARRAY} tasks"));
        }
        indexes.extend((first..=last).step_by(step as usize));
    }
    indexes.sort_unstable();
    indexes.dedup();
    Ok(ArrayIndexes { written: text.to_owned(), indexes, at_once })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What 22.05.8 made of them.
    #[test]
    fn times_are_read_as_slurm_reads_them() {
        let minutes = |m: u64| Ok(Limit::Seconds(m * 60));
        let cases = [
            ("90", minutes(90)),
            ("1:30", minutes(2)),
            ("0:29", minutes(1)),
            ("2:3:4", minutes(124)),
            ("1-0", minutes(1440)),
            ("1-", minutes(1440)),
            ("1-2:3", minutes(1563)),
            ("1-2:3:4", minutes(1564)),
            ("0", Ok(Limit::Unlimited)),
            ("-1", Ok(Limit::Unlimited)),
            ("infinite", Ok(Limit::Unlimited)),
            ("UNLIMITED", Ok(Limit::Unlimited)),
        ];
        for (text, expected) in cases {
            assert_eq!(time(text), expected, "{text}");
        }
        for text in ["", "abc", "5:0:0:0", "1-2-3", "+1", ":", "99999999", "-2"] {
            assert!(time(text).is_err(), "{text}");
        }
    }

    #[test]
    fn sizes_are_read_as_slurm_reads_them() {
        let cases = [("1000K", 1), ("1023k", 1), ("1025KB", 2), ("1", 1), ("4gb", 4096)];
        for (text, mib) in cases.into_iter().chain([("0", 0), ("1T", 1 << 20), ("64G", 65_536)]) {
            assert_eq!(memory(text), Ok(mib), "{text}");
        }
        for text in ["", "4GiB", "1.5G", "1P", "G", "-1", "99999999999999999999", "9999999T"] {
            assert!(memory(text).is_err(), "{text}");
        }
    }

    #[test]
    fn hosts_are_a_number_or_a_range() {
        assert_eq!(hosts("2"), Ok(Hosts { least: 2, most: 2 }));
        assert_eq!(hosts("2-4"), Ok(Hosts { least: 2, most: 4 }));
        for text in ["", "0", "4-2", "2-", "1,2", "2-8:2", "x", "+2-3", "9999999999"] {
            assert!(hosts(text).is_err(), "{text}");
        }
    }

    #[test]
    fn gpus_have_a_type_or_none() {
        let of = |name: Option<&str>, count| GpuType { name: name.map(ToOwned::to_owned), count };
        assert_eq!(gpus("4"), Ok(vec![of(None, 4)]));
        assert_eq!(gpus("h100:4"), Ok(vec![of(Some("h100"), 4)]));
        assert_eq!(gpus("h100"), Ok(vec![of(Some("h100"), 1)]));
        assert_eq!(gpus("g0:1, g1:1"), Ok(vec![of(Some("g0"), 1), of(Some("g1"), 1)]));
        assert_eq!(gpus("0"), Ok(vec![]));
        for text in ["", "a:b:2", "999", "4(IDX:0)", "1,,2", "a:", "-1"] {
            assert!(gpus(text).is_err(), "{text}");
        }
        let (gpus, others) = gres("shard:2,gpu:h100:2,none,gres:gpu:1,tmp:4G").unwrap();
        assert_eq!(gpus, [of(Some("h100"), 2), of(None, 1)]);
        assert_eq!(others, ["shard:2", "tmp:4G"]);
        assert_eq!(gres("gpu"), Ok((vec![of(None, 1)], vec![])));
        assert_eq!(gres("gpu:0"), Ok((vec![], vec![])));
        assert!(gres("gpu:a:b:2").is_err() && gres("gpu:2(IDX:0-1)").is_err());
    }

    #[test]
    fn arrays_are_written_out() {
        let cases: [(&str, &[u32], Option<usize>); 6] = [
            ("0-3", &[0, 1, 2, 3], None),
            ("1,3,5", &[1, 3, 5], None),
            ("0-15:4", &[0, 4, 8, 12], None),
            ("5,1-2,1%2", &[1, 2, 5], Some(2)),
            ("[1-3]", &[1, 2, 3], None),
            ("0-1%0", &[0, 1], None),
        ];
        for (text, indexes, at_once) in cases {
            let read = array(text).unwrap();
            assert_eq!((&read.indexes[..], read.at_once), (indexes, at_once), "{text}");
            assert_eq!(read.written, text);
        }
        for text in
            ["", "5-1", "1-10:0", "0x3", "1:2", "a", "1-2-3", "0-4294967295", "1%x", "1,", "-1"]
        {
            assert!(array(text).is_err(), "{text}");
        }
    }
}
