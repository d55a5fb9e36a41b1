//! Whole pages: well-formed, self-contained, and safe whatever the texts are.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use bandpilot_report::plot::{Axis, Estimate, Line, area, estimates, heat, lines};
use bandpilot_report::{Best, Cell, Column, Page, Table};

const HOSTILE: &str = "</title><script>alert(1)</script>\" onload='x' &amp; $a^2$ \u{1} ]]> <!--";

fn cell(value: f64) -> Cell {
    Cell {
        value: Some(value),
        text: format!("{value}"),
        below: HOSTILE.to_owned(),
        title: HOSTILE.to_owned(),
    }
}

fn table(values: &[f64], best: Best) -> Table {
    let column = Column { name: HOSTILE.to_owned(), unit: HOSTILE.to_owned(), best };
    let row = |value: &f64| (HOSTILE.to_owned(), vec![cell(*value)]);
    Table {
        rows: HOSTILE.to_owned(),
        columns: vec![column],
        series: values.iter().map(row).collect(),
    }
}

fn page(series: usize, points: usize) -> String {
    let mut page = Page::new(HOSTILE);
    page.facts([(HOSTILE, HOSTILE)]);
    page.code(HOSTILE);
    page.section(HOSTILE, HOSTILE);
    page.lead(HOSTILE);
    page.legend(vec![HOSTILE; series]);
    let values: Vec<f64> = (0..series).map(|at| at as f64).collect();
    page.table(&table(&values, Best::Lowest));
    let line = |series: usize| Line {
        name: HOSTILE,
        series,
        points: (0..points).map(|at| (at as f64 * 60.0, (at % 7) as f64)).collect(),
    };
    let all: Vec<Line<'_>> = (0..series).map(line).collect();
    let time = Axis::time_s(60.0 * points as f64);
    page.section("Plots", "");
    page.figure(HOSTILE, &lines(&all, &time, &Axis::count(HOSTILE, 7.0), 200.0));
    page.figure(
        HOSTILE,
        &lines(&all, &Axis::log_duration_s(HOSTILE, 60.0, 1e5), &Axis::share(HOSTILE), 200.0),
    );
    for line in &all {
        page.series_heading(line.series, HOSTILE);
        page.figure(
            HOSTILE,
            &area(line, &time, &Axis::count(HOSTILE, 7.0), 100.0, line.series > 0),
        );
        let rows = vec![vec![0.5; points]; 3];
        page.figure(HOSTILE, &heat(HOSTILE, &rows, 30.0 * points as f64, &time, 40.0));
    }
    let estimate = |series: usize| {
        let value = series as f64;
        Estimate { name: HOSTILE, series, value, interval: (value - 0.5, value + 0.5) }
    };
    let rows: Vec<Estimate<'_>> = (0..series).map(estimate).collect();
    page.figure(HOSTILE, &estimates(&rows, &Axis::duration_s(HOSTILE, series as f64)));
    page.heat_scale(HOSTILE, HOSTILE);
    page.glossary([(HOSTILE, HOSTILE)]);
    page.finish()
}

fn parsed(html: &str) -> roxmltree::Document<'_> {
    let options =
        roxmltree::ParsingOptions { allow_dtd: true, ..roxmltree::ParsingOptions::default() };
    roxmltree::Document::parse_with_options(html, options).unwrap()
}

#[test]
fn pages_are_well_formed_and_hold_nothing_active_whatever_the_texts_are() {
    for (series, points) in [(0, 0), (1, 0), (1, 1), (2, 50), (10, 512)] {
        let html = page(series, points);
        let document = parsed(&html);
        let names = document.descendants().filter(roxmltree::Node::is_element);
        for node in names {
            let name = node.tag_name().name();
            assert!(!["script", "iframe", "object", "link", "foreignObject"].contains(&name));
            for attribute in node.attributes() {
                assert!(!attribute.name().starts_with("on"), "{name} {}", attribute.name());
                if ["href", "src"].contains(&attribute.name()) {
                    assert!(attribute.value().starts_with("data:image/png;base64,"));
                }
            }
        }
        // One for each series in each of: legend, table and heading.
        let class = |class: &'static str| {
            move |n: &roxmltree::Node<'_, '_>| n.attribute("class") == Some(class)
        };
        assert_eq!(document.descendants().filter(class("swatch")).count(), 3 * series);
        assert_eq!(
            document.descendants().filter(class("plot")).count(),
            if points == 0 { usize::from(series > 0) } else { 3 + 2 * series }
        );
        let title = document.descendants().find(|node| node.has_tag_name("title")).unwrap();
        assert_eq!(title.text(), Some(HOSTILE.replace('\u{1}', " ").as_str()));
        // Nothing is fetched, and no colour is fixed where it would not fit a dark page.
        assert!(!html.replace("http://www.w3.org/2000/svg", "").contains("http://"));
        assert!(
            !html.contains("https://")
                && !html.contains("fill=\"black\"")
                && !html.contains("#000")
        );
        assert!(!html.contains("NaN") && !html.contains("inf\""));
    }
}

#[test]
fn the_best_of_a_column_is_marked() {
    let marked = |values: &[f64], best| {
        let mut page = Page::new("t");
        page.table(&table(values, best));
        let html = page.finish();
        let document = parsed(&html);
        let best = document.descendants().filter(|node| node.attribute("class") == Some("best"));
        best.map(|node| node.first_child().unwrap().text().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(marked(&[3.0, 1.0, 2.0], Best::Lowest), ["1"]);
    assert_eq!(marked(&[3.0, 1.0, 3.0], Best::Highest), ["3", "3"]);
    assert!(marked(&[3.0, 1.0], Best::None).is_empty());
    assert!(
        marked(&[3.0, 3.0], Best::Lowest).is_empty() && marked(&[3.0], Best::Lowest).is_empty()
    );
}

#[test]
fn cells_of_a_heat_map_are_points_of_a_picture() {
    let rows = [vec![0.0, 0.5, 1.0], vec![1.0, 2.0, f64::NAN]];
    let mut page = Page::new("t");
    page.figure("f", &heat("hosts", &rows, 5.0, &Axis::time_s(10.0), 40.0));
    let html = page.finish();
    let document = parsed(&html);
    let image = document
        .descendants()
        .find(|node| node.has_tag_name(("http://www.w3.org/2000/svg", "image")))
        .unwrap();
    let data = image.attribute("href").unwrap().strip_prefix("data:image/png;base64,").unwrap();
    let png = base64::Engine::decode(&base64::engine::general_purpose::STANDARD, data).unwrap();
    let mut decoder = png::Decoder::new(std::io::Cursor::new(png));
    decoder.set_transformations(png::Transformations::EXPAND);
    let mut reader = decoder.read_info().unwrap();
    let mut points = vec![0; reader.output_buffer_size().unwrap()];
    let frame = reader.next_frame(&mut points).unwrap();
    assert_eq!((frame.width, frame.height, frame.color_type), (3, 2, png::ColorType::Rgba));
    let opaque: Vec<u8> = points.chunks(4).map(|point| point[3]).collect();
    assert_eq!(opaque, [0, 128, 255, 255, 255, 0]);
    // Half of the axis.
    assert_eq!(image.attribute("width"), Some("473.00"));
}
