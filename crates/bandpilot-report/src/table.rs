//! Tables of figures.

use std::fmt::Write as _;

use crate::page::{Html, escape, swatch};

/// Which figure of a column is the best.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Best {
    /// The lowest.
    Lowest,
    /// The highest.
    Highest,
    /// None: it is no merit.
    None,
}

/// A column.
#[derive(Debug, Clone)]
pub struct Column {
    /// Heading.
    pub name: String,
    /// Unit; may be empty.
    pub unit: String,
    /// Which figure is marked.
    pub best: Best,
}

/// A cell.
#[derive(Debug, Clone, Default)]
pub struct Cell {
    /// What is compared; a cell without is never the best.
    pub value: Option<f64>,
    /// What is shown.
    pub text: String,
    /// Shown smaller below it; may be empty.
    pub below: String,
    /// Shown to who points at it; may be empty.
    pub title: String,
}

/// A table with one row a series.
#[derive(Debug, Clone)]
pub struct Table {
    /// Heading of the names.
    pub rows: String,
    /// Columns.
    pub columns: Vec<Column>,
    /// Name and cells of each series.
    pub series: Vec<(String, Vec<Cell>)>,
}

impl Table {
    /// The best figure of a column, unless there is nothing that it is better than.
    fn best(&self, at: usize) -> Option<f64> {
        let values = || self.series.iter().filter_map(|(_, cells)| cells.get(at)?.value);
        let lowest = values().fold(f64::INFINITY, f64::min);
        let highest = values().fold(f64::NEG_INFINITY, f64::max);
        match self.columns[at].best {
            Best::Lowest if lowest < highest => Some(lowest),
            Best::Highest if lowest < highest => Some(highest),
            _ => None,
        }
    }

    pub(crate) fn html(&self) -> Html {
        let mut out = String::from("<div class=\"wide\"><table><thead><tr>");
        // A String takes every text.
        let _ = write!(out, "<th scope=\"col\">{}</th>", escape(&self.rows));
        for column in &self.columns {
            let (name, unit) = (escape(&column.name), escape(&column.unit));
            let _ = write!(out, "<th scope=\"col\">{name}<small>{unit}</small></th>");
        }
        out.push_str("</tr></thead><tbody>");
        let best: Vec<Option<f64>> = (0..self.columns.len()).map(|at| self.best(at)).collect();
        for (series, (name, cells)) in self.series.iter().enumerate() {
            let _ = write!(out, "<tr><th scope=\"row\">{}{}</th>", swatch(series).0, escape(name));
            for (cell, best) in cells.iter().zip(&best) {
                let is_best = cell.value.is_some() && cell.value == *best;
                let class = if is_best { " class=\"best\"" } else { "" };
                let title = match &*cell.title {
                    "" => String::new(),
                    title => format!(" title=\"{}\"", escape(title)),
                };
                let _ = write!(out, "<td{class}{title}>{}", escape(&cell.text));
                if !cell.below.is_empty() {
                    let _ = write!(out, "<small>{}</small>", escape(&cell.below));
                }
                out.push_str("</td>");
            }
            out.push_str("</tr>");
        }
        out.push_str("</tbody></table></div>\n");
        Html(out)
    }
}
