//! One row of the table.

use super::scan::RawRow;
use crate::Diagnostic;
use crate::import::MAX_BUSBW_GBYTES_PER_S;

/// A row that is sound by itself.
pub(super) struct Row {
    pub(super) line: u32,
    pub(super) bytes: u64,
    /// size / (count x element size) where the element type is known and it divides.
    pub(super) parts: Option<f64>,
    pub(super) algbw: Printed,
    pub(super) busbw: Printed,
}

/// A number with the unit of its last printed digit.
#[derive(Clone, Copy)]
pub(super) struct Printed {
    pub(super) value: f64,
    pub(super) unit: f64,
}

/// What becomes of a row.
pub(super) enum RowOutcome {
    Row(Row),
    SizeZero,
    Refused(Diagnostic),
}

/// How far algbw may be from size / time besides rounding; some published outputs are typed by hand.
const ALGBW_SLACK: f64 = 0.005;

pub(super) fn read(raw: &RawRow<'_>) -> RowOutcome {
    match read_cells(raw) {
        Ok(Some(row)) => RowOutcome::Row(row),
        Ok(None) => RowOutcome::SizeZero,
        Err(reason) => RowOutcome::Refused(reason.at(raw.line, 0)),
    }
}

/// `None` for a row of size 0.
fn read_cells(raw: &RawRow<'_>) -> Result<Option<Row>, Diagnostic> {
    let Ok([size, count, kind, _, _, time, algbw, busbw, wrong, rest @ ..]) =
        <[&str; 13]>::try_from(raw.cells.as_slice())
    else {
        let message = format!("the row has {} of 13 cells", raw.cells.len());
        return Err(Diagnostic::error("", message).help("it is cut off or torn"));
    };
    let bytes = whole("size", size)?;
    let count = whole("count", count)?;
    if bytes == 0 {
        return Ok(None);
    }
    let time = number("time", time)?;
    let algbw = number("algbw", algbw)?;
    let busbw = number("busbw", busbw)?;
    let [in_time, in_algbw, in_busbw, in_wrong] = rest;
    for (field, cell) in [("time", in_time), ("algbw", in_algbw), ("busbw", in_busbw)] {
        // Some collectives have no in-place form.
        if cell != "N/A" {
            number(field, cell)?;
        }
    }
    for cell in [wrong, in_wrong] {
        if cell != "0" && cell != "N/A" {
            let message = format!("'{cell}' wrong values");
            return Err(Diagnostic::error("#wrong", message).help("a wrong run measures nothing"));
        }
    }
    if busbw.value > MAX_BUSBW_GBYTES_PER_S {
        return Err(Diagnostic::error("busbw", format!("{} GB/s cannot be", busbw.value)));
    }
    check_algbw(bytes, time, algbw)?;
    let parts = element_bytes(kind)
        .filter(|_| count > 0)
        .map(|element| bytes as f64 / (count as f64 * element as f64));
    Ok(Some(Row { line: raw.line, bytes, parts, algbw, busbw }))
}

/// algbw must be size / time, as far as both are printed.
fn check_algbw(bytes: u64, time: Printed, algbw: Printed) -> Result<(), Diagnostic> {
    let at = |time_us: f64| bytes as f64 / time_us / 1e3;
    let shortest = (time.value - time.unit).max(f64::MIN_POSITIVE);
    let slack = algbw.unit + algbw.value * ALGBW_SLACK;
    let low = at(time.value + time.unit) - slack;
    let high = at(shortest) + slack;
    if (low..=high).contains(&algbw.value) {
        return Ok(());
    }
    let message = format!("{} GB/s, but size / time is {:.2}", algbw.value, at(time.value));
    Err(Diagnostic::error("algbw", message).help("a number of the row is wrong"))
}

fn whole(field: &str, cell: &str) -> Result<u64, Diagnostic> {
    let digits = cell.bytes().all(|b| b.is_ascii_digit());
    let number = if digits { cell.parse().ok() } else { None };
    number.ok_or_else(|| unreadable(field, cell, "a whole number"))
}

fn number(field: &str, cell: &str) -> Result<Printed, Diagnostic> {
    let plain = cell.bytes().all(|b| b.is_ascii_digit() || b == b'.');
    let value: Option<f64> = if plain { cell.parse().ok() } else { None };
    let value = value.filter(|value| value.is_finite());
    let decimals = cell.split_once('.').map_or(0, |(_, after)| after.len().min(300));
    match value {
        Some(value) => Ok(Printed { value, unit: 10_f64.powf(-(decimals as f64)) }),
        None => Err(unreadable(field, cell, "a number")),
    }
}

fn unreadable(field: &str, cell: &str, want: &str) -> Diagnostic {
    if cell.contains("XX") {
        let reason = Diagnostic::error(field, format!("'{cell}' is masked"));
        return reason.help("the real numbers were taken out of this output");
    }
    Diagnostic::error(field, format!("'{cell}' is not {want}"))
}

/// Bytes of an element of a type as nccl-tests names it.
fn element_bytes(kind: &str) -> Option<u64> {
    match kind {
        "int8" | "uint8" | "f8e4m3" | "f8e5m2" | "fp8_e4m3" | "fp8_e5m2" => Some(1),
        "half" | "bfloat16" => Some(2),
        "int32" | "uint32" | "float" => Some(4),
        "int64" | "uint64" | "double" => Some(8),
        _ => None,
    }
}
