//! Plots as SVG that takes its colours from the page.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use kuva::backend::svg::SvgBackend;
use kuva::plot::{ForestPlot, LinePlot, LineStyle};
use kuva::render::layout::{Layout, TickFormat};
use kuva::render::plots::Plot;
use kuva::render::render::render_multiple;
use kuva::render::theme::Theme;

use crate::number::{duration, grouped, unit};
use crate::page::{Html, escape, is_unwritable};

/// Width of all plots; the page scales them.
const WIDTH: f64 = 1040.0;
/// Space left and right of plots over time, so that one below the other shows the same time.
const MARGINS: (f64, f64) = (76.0, 18.0);
/// Space above a plot.
const TOP: f64 = 10.0;
/// Space below a plot: ticks and label, or nothing if another plot over the same time follows.
const BOTTOM: (f64, f64) = (48.0, 8.0);
/// Number of colours; after that they come again with dashes.
const COLORS: usize = 8;
/// Colour of the cells of heat maps, red, green and blue; how full a cell is, is how little of the page shines through.
const HEAT: [u8; 3] = [0x2a, 0x6f, 0xc4];

/// Colour of a series.
pub(crate) fn color(series: usize) -> String {
    format!("var(--s{})", series % COLORS)
}

/// Dashes of a series; the first ones have none.
pub(crate) fn dash(series: usize) -> Option<&'static str> {
    [None, Some("7 3"), Some("2 3"), Some("9 3 2 3")][series / COLORS % 4]
}

/// An axis.
#[derive(Debug, Clone)]
pub struct Axis {
    label: String,
    /// What is divided by before drawing.
    scale: f64,
    /// Highest value before dividing.
    max: f64,
    /// Lowest power of ten and highest value of an axis of powers of ten.
    log: Option<(f64, f64)>,
    ticks: Ticks,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ticks {
    Number,
    Duration,
    Percent,
}

impl Axis {
    fn linear(label: String, scale: f64, max: f64, ticks: Ticks) -> Self {
        Self { label, scale, max: if max > 0.0 { max } else { scale }, log: None, ticks }
    }

    /// Time from 0 to a number of seconds, in the unit that suits it.
    pub fn time_s(max_s: f64) -> Self {
        let (scale, unit) = unit(max_s / 2.0);
        Self::linear(format!("time since the start, {unit}"), scale, max_s, Ticks::Number)
    }

    /// Durations from 0 to a number of seconds.
    pub fn duration_s(label: &str, max_s: f64) -> Self {
        let (scale, unit) = unit(max_s / 2.0);
        Self::linear(format!("{label}, {unit}"), scale, max_s, Ticks::Number)
    }

    /// Differences of durations around 0, as far as this number of seconds.
    pub fn difference_s(label: &str, most_s: f64) -> Self {
        Self::duration_s(label, most_s)
    }

    /// Durations on a scale of powers of ten, from the first one above 0 (both in seconds).
    pub fn log_duration_s(label: &str, min_s: f64, max_s: f64) -> Self {
        let min = 10_f64.powf(min_s.max(1e-3).log10().floor());
        let max = max_s.max(10.0 * min);
        let log = Some((min, max));
        Self { label: label.to_owned(), scale: 1.0, max, log, ticks: Ticks::Duration }
    }

    /// A count from 0.
    pub fn count(label: &str, max: f64) -> Self {
        Self::linear(label.to_owned(), 1.0, max, Ticks::Number)
    }

    /// A share from 0 to 1.
    pub fn share(label: &str) -> Self {
        Self::linear(label.to_owned(), 1.0, 1.0, Ticks::Percent)
    }

    /// A step of ticks with two or three of them: 1, 2 or 5 times a power of ten.
    fn large_step(&self) -> f64 {
        let half = self.max / self.scale / 2.0;
        let power = 10_f64.powf(half.log10().floor());
        let digit = if half / power >= 5.0 { 5.0 } else { (half / power).floor().min(2.0) };
        digit * power
    }

    fn format(&self) -> TickFormat {
        match self.ticks {
            Ticks::Number => TickFormat::Custom(Arc::new(tick)),
            Ticks::Duration => TickFormat::Custom(Arc::new(duration)),
            Ticks::Percent => {
                TickFormat::Custom(Arc::new(|value| format!("{:.0} %", 100.0 * value)))
            }
        }
    }
}

/// A number at a tick. Long ones would run into the label of the axis.
fn tick(value: f64) -> String {
    let (value, sign) = match value.abs() {
        size if size >= 1e6 => (value / 1e6, "M"),
        size if size >= 1e4 => (value / 1e3, "k"),
        _ => (value, ""),
    };
    let decimals = if value.fract().abs() < 1e-9 { 0 } else { 2 };
    let text = grouped(value, decimals);
    let short = text.trim_end_matches('0').trim_end_matches('.');
    format!("{}{sign}", if decimals > 0 { short } else { &text })
}

/// A line.
#[derive(Debug, Clone)]
pub struct Line<'a> {
    /// Its name, for readers that do not see it.
    pub name: &'a str,
    /// Index of the series: gives colour and dash.
    pub series: usize,
    /// Points in order of x.
    pub points: Vec<(f64, f64)>,
}

/// A text as the plot library takes it: it would draw what is between dollar signs as a formula, and it passes
/// characters on that XML does not have.
fn label(text: &str) -> String {
    text.replace(is_unwritable, " ").replace('$', "\\$")
}

/// In place of a plot without points, which the plot library would warn of.
fn nothing() -> Html {
    Html("<p>There is nothing to show.</p>".to_owned())
}

fn theme() -> Theme {
    Theme {
        background: "none".to_owned(),
        axis_color: "var(--soft)".to_owned(),
        grid_color: "var(--grid)".to_owned(),
        tick_color: "var(--soft)".to_owned(),
        text_color: "var(--soft)".to_owned(),
        font_family: None,
        ..Theme::light()
    }
}

fn layout(plots: &[Plot], x: &Axis, y: &Axis, height: f64) -> Layout {
    let mut layout = Layout::auto_from_plots(plots)
        .with_theme(theme())
        .with_width(WIDTH)
        .with_height(height)
        .with_body_size(13)
        .with_tick_size(12)
        .with_label_size(13)
        .with_x_tick_format(x.format())
        .with_y_tick_format(y.format())
        .with_y_label(label(&y.label))
        .with_y_axis_min(0.0)
        .with_y_axis_max(y.max / y.scale);
    layout = match x.log {
        Some((min, max)) => layout.with_log_x().with_x_axis_min(min).with_x_axis_max(max),
        None => layout.with_x_axis_min(0.0).with_x_axis_max(x.max / x.scale),
    };
    layout
}

/// Margins that are the same for all plots over time.
fn aligned(layout: Layout, x: &Axis, last: bool) -> Layout {
    let layout = layout.with_force_margins(MARGINS.0, MARGINS.1);
    if last {
        return layout.with_x_label(label(&x.label)).with_force_margins_y(TOP, BOTTOM.0);
    }
    let silent = TickFormat::Custom(Arc::new(|_| String::new()));
    layout.with_x_tick_format(silent).with_force_margins_y(TOP, BOTTOM.1)
}

fn line_plot(line: &Line<'_>, x: &Axis, y: &Axis) -> LinePlot {
    let points = line.points.iter().map(|(at, value)| (at / x.scale, value / y.scale));
    let style =
        dash(line.series).map_or(LineStyle::Solid, |dash| LineStyle::Custom(dash.to_owned()));
    LinePlot::new()
        .with_data(points)
        .with_color(color(line.series))
        .with_stroke_width(1.6)
        .with_line_style(style)
}

/// Lines over one another.
pub fn lines(lines: &[Line<'_>], x: &Axis, y: &Axis, height: f64) -> Html {
    if lines.iter().all(|line| line.points.is_empty()) {
        return nothing();
    }
    let plots: Vec<Plot> = lines.iter().map(|line| line_plot(line, x, y).into()).collect();
    let layout = aligned(layout(&plots, x, y, height), x, true);
    let names: Vec<&str> = lines.iter().map(|line| line.name).collect();
    svg(plots, layout, &format!("{} over {}: {}", y.label, x.label, names.join(", ")), "")
}

/// One filled line. If it is not the `last` one it has no labels of time: another plot over the same time follows below.
pub fn area(line: &Line<'_>, x: &Axis, y: &Axis, height: f64, last: bool) -> Html {
    areas(std::slice::from_ref(line), x, y, height, last)
}

/// Filled lines over one another, the highest first: where they overlap it is darker.
pub fn areas(lines: &[Line<'_>], x: &Axis, y: &Axis, height: f64, last: bool) -> Html {
    let Some(first) = lines.first().filter(|line| !line.points.is_empty()) else {
        return nothing();
    };
    let filled = |line: &Line<'_>| {
        line_plot(line, x, y).with_stroke_width(1.0).with_fill().with_fill_opacity(0.35).into()
    };
    let plots: Vec<Plot> = lines.iter().map(filled).collect();
    let height = if last { height + BOTTOM.0 - BOTTOM.1 } else { height };
    let layout = aligned(layout(&plots, x, y, height), x, last).with_y_tick_step(y.large_step());
    svg(plots, layout, &format!("{} over {}: {}", y.label, x.label, first.name), "")
}

/// A value with its interval.
#[derive(Debug, Clone)]
pub struct Estimate<'a> {
    /// Name.
    pub name: &'a str,
    /// Index of the series.
    pub series: usize,
    /// The figure.
    pub value: f64,
    /// Lower and upper end.
    pub interval: (f64, f64),
}

/// Values with intervals, one below the other.
pub fn estimates(rows: &[Estimate<'_>], x: &Axis) -> Html {
    if rows.is_empty() {
        return nothing();
    }
    let scaled = |value: f64| value / x.scale;
    let mut forest =
        ForestPlot::new().with_show_null_line(false).with_whisker_width(2.0).with_cap_size(4.0);
    let mut names = Vec::new();
    for row in rows {
        let (low, high) = row.interval;
        forest = forest.with_colored_row(
            label(row.name),
            scaled(row.value),
            scaled(low),
            scaled(high),
            color(row.series),
        );
        names.push(row.name);
    }
    let lowest = rows.iter().map(|row| scaled(row.interval.0)).fold(0.0, f64::min);
    let highest = rows.iter().map(|row| scaled(row.interval.1.max(row.value))).fold(0.0, f64::max);
    // Marks at the ends keep away from the frame.
    let room = if highest > lowest { 0.03 * (highest - lowest) } else { 1.0 };
    let lowest = if lowest < 0.0 { lowest - room } else { lowest };
    let highest = highest + room;
    let plots = vec![Plot::Forest(forest)];
    let layout = Layout::auto_from_plots(&plots)
        .with_theme(theme())
        .with_width(WIDTH)
        .with_height(70.0 + 30.0 * rows.len() as f64)
        .with_body_size(13)
        .with_tick_size(12)
        .with_label_size(13)
        .with_x_tick_format(x.format())
        .with_x_label(label(&x.label))
        .with_x_axis_min(lowest)
        .with_x_axis_max(highest);
    svg(plots, layout, &format!("{}: {}", x.label, names.join(", ")), "")
}

/// Rows of cells from 0 to 1 over time, the first row on top. The cells need not reach as far as the axis: `until` says how
/// far they do.
pub fn heat(title: &str, rows: &[Vec<f64>], until: f64, x: &Axis, height: f64) -> Html {
    let Some(png) = picture(rows) else { return nothing() };
    let y = Axis::count(title, rows.len() as f64);
    // Only its axes are seen.
    let plots = vec![LinePlot::new().with_data([(0.0, 0.0)]).with_color("none").into()];
    let layout = aligned(layout(&plots, x, &y, height + TOP + BOTTOM.0), x, true)
        .with_show_grid(false)
        .with_y_tick_step(rows.len() as f64)
        .with_y_tick_format(TickFormat::Custom(Arc::new(|_| String::new())));
    let width = (WIDTH - MARGINS.0 - MARGINS.1) * (until / x.max).clamp(0.0, 1.0);
    let image = format!(
        "<image x=\"{}\" y=\"{TOP}\" width=\"{width:.2}\" height=\"{height}\" preserveAspectRatio=\"none\" style=\"image-rendering:pixelated\" href=\"data:image/png;base64,{}\"/>",
        MARGINS.0,
        STANDARD.encode(png)
    );
    svg(plots, layout, &format!("{title} over {}", x.label), &image)
}

/// Cells as a picture with one point a cell: how full one is, is how opaque it is.
fn picture(rows: &[Vec<f64>]) -> Option<Vec<u8>> {
    let width = rows.iter().map(Vec::len).max().filter(|width| *width > 0)?;
    let mut png = Vec::new();
    let mut encoder = png::Encoder::new(&mut png, width as u32, rows.len() as u32);
    // One of 256 colours a point: all the same, more and more opaque.
    encoder.set_color(png::ColorType::Indexed);
    encoder.set_depth(png::BitDepth::Eight);
    encoder.set_palette(HEAT.repeat(256));
    encoder.set_trns((0..=255).collect::<Vec<u8>>());
    let point = |row: &Vec<f64>, at: usize| {
        (255.0 * row.get(at).copied().unwrap_or(0.0).clamp(0.0, 1.0)).round() as u8
    };
    let points: Vec<u8> =
        rows.iter().flat_map(|row| (0..width).map(move |at| point(row, at))).collect();
    // Writing into memory only fails for sizes that do not agree.
    let mut writer = encoder.write_header().ok()?;
    writer.write_image_data(&points).ok()?;
    writer.finish().ok()?;
    Some(png)
}

/// Draws, with a size that follows the page, a text for readers that do not see it, and something on top.
fn svg(plots: Vec<Plot>, layout: Layout, description: &str, on_top: &str) -> Html {
    let scene = render_multiple(plots, layout);
    let (width, height) = (scene.width, scene.height);
    let drawn = SvgBackend::new().render_scene(&scene);
    let inside = drawn.split_once('>').map_or("", |(_, inside)| inside);
    let inside = inside.trim_end().strip_suffix("</svg>").unwrap_or(inside);
    let description = escape(description);
    Html(format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"plot\" fill=\"var(--soft)\" viewBox=\"0 0 {width} {height}\" role=\"img\" aria-label=\"{description}\">{inside}{on_top}</svg>"
    ))
}

#[cfg(test)]
mod tests {
    use super::tick;

    #[test]
    fn ticks_are_short() {
        let cases =
            [(0.0, "0"), (2.5, "2.5"), (15_000.0, "15k"), (-12_500.0, "-12.5k"), (2e6, "2M")];
        for (value, text) in cases {
            assert_eq!(tick(value), text);
        }
    }
}
