//! One row of a table or one object of a JSON document, judged by itself.

use super::header::{Columns, Half};
use crate::Diagnostic;
use crate::import::MAX_BUSBW_GBYTES_PER_S;

/// A row that is sound by itself.
#[derive(Debug)]
pub(super) struct Row {
    pub(super) line: u32,
    pub(super) bytes: u64,
    /// size / (count x element size) where the element type is known and there is a count.
    pub(super) parts: Option<f64>,
    /// Element type and reduction, as far as they are there.
    pub(super) kind: String,
    pub(super) redop: Option<String>,
    /// Rank of the root, -1 for none.
    pub(super) root: Option<i64>,
    /// size / time where the time is that of the collective, GB/s, with what its rounding can do.
    pub(super) speed: Option<Printed>,
    pub(super) algbw: Printed,
    pub(super) busbw: Printed,
    /// Largest deviation from the right result, and what is too large for two ranks.
    pub(super) deviation: Option<(f64, f64)>,
}

/// A number with the unit of its last printed digit.
#[derive(Debug, Clone, Copy)]
pub(super) struct Printed {
    pub(super) value: f64,
    pub(super) unit: f64,
}

/// What becomes of a row.
#[derive(Debug)]
pub(super) enum RowOutcome {
    Row(Box<Row>),
    SizeZero(u32),
    Refused(Diagnostic),
}

/// The numbers of a row, whatever it was written in.
pub(super) struct Values<'a> {
    pub(super) bytes: u64,
    pub(super) count: Option<u64>,
    pub(super) kind: Option<&'a str>,
    pub(super) redop: Option<&'a str>,
    pub(super) root: Option<i64>,
    /// Microseconds; `None` if it is not that of the collective.
    pub(super) time: Option<Printed>,
    pub(super) algbw: Printed,
    pub(super) busbw: Printed,
    pub(super) deviation: Option<f64>,
}

/// How far algbw may be from size / time besides rounding; some published outputs are typed by hand.
const ALGBW_SLACK: f64 = 0.005;

/// Reads the cells of a row below a header.
pub(super) fn read(line: u32, cells: &[&str], columns: &Columns) -> RowOutcome {
    let judged = values(cells, columns).and_then(|values| match values {
        None => Ok(None),
        Some(values) => judge(line, &values).map(Some),
    });
    match judged {
        Ok(Some(row)) => RowOutcome::Row(Box::new(row)),
        Ok(None) => RowOutcome::SizeZero(line),
        Err(reason) => RowOutcome::Refused(reason.at(line, 0)),
    }
}

/// `None` for a row of size 0.
fn values<'a>(cells: &[&'a str], columns: &Columns) -> Result<Option<Values<'a>>, Diagnostic> {
    if cells.len() != columns.cells {
        let message = format!("the row has {} of {} cells", cells.len(), columns.cells);
        return Err(Diagnostic::error("", message).help("it is cut off or torn"));
    }
    let at = |column: usize| cells.get(column).copied().unwrap_or("");
    let bytes = whole("size", at(columns.size))?;
    let count = columns.count.map(|column| whole("count", at(column))).transpose()?;
    if bytes == 0 {
        return Ok(None);
    }
    let Half { time, algbw, busbw, verdict } = columns.out_of_place;
    let scale = if columns.milliseconds { 1e3 } else { 1.0 };
    let time = number("time", at(time))?;
    let time = Printed { value: time.value * scale, unit: time.unit * scale };
    let (algbw, busbw) = (number("algbw", at(algbw))?, number("busbw", at(busbw))?);
    let in_place = columns.in_place;
    for (field, column) in
        [("time", in_place.time), ("algbw", in_place.algbw), ("busbw", in_place.busbw)]
    {
        // Some collectives have no in-place form.
        if at(column) != "N/A" {
            number(field, at(column))?;
        }
    }
    let mut deviation = None;
    for column in [verdict, in_place.verdict] {
        if columns.deviation {
            let cell = at(column);
            let found = if cell == "N/A" { None } else { Some(number("error", cell)?.value) };
            deviation = [deviation, found].into_iter().flatten().reduce(f64::max);
        } else {
            none_wrong(at(column))?;
        }
    }
    Ok(Some(Values {
        bytes,
        count,
        kind: columns.kind.map(at),
        redop: columns.redop.map(at),
        root: columns.root.map(|column| root(at(column))).transpose()?,
        time: (!columns.cpu_time).then_some(time),
        algbw,
        busbw,
        deviation,
    }))
}

/// A row of these numbers, if they fit together.
pub(super) fn judge(line: u32, values: &Values<'_>) -> Result<Row, Diagnostic> {
    let Values { bytes, algbw, busbw, .. } = *values;
    if busbw.value > MAX_BUSBW_GBYTES_PER_S {
        return Err(Diagnostic::error("busbw", format!("{} GB/s cannot be", busbw.value)));
    }
    if values.count == Some(0) {
        return Err(Diagnostic::error("count", format!("0 elements, but a size of {bytes}")));
    }
    let speed = match values.time {
        Some(time) => Some(check_algbw(bytes, time, algbw)?),
        None => None,
    };
    let element = values.kind.and_then(element_bytes);
    let parts = match (element, values.count) {
        (Some(element), Some(count)) => Some(bytes as f64 / (count as f64 * element as f64)),
        _ => None,
    };
    let deviation = match (values.deviation, values.kind) {
        (Some(deviation), Some(kind)) => Some((deviation, allowed_deviation(kind))),
        _ => None,
    };
    Ok(Row {
        line,
        bytes,
        parts,
        kind: [values.kind, values.redop].into_iter().flatten().collect::<Vec<_>>().join(" "),
        redop: values.redop.map(str::to_owned),
        root: values.root,
        speed,
        algbw,
        busbw,
        deviation,
    })
}

/// Refuses a row with wrong results; `N/A` where they were not checked.
pub(super) fn none_wrong(cell: &str) -> Result<(), Diagnostic> {
    if cell == "0" || cell == "N/A" {
        return Ok(());
    }
    let message = format!("'{cell}' wrong values");
    Err(Diagnostic::error("#wrong", message).help("a wrong run measures nothing"))
}

/// algbw must be size / time, as far as both are printed; gives size / time.
fn check_algbw(bytes: u64, time: Printed, algbw: Printed) -> Result<Printed, Diagnostic> {
    let at = |time_us: f64| bytes as f64 / time_us.max(f64::MIN_POSITIVE) / 1e3;
    let (low, high) = (at(time.value + time.unit), at(time.value - time.unit));
    let slack = algbw.unit + algbw.value * ALGBW_SLACK;
    if (low - slack..=high + slack).contains(&algbw.value) {
        let speed = at(time.value);
        return Ok(Printed { value: speed, unit: (high - speed).max(speed - low) });
    }
    let message = format!("{} GB/s, but size / time is {:.2}", algbw.value, at(time.value));
    Err(Diagnostic::error("algbw", message).help("a number of the row is wrong"))
}

pub(super) fn whole(field: &str, cell: &str) -> Result<u64, Diagnostic> {
    let digits = cell.bytes().all(|b| b.is_ascii_digit());
    let number = if digits { cell.parse().ok() } else { None };
    number.ok_or_else(|| unreadable(field, cell, "a whole number"))
}

pub(super) fn root(cell: &str) -> Result<i64, Diagnostic> {
    let cell = cell.trim();
    cell.parse().ok().filter(|root| *root >= -1).ok_or_else(|| unreadable("root", cell, "a rank"))
}

/// A number such as `12.50`, `12305` or `1.2e+07`.
pub(super) fn number(field: &str, cell: &str) -> Result<Printed, Diagnostic> {
    let (mantissa, exponent) = cell.split_once('e').unwrap_or((cell, "0"));
    let plain = mantissa.bytes().all(|b| b.is_ascii_digit() || b == b'.');
    let value: Option<f64> = if plain { cell.parse().ok() } else { None };
    let value = value.filter(|value: &f64| value.is_finite());
    let decimals = mantissa
        .split_once('.')
        .map_or(0, |(_, after)| i32::try_from(after.len()).unwrap_or(300).min(300));
    match (value, exponent.parse::<i32>()) {
        (Some(value), Ok(exponent)) => {
            let unit = 10_f64.powi(exponent.clamp(-300, 300) - decimals);
            Ok(Printed { value, unit })
        }
        _ => Err(unreadable(field, cell, "a number")),
    }
}

fn unreadable(field: &str, cell: &str, want: &str) -> Diagnostic {
    if cell.contains("XX") {
        let reason = Diagnostic::error(field, format!("'{cell}' is masked"));
        return reason.help("the real numbers were taken out of this output");
    }
    let short: String = cell.chars().take(40).collect();
    Diagnostic::error(field, format!("'{short}' is not {want}"))
}

/// Bytes of an element of a type as nccl-tests and rccl-tests name it.
pub(super) fn element_bytes(kind: &str) -> Option<u64> {
    match kind {
        "int8" | "uint8" | "char" | "f8e4m3" | "f8e5m2" | "fp8_e4m3" | "fp8_e5m2" => Some(1),
        "half" | "bfloat16" => Some(2),
        "int32" | "uint32" | "int" | "float" => Some(4),
        "int64" | "uint64" | "double" => Some(8),
        _ => None,
    }
}

/// Largest deviation that is rounding, for each rank after the first. nccl-tests itself called more
/// than that wrong until 2021 (`DeltaMaxValue` x (ranks - 1)); integers must be exact.
fn allowed_deviation(kind: &str) -> f64 {
    match kind {
        "half" | "bfloat16" => 1e-2,
        "float" => 1e-5,
        "double" => 1e-12,
        _ => 0.0,
    }
}
