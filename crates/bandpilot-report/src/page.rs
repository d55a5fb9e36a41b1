//! The page.

use std::fmt::Write as _;

use crate::table::Table;

const STYLE: &str = include_str!("style.css");

/// Text that is HTML already. Only this crate makes any, so whatever else is text has been escaped.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Html(pub(crate) String);

/// Text with the characters that mean something in HTML replaced; control characters, which XML has no way to write, become blanks.
///
/// ```
/// assert_eq!(bandpilot_report::escape("a<b> & \"c\"\u{1}"), "a&lt;b&gt; &amp; &quot;c&quot; ");
/// ```
pub fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            '\n' | '\t' => out.push(letter),
            letter if is_unwritable(letter) => out.push(' '),
            letter => out.push(letter),
        }
    }
    out
}

/// Control characters, and the two others that XML has no way to write.
pub(crate) fn is_unwritable(letter: char) -> bool {
    letter.is_control() || matches!(letter, '\u{fffe}' | '\u{ffff}')
}

/// A page that is put together from top to bottom.
#[derive(Debug)]
pub struct Page {
    title: String,
    body: String,
    /// A section is open.
    open: bool,
}

impl Page {
    /// A page with a title.
    pub fn new(title: &str) -> Self {
        let title = escape(title);
        let body = format!("<header><h1>{title}</h1></header>\n");
        Self { title, body, open: false }
    }

    /// Names with what they stand for.
    pub fn facts<'a>(&mut self, facts: impl IntoIterator<Item = (&'a str, &'a str)>) {
        self.body.push_str("<dl class=\"facts\">");
        for (name, fact) in facts {
            let (name, fact) = (escape(name), escape(fact));
            // A String takes every text.
            let _ = write!(self.body, "<div><dt>{name}</dt><dd>{fact}</dd></div>");
        }
        self.body.push_str("</dl>\n");
    }

    /// A line of program text.
    pub fn code(&mut self, text: &str) {
        let _ = writeln!(self.body, "<pre><code>{}</code></pre>", escape(text));
    }

    /// Begins a section; the text below its heading may be empty.
    pub fn section(&mut self, heading: &str, text: &str) {
        self.close();
        self.open = true;
        let _ = writeln!(self.body, "<section><h2>{}</h2>", escape(heading));
        self.text(text);
    }

    /// A paragraph.
    pub fn text(&mut self, text: &str) {
        if !text.is_empty() {
            let _ = writeln!(self.body, "<p>{}</p>", escape(text));
        }
    }

    /// A paragraph that stands out.
    pub fn lead(&mut self, text: &str) {
        let _ = writeln!(self.body, "<p class=\"lead\">{}</p>", escape(text));
    }

    /// Which colour and dash stands for which name, in order of the series.
    pub fn legend<'a>(&mut self, names: impl IntoIterator<Item = &'a str>) {
        self.body.push_str("<ul class=\"legend\">");
        for (series, name) in names.into_iter().enumerate() {
            let _ = write!(self.body, "<li>{}{}</li>", swatch(series).0, escape(name));
        }
        self.body.push_str("</ul>\n");
    }

    /// A small heading with the sign of a series.
    pub fn series_heading(&mut self, series: usize, name: &str) {
        let _ = writeln!(self.body, "<h3>{}{}</h3>", swatch(series).0, escape(name));
    }

    /// A plot with what it shows; the caption may be empty.
    pub fn figure(&mut self, caption: &str, plot: &Html) {
        let caption = match caption {
            "" => String::new(),
            caption => format!("<figcaption>{}</figcaption>", escape(caption)),
        };
        let _ = writeln!(self.body, "<figure>{caption}{}</figure>", plot.0);
    }

    /// The scale of a heat map from 0 to 1.
    pub fn heat_scale(&mut self, none: &str, all: &str) {
        let (none, all) = (escape(none), escape(all));
        let _ = writeln!(self.body, "<p class=\"scale\">{none}<i></i>{all}</p>");
    }

    /// A table.
    pub fn table(&mut self, table: &Table) {
        self.body.push_str(&table.html().0);
    }

    /// What each figure means.
    pub fn glossary<'a>(&mut self, terms: impl IntoIterator<Item = (&'a str, &'a str)>) {
        self.body.push_str("<details open=\"open\"><summary>What the figures mean</summary><dl>");
        for (term, meaning) in terms {
            let (term, meaning) = (escape(term), escape(meaning));
            let _ = write!(self.body, "<dt>{term}</dt><dd>{meaning}</dd>");
        }
        self.body.push_str("</dl></details>\n");
    }

    fn close(&mut self) {
        if self.open {
            self.body.push_str("</section>\n");
        }
    }

    /// The file.
    pub fn finish(mut self) -> String {
        self.close();
        let Self { title, body, .. } = self;
        format!(
            "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"/>\
             <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; img-src data:\"/>\
             <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\
             <meta name=\"color-scheme\" content=\"light dark\"/>\
             <title>{title}</title>\n<style>{STYLE}</style></head>\n<body><main>\n{body}</main></body></html>\n"
        )
    }
}

/// The sign of a series: a short line in its colour and dash.
pub(crate) fn swatch(series: usize) -> Html {
    let color = crate::plot::color(series);
    let dash = crate::plot::dash(series);
    let dash = dash.map_or(String::new(), |dash| format!(" stroke-dasharray=\"{dash}\""));
    Html(format!(
        "<svg class=\"swatch\" viewBox=\"0 0 24 10\" aria-hidden=\"true\"><path d=\"M0 5H24\" stroke=\"{color}\" stroke-width=\"4\"{dash}/></svg>"
    ))
}
