//! The header of a table: which column is where, in all forms since 2018.
//!
//! | form | columns before the halves | columns of a half |
//! |---|---|---|
//! | 2018 | `bytes N type [op] [root]` | `time` (ms) `algbw busbw res` |
//! | 2019 to 2021 | `size count type [redop] [root]` | `time` (us) `algbw busbw error` |
//! | since 2021 | `size count type redop root` | `time` (us) `algbw busbw #wrong` |
//! | with a per-iteration report | the same | the same, then `i_min i_max i_p99 i_cv%` |
//!
//! There are two halves, out of place and in place, of the same columns. A `timestamp` may come last.

use crate::Diagnostic;

/// What a column holds.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Size,
    Count,
    Type,
    Redop,
    Root,
    Time,
    CpuTime,
    Algbw,
    Busbw,
    /// Number of wrong elements.
    Wrong,
    /// Largest deviation from the right result.
    Deviation,
    PerIteration,
    /// Date and time, two cells.
    Timestamp,
}

/// Name, meaning and units of every column that nccl-tests has had.
const COLUMNS: [(&str, Kind, &[&str]); 19] = [
    ("size", Kind::Size, &["(B)"]),
    ("bytes", Kind::Size, &[]),
    ("count", Kind::Count, &["(elements)"]),
    ("N", Kind::Count, &[]),
    ("type", Kind::Type, &[]),
    ("redop", Kind::Redop, &[]),
    ("op", Kind::Redop, &[]),
    ("root", Kind::Root, &[]),
    ("time", Kind::Time, &["(us)"]),
    ("cputime", Kind::CpuTime, &["(us)"]),
    ("algbw", Kind::Algbw, &["(GB/s)"]),
    ("busbw", Kind::Busbw, &["(GB/s)"]),
    ("#wrong", Kind::Wrong, &[]),
    ("wrong", Kind::Wrong, &[]),
    ("error", Kind::Deviation, &[]),
    ("res", Kind::Deviation, &[]),
    ("delta", Kind::Deviation, &[]),
    ("timestamp", Kind::Timestamp, &["%Y-%m-%d", "%H:%M:%S"]),
    ("i_cv%", Kind::PerIteration, &["(%)"]),
];

/// Where the numbers of one half stand.
#[derive(Clone, Copy)]
pub(super) struct Half {
    pub(super) time: usize,
    pub(super) algbw: usize,
    pub(super) busbw: usize,
    pub(super) verdict: usize,
}

/// Where everything stands in a row.
#[derive(Clone)]
pub(super) struct Columns {
    pub(super) size: usize,
    pub(super) count: Option<usize>,
    pub(super) kind: Option<usize>,
    pub(super) redop: Option<usize>,
    pub(super) root: Option<usize>,
    pub(super) out_of_place: Half,
    pub(super) in_place: Half,
    /// Number of cells of a whole row.
    pub(super) cells: usize,
    /// The form of 2018 prints milliseconds.
    pub(super) milliseconds: bool,
    /// The times are those of the calls, which say nothing about the bandwidth.
    pub(super) cpu_time: bool,
    /// True if the verdict is a deviation, not a number of wrong elements.
    pub(super) deviation: bool,
    units: Vec<&'static str>,
}

const SINCE_2021: &str =
    "size count type redop root time algbw busbw #wrong time algbw busbw #wrong";

impl Columns {
    /// The columns since 2021, for rows whose header is lost.
    pub(super) fn since_2021() -> Option<Self> {
        read(&SINCE_2021.split(' ').collect::<Vec<_>>()).ok()
    }

    /// True if the line of units below the header is the one that belongs to it.
    pub(super) fn has_units(&self, cells: &[&str]) -> bool {
        self.units == cells
    }

    /// True if these cells are the beginning of a row, not the rest of one.
    pub(super) fn begins_row(&self, cells: &[&str]) -> bool {
        match self.kind {
            Some(at) => {
                cells.get(at).is_some_and(|cell| super::rows::element_bytes(cell).is_some())
            }
            None => cells.len() == self.cells,
        }
    }
}

/// Reads a header; `None` for a line that is no header of bandwidths.
pub(super) fn columns(cells: &[&str]) -> Option<Result<Columns, Diagnostic>> {
    let has = |word: &str| cells.iter().any(|cell| cell.starts_with(word));
    if !has("algbw") && !has("busbw") {
        return None;
    }
    // Sentences may speak of them, too.
    let known = cells.iter().filter(|cell| kind_of(cell).is_some()).count();
    if known * 2 <= cells.len() && !cells.contains(&"size(B)") {
        return None;
    }
    Some(read(cells))
}

fn kind_of(name: &str) -> Option<(Kind, &'static [&'static str])> {
    if name.starts_with("i_") && name != "i_cv%" {
        return Some((Kind::PerIteration, &["(us)"]));
    }
    COLUMNS.iter().find(|(known, ..)| *known == name).map(|(_, kind, units)| (*kind, *units))
}

fn read(names: &[&str]) -> Result<Columns, Diagnostic> {
    let refuse = |message: String, help: &str| Err(Diagnostic::error("", message).help(help));
    if names.contains(&"size(B)") {
        let help = "NCCL and NVSHMEM are not the same; run all_reduce_perf of nccl-tests";
        return refuse("the table is of the NVSHMEM perftest".to_owned(), help);
    }
    if names == ["size", "time", "algbw", "busbw"] {
        let help = "give the output of nccl-tests itself";
        let message = "the table has four columns, as all_reduce_bench prints them, and does not say whether the results were right";
        return refuse(message.to_owned(), help);
    }
    let mut kinds = Vec::new();
    let mut units = Vec::new();
    for name in names {
        let Some((kind, of_it)) = kind_of(name) else {
            return refuse(format!("the table has a column '{name}', which nccl-tests lacks"), "");
        };
        kinds.push(kind);
        units.extend_from_slice(of_it);
    }
    let timestamps = usize::from(kinds.last() == Some(&Kind::Timestamp));
    kinds.truncate(kinds.len() - timestamps);
    let Some((keys, halves)) = split(&kinds) else {
        let help = "it needs size, then twice time, algbw, busbw and #wrong";
        return refuse("the header is cut off or has other columns".to_owned(), help);
    };
    let find = |kind: Kind| keys.iter().position(|key| *key == kind);
    let half = |from: usize, columns: &[Kind]| {
        let find = |wanted: &[Kind]| columns.iter().position(|kind| wanted.contains(kind));
        Some(Half {
            time: from,
            algbw: from + find(&[Kind::Algbw])?,
            busbw: from + find(&[Kind::Busbw])?,
            verdict: from + find(&[Kind::Wrong, Kind::Deviation])?,
        })
    };
    let second = keys.len() + halves[0].len();
    let (Some(size), Some(out_of_place), Some(in_place)) =
        (find(Kind::Size), half(keys.len(), halves[0]), half(second, halves[1]))
    else {
        let help = "it needs size, then twice time, algbw, busbw and #wrong";
        return refuse("a column is missing in the header".to_owned(), help);
    };
    Ok(Columns {
        size,
        count: find(Kind::Count),
        kind: find(Kind::Type),
        redop: find(Kind::Redop),
        root: find(Kind::Root),
        out_of_place,
        in_place,
        cells: kinds.len() + 2 * timestamps,
        milliseconds: names.contains(&"bytes"),
        cpu_time: kinds.contains(&Kind::CpuTime),
        deviation: kinds.contains(&Kind::Deviation),
        units,
    })
}

/// The columns before the halves, each at most once, and the two halves, which must be alike.
fn split(kinds: &[Kind]) -> Option<(&[Kind], [&[Kind]; 2])> {
    let begins = |kind: &Kind| matches!(kind, Kind::Time | Kind::CpuTime);
    let start = kinds.iter().position(begins)?;
    let (keys, halves) = kinds.split_at(start);
    if halves.len() % 2 == 1 {
        return None;
    }
    let (first, second) = halves.split_at(halves.len() / 2);
    let of_keys = |kind: &Kind| {
        matches!(kind, Kind::Size | Kind::Count | Kind::Type | Kind::Redop | Kind::Root)
    };
    let once = |columns: &[Kind]| {
        let repeats = |kind: &Kind| columns.iter().filter(|other| *other == kind).count() > 1;
        !columns.iter().any(|kind| *kind != Kind::PerIteration && repeats(kind))
    };
    let sound = keys.iter().all(of_keys) && !first.iter().any(of_keys) && first == second;
    (sound && once(keys) && once(first)).then_some((keys, [first, second]))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> Option<Result<Columns, Diagnostic>> {
        columns(&text.split_whitespace().collect::<Vec<_>>())
    }

    #[test]
    fn every_known_form_has_its_columns() {
        for (text, cells, count, root, busbw) in [
            ("bytes N type op time algbw busbw res time algbw busbw res", 12, Some(1), None, 6),
            (
                "bytes N type op root time algbw busbw res time algbw busbw res",
                13,
                Some(1),
                Some(4),
                7,
            ),
            ("size count type time algbw busbw error time algbw busbw error", 11, Some(1), None, 5),
            (
                "size count type root time algbw busbw error time algbw busbw error",
                12,
                Some(1),
                Some(3),
                6,
            ),
            (SINCE_2021, 13, Some(1), Some(4), 7),
            (
                "size count type redop root time algbw busbw #wrong i_min i_max i_p99 i_cv% time algbw busbw #wrong i_min i_max i_p99 i_cv% timestamp",
                23,
                Some(1),
                Some(4),
                7,
            ),
        ] {
            let columns = of(text).unwrap().unwrap();
            let found = (columns.cells, columns.count, columns.root, columns.out_of_place.busbw);
            assert_eq!(found, (cells, count, root, busbw), "{text}");
        }
    }

    #[test]
    fn other_headers_are_refused_and_sentences_are_none() {
        for text in [
            "size time algbw busbw",
            "size(B) count type scope latency(us) algbw(GB/s) busbw(GB/s)",
            "size count type redop root time algbw busbw #wrong time algbw",
            "size count type redop root algbw busbw #wrong time algbw busbw #wrong",
            "count type redop root time algbw busbw #wrong time algbw busbw #wrong",
            "size count type redop root time busbw #wrong time busbw #wrong",
            "size count type redop root time algbw busbw time algbw busbw",
            "size size type redop root time algbw busbw #wrong time algbw busbw #wrong",
            "size count type redop root time algbw busbw #wrong",
            "size count type redop root time algbw busbw speed time algbw busbw speed",
        ] {
            assert!(of(text).unwrap().is_err(), "{text}");
        }
        assert!(of("see what busbw means in the manual").is_none());
        assert!(of("Avg bus bandwidth : 1").is_none());
    }
}
