//! A CSV text line by line, so that line numbers are exact and a stray quote spoils only its own row.

use std::collections::BTreeMap;

/// The rows of a table and the places of its columns.
pub(crate) struct Lines<'a> {
    text: &'a str,
    header_line: u32,
    columns: BTreeMap<String, usize>,
    width: usize,
}

/// One row.
pub(crate) struct Row<'a> {
    pub(crate) line: u32,
    cells: Vec<String>,
    lines: &'a Lines<'a>,
}

impl<'a> Lines<'a> {
    /// `None` if the text has no line with anything in it.
    pub(crate) fn new(text: &'a str) -> Option<Self> {
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        let (at, header) = text.lines().enumerate().find(|(_, line)| !line.trim().is_empty())?;
        let cells = split(header);
        let width = cells.len();
        let columns = cells.into_iter().enumerate().map(|(at, name)| (name, at)).collect();
        Some(Self { text, header_line: at as u32 + 1, columns, width })
    }

    pub(crate) fn header_line(&self) -> u32 {
        self.header_line
    }

    pub(crate) fn width(&self) -> usize {
        self.width
    }

    pub(crate) fn has(&self, column: &str) -> bool {
        self.columns.contains_key(column)
    }

    /// The name of the column, if there is a single one.
    pub(crate) fn only_column(&self) -> Option<&str> {
        self.columns.keys().next().filter(|_| self.width == 1).map(String::as_str)
    }

    /// How many of `PREFIX0, PREFIX1, ...` there are, without a gap.
    pub(crate) fn numbered(&self, prefix: &str) -> usize {
        (0..self.width).take_while(|n| self.has(&format!("{prefix}{n}"))).count()
    }

    /// The rows below the header, blank lines left out.
    pub(crate) fn rows(&'a self) -> impl Iterator<Item = Row<'a>> {
        let numbered = self.text.lines().zip(1_u32..).skip(self.header_line as usize);
        numbered.filter(|(text, _)| !text.trim().is_empty()).map(|(text, line)| Row {
            line,
            cells: split(text),
            lines: self,
        })
    }
}

impl Row<'_> {
    /// Number of cells.
    pub(crate) fn len(&self) -> usize {
        self.cells.len()
    }

    /// The cell of a column; empty if the row is too short or there is no such column.
    pub(crate) fn get(&self, column: &str) -> &str {
        let at = self.lines.columns.get(column);
        at.and_then(|at| self.cells.get(*at)).map_or("", String::as_str)
    }
}

/// The trimmed cells of one line; a cell in quotes may hold commas and doubled quotes.
fn split(line: &str) -> Vec<String> {
    if !line.contains('"') {
        return line.split(',').map(|cell| cell.trim().to_owned()).collect();
    }
    let mut cells = vec![String::new()];
    let mut quoted = false;
    let mut chars = line.chars().peekable();
    while let Some(c) = chars.next() {
        let Some(cell) = cells.last_mut() else { break };
        match c {
            '"' if quoted && chars.peek() == Some(&'"') => {
                chars.next();
                cell.push('"');
            }
            '"' => quoted = !quoted,
            ',' if !quoted => cells.push(String::new()),
            _ => cell.push(c),
        }
    }
    cells.iter().map(|cell| cell.trim().to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_may_be_quoted() {
        for (line, cells) in [
            ("a, b ,,", vec!["a", "b", "", ""]),
            ("\"a,b\",c", vec!["a,b", "c"]),
            ("\"a \"\"b\"\"\",c", vec!["a \"b\"", "c"]),
            ("\"a,b", vec!["a,b"]),
        ] {
            assert_eq!(split(line), cells);
        }
    }
}
