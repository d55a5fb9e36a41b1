//! Lists of generic resources: `gpu:g3:1(IDX:3),gpu:a100:4(S:0-1),shard:8`.

use bandpilot_core::{GpuMask, MAX_GPUS_PER_HOST};

use crate::Gpu;

/// Most GPUs of one type that a job may have.
const MAX_GPUS_PER_JOB: usize = 1_000_000;

/// GPUs of one type.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Type, as the site names it.
    pub kind: Option<String>,
    /// How many.
    pub count: usize,
    /// Which ones, if the list says it.
    pub indexes: Option<GpuMask>,
}

/// The GPUs of a list; other resources are left out.
///
/// # Errors
/// The first part that is not understood.
pub fn gpus(text: &str) -> Result<Vec<Entry>, String> {
    read(text, MAX_GPUS_PER_HOST)
}

/// The same of a list that counts over all hosts of a job.
///
/// # Errors
/// As for [`gpus`].
pub fn totals(text: &str) -> Result<Vec<Entry>, String> {
    read(text, MAX_GPUS_PER_JOB)
}

fn read(text: &str, most: usize) -> Result<Vec<Entry>, String> {
    let mut entries = Vec::new();
    if matches!(text.trim(), "" | "(null)" | "N/A") {
        return Ok(entries);
    }
    for item in items(text) {
        let item = item.trim();
        let bare = item.strip_prefix("gres:").or_else(|| item.strip_prefix("gres/"));
        // Slurm's word for no type would be taken for a detail.
        let bare = bare.unwrap_or(item).replace(":(null)", ":");
        let (body, detail) = bare.split_once('(').unwrap_or((&bare, ""));
        let parts: Vec<&str> = body.split([':', '=']).collect();
        if parts.first() != Some(&"gpu") {
            continue;
        }
        let number = |text: &str| text.parse().ok().filter(|n: &usize| *n <= most);
        let (kind, count) = match parts[..] {
            [_] => (None, Some(1)),
            [_, one] if is_count(one) => (None, number(one)),
            [_, kind] => (Some(kind), Some(1)),
            [_, kind, count] => (Some(kind), number(count)),
            _ => (None, None),
        };
        let Some(count) = count else {
            return Err(format!("'{item}' is not a number of GPUs up to {most}"));
        };
        let indexes = match detail.trim_end_matches(')').split_once("IDX:") {
            None => None,
            Some((_, "N/A" | "")) => Some(GpuMask::EMPTY),
            Some((_, list)) => {
                Some(GpuMask::parse(list).map_err(|reason| format!("'{item}': {reason}"))?)
            }
        };
        if indexes.is_some_and(|mask| mask.count() != count) {
            return Err(format!("'{item}' counts {count} GPUs and names another number"));
        }
        let kind = kind.filter(|kind| !kind.is_empty()).map(ToOwned::to_owned);
        entries.push(Entry { kind, count, indexes });
    }
    Ok(entries)
}

/// True for `8` and `4K`, which Slurm takes for 4,096.
fn is_count(text: &str) -> bool {
    let digits = text.strip_suffix(['K', 'M', 'G']).unwrap_or(text);
    digits.bytes().all(|b| b.is_ascii_digit())
}

/// All named GPUs of a list, and how many more it counts.
///
/// # Errors
/// As for [`gpus`].
pub fn named(text: &str) -> Result<(GpuMask, usize), String> {
    let mut all = (GpuMask::EMPTY, 0);
    for entry in gpus(text)? {
        match entry.indexes {
            Some(mask) => all.0 = all.0.union(mask),
            None => all.1 += entry.count,
        }
    }
    Ok(all)
}

/// The GPUs of a host of what it has and what is taken of it; and a warning if that does not say which ones.
///
/// Types are given to indexes in the order of the list; where the taken ones are named with their type, that counts.
///
/// # Errors
/// As for [`gpus`], or if the host has more GPUs than a host may have.
pub fn inventory(has: &str, taken: &str) -> Result<(Vec<Gpu>, Option<String>), String> {
    let mut all = Vec::new();
    for entry in gpus(has)? {
        let gpu = Gpu { kind: entry.kind, ..Gpu::default() };
        all.extend(std::iter::repeat_n(gpu, entry.count));
    }
    if all.len() > MAX_GPUS_PER_HOST {
        return Err(format!("{} GPUs are more than {MAX_GPUS_PER_HOST}", all.len()));
    }
    let mut warning = None;
    for entry in gpus(taken)? {
        let Some(indexes) = entry.indexes else {
            if entry.count > 0 {
                let alike = |gpu: &&mut Gpu| entry.kind.is_none() || gpu.kind == entry.kind;
                all.iter_mut().filter(alike).for_each(|gpu| gpu.in_use = true);
                let kind = entry.kind.map_or(String::new(), |kind| format!(" of type {kind}"));
                let taken = entry.count;
                warning =
                    Some(format!("{taken} GPUs{kind} are taken, but not which: none is free"));
            }
            continue;
        };
        for index in indexes.iter() {
            let Some(gpu) = all.get_mut(index) else {
                return Err(format!("GPU {index} is taken, and the host has {}", all.len()));
            };
            gpu.in_use = true;
            gpu.kind = entry.kind.clone().or(gpu.kind.take());
        }
    }
    Ok((all, warning))
}

/// Parts between commas that stand outside brackets.
fn items(text: &str) -> impl Iterator<Item = &str> {
    let mut depth = 0_usize;
    text.split(move |c| {
        match c {
            '(' | '[' => depth += 1,
            ')' | ']' => depth = depth.saturating_sub(1),
            _ => {}
        }
        c == ',' && depth == 0
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mask(text: &str) -> GpuMask {
        GpuMask::parse(text).unwrap()
    }

    #[test]
    fn every_notation_is_read() {
        let entry = |kind: Option<&str>, count, indexes: Option<&str>| Entry {
            kind: kind.map(ToOwned::to_owned),
            count,
            indexes: indexes.map(|i| if i.is_empty() { GpuMask::EMPTY } else { mask(i) }),
        };
        let cases = [
            ("gpu:8", entry(None, 8, None)),
            ("gpu", entry(None, 1, None)),
            ("gpu:a100:4(S:0-1)", entry(Some("a100"), 4, None)),
            ("gpu:g3:1(IDX:3)", entry(Some("g3"), 1, Some("3"))),
            ("gpu:3(IDX:0,2-3)", entry(None, 3, Some("0,2-3"))),
            ("gpu:g0:0(IDX:N/A)", entry(Some("g0"), 0, Some(""))),
            ("gpu:(null):0(IDX:N/A)", entry(None, 0, Some(""))),
            ("gres:gpu:g4:1", entry(Some("g4"), 1, None)),
            ("gres/gpu:g4:1", entry(Some("g4"), 1, None)),
            ("gres/gpu=2", entry(None, 2, None)),
            ("shard:16,gpu:2,mps:100(3/4)", entry(None, 2, None)),
        ];
        for (text, expected) in cases {
            assert_eq!(gpus(text), Ok(vec![expected]), "{text}");
        }
        assert_eq!(named("gpu:g3:1(IDX:3),gpu:g6:1(IDX:6),gpu:2"), Ok((mask("3,6"), 2)));
        assert_eq!(gpus("(null)"), Ok(Vec::new()));
        assert_eq!(totals("gpu:g0:99"), Ok(vec![entry(Some("g0"), 99, None)]));
    }

    #[test]
    fn what_contradicts_itself_is_refused() {
        for text in ["gpu:4K", "gpu:999", "gpu:2(IDX:0)", "gpu:1(IDX:x)", "gpu:a:b:c:1", "gpu:a:"] {
            assert!(gpus(text).is_err(), "{text}");
        }
    }
}
