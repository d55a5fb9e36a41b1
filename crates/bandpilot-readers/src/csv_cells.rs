//! Numbers in the cells of a table, and what is wrong with a table as a whole.

use crate::Diagnostic;
use crate::csv_lines::{Lines, Row};
use crate::diagnostic::MAX_REMARKS;
use crate::near::nearest;

/// What is wrong with a header: `known` columns must not stand twice, `needed` ones must be there.
pub(crate) fn header(
    text: &str,
    lines: &Lines<'_>,
    known: &[&str],
    needed: &[&str],
) -> Vec<Diagnostic> {
    let line = lines.header_line();
    let at = text.lines().nth(line.saturating_sub(1) as usize).unwrap_or("");
    let names: Vec<&str> = at
        .trim_start_matches('\u{feff}')
        .split(',')
        .map(|name| name.trim().trim_matches('"'))
        .collect();
    let error = |field: &str, message: &str| Diagnostic::error(field, message).at(line, 0);
    let twice = known.iter().filter(|column| names.iter().filter(|n| n == column).count() > 1);
    let twice = twice.map(|column| error(column, "the column stands twice"));
    let lacking = needed.iter().filter(|column| !lines.has(column)).map(|column| {
        let unknown = names.iter().copied().filter(|name| !known.contains(name));
        let help = match nearest(column, unknown, 1).first() {
            Some(name) => format!("is it '{name}'?"),
            None => {
                format!("the first line names the columns, at least {}", needed.join(","))
            }
        };
        error(column, "the table has no such column").help(help)
    });
    twice.chain(lacking).collect()
}

/// The remarks in order, at most a hundred of them.
pub(crate) fn shorten(diagnostics: &mut Vec<Diagnostic>) {
    crate::diagnostic::sort(diagnostics);
    if diagnostics.len() > MAX_REMARKS {
        let message = format!("{} further rows are wrong", diagnostics.len() - MAX_REMARKS);
        diagnostics.truncate(MAX_REMARKS);
        diagnostics.push(Diagnostic::error("", message));
    }
}

/// A row must have as many cells as the header.
pub(crate) fn full(row: &Row<'_>, width: usize) -> Result<(), Diagnostic> {
    if row.len() == width {
        return Ok(());
    }
    let message = format!("{} cells below {width} columns", row.len());
    Err(Diagnostic::error("", message).at(row.line, 0))
}

pub(crate) fn wrong(row: &Row<'_>, column: &str, message: String) -> Diagnostic {
    Diagnostic::error(column, message).at(row.line, 0)
}

pub(crate) fn needed<T>(row: &Row<'_>, column: &str, value: Option<T>) -> Result<T, Diagnostic> {
    value.ok_or_else(|| wrong(row, column, "is empty".to_owned()))
}

/// A number in a range; `None` for an empty cell.
pub(crate) fn number(
    row: &Row<'_>,
    column: &str,
    least: f64,
    most: f64,
    what: &str,
) -> Result<Option<f64>, Diagnostic> {
    let cell = row.get(column);
    if cell.is_empty() {
        return Ok(None);
    }
    // Adding 0 makes 0 of -0, whose bits would sort differently.
    match cell.parse::<f64>() {
        Ok(value) if (least..=most).contains(&value) => Ok(Some(value + 0.0)),
        _ => Err(wrong(row, column, format!("'{cell}' is not {what}"))),
    }
}

/// A whole number in a range, `8` or `8.0`.
pub(crate) fn count(
    row: &Row<'_>,
    column: &str,
    least: u32,
    most: u32,
) -> Result<Option<u32>, Diagnostic> {
    let what = format!("a whole number from {least} to {most}");
    let value = number(row, column, f64::from(least), f64::from(most), &what)?;
    match value {
        Some(value) if value.fract() != 0.0 => {
            Err(wrong(row, column, format!("'{}' is not {what}", row.get(column))))
        }
        value => Ok(value.map(|value| value as u32)),
    }
}
