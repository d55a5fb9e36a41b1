//! Reports for people: one HTML file that needs nothing else.
//!
//! A [`Page`] is put together of texts, [tables](Table) and [plots](plot). Styles, plots and pictures are inside the file, there
//! is no script, and nothing is fetched; the browser is told to refuse it. Colours are variables of the style sheet, so the same file
//! is light or dark as the reader's system is. Everything that is given as text is escaped; the file is well-formed XML.
//!
//! Lines, axes and intervals are drawn by the `kuva` crate, whose colours may be such variables. What it does not have is a heat map of
//! bounded size (it writes a rectangle for each cell): [`plot::heat`] puts a picture onto its axes.
//!
//! ```
//! use bandpilot_report::{Page, plot::{Axis, Line, lines}};
//! let mut page = Page::new("A run <1>");
//! let line = Line { name: "fifo", series: 0, points: vec![(0.0, 1.0), (60.0, 3.0)] };
//! page.section("Queue", "Jobs that wait.");
//! page.figure("Jobs waiting", &lines(&[line], &Axis::time_s(60.0), &Axis::count("jobs", 3.0), 240.0));
//! let html = page.finish();
//! assert!(html.contains("A run &lt;1&gt;") && html.contains("<svg"));
//! ```

mod number;
mod page;
mod table;

pub mod plot;

pub use number::{duration, grouped, span};
pub use page::{Html, Page, escape};
pub use table::{Best, Cell, Column, Table};
