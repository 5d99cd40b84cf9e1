//! [`lines`] and [`bars`]: plots in SVG, with the colours of the page that contains them.

use std::fmt::Write as _;

use super::format::digits;
use crate::drivers::FLOOR;

/// The points of one system.
#[derive(Clone, Debug)]
pub(crate) struct Series {
    pub(crate) name: String,
    /// The number of a colour of the page.
    pub(crate) colour: usize,
    pub(crate) points: Vec<(f64, f64)>,
}

/// The horizontal axis.
#[derive(Clone, Debug)]
pub(crate) struct XAxis {
    pub(crate) label: &'static str,
    /// Values, and the labels below them.
    pub(crate) ticks: Vec<(f64, String)>,
    /// The position of a value.
    pub(crate) place: fn(f64) -> f64,
}

const WIDTH: f64 = 760.0;
const HEIGHT: f64 = 400.0;
/// The edges of the plot itself; the names are on its right.
const LEFT: f64 = 64.0;
const RIGHT: f64 = 590.0;
const TOP: f64 = 16.0;
const BOTTOM: f64 = 350.0;
/// The distance between two names.
const LINE: f64 = 15.0;

/// One line for each system, on a logarithmic scale. Empty if there is nothing to draw.
pub(crate) fn lines(about: &str, x_axis: &XAxis, y_label: &str, series: &[Series]) -> String {
    let drawn: Vec<&Series> = series.iter().filter(|one| !one.points.is_empty()).collect();
    let values = || drawn.iter().flat_map(|one| one.points.iter().map(|point| point.1));
    let Some(scale) = Scale::of(values(), BOTTOM, TOP) else { return String::new() };
    let places: Vec<f64> = x_axis.ticks.iter().map(|tick| (x_axis.place)(tick.0)).collect();
    let (first, last) = (least(&places), -least(&places.iter().map(|place| -place).collect::<Vec<_>>()));
    let x = |value: f64| {
        let width = if last > first { last - first } else { 1.0 };
        LEFT + 12.0 + ((x_axis.place)(value) - first) / width * (RIGHT - LEFT - 24.0)
    };
    let mut svg = begin(about, HEIGHT);
    for (value, label) in scale.ticks() {
        let y = scale.at(value);
        put(
            &mut svg,
            format_args!("<line class=\"grid\" x1=\"{LEFT}\" x2=\"{RIGHT}\" y1=\"{y:.1}\" y2=\"{y:.1}\"/>"),
        );
        put(
            &mut svg,
            format_args!("<text class=\"end\" x=\"{}\" y=\"{:.1}\">{label}</text>", LEFT - 8.0, y + 4.0),
        );
    }
    for (value, label) in &x_axis.ticks {
        let x = x(*value);
        put(
            &mut svg,
            format_args!(
                "<line class=\"tick\" x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"{BOTTOM}\" y2=\"{}\"/>",
                BOTTOM + 5.0
            ),
        );
        put(
            &mut svg,
            format_args!("<text class=\"middle\" x=\"{x:.1}\" y=\"{}\">{label}</text>", BOTTOM + 20.0),
        );
    }
    put(
        &mut svg,
        format_args!(
            "<text class=\"middle\" x=\"{}\" y=\"{}\">{}</text>",
            f64::midpoint(LEFT, RIGHT),
            BOTTOM + 40.0,
            escaped(x_axis.label)
        ),
    );
    put(
        &mut svg,
        format_args!(
            "<text class=\"middle\" transform=\"translate(14 {}) rotate(-90)\">{}</text>",
            f64::midpoint(TOP, BOTTOM),
            escaped(y_label)
        ),
    );
    for one in &drawn {
        draw(&mut svg, one, |(value, figure)| (x(value), scale.at(figure)));
    }
    names(&mut svg, &drawn, |(value, figure)| (x(value), scale.at(figure)));
    svg.push_str("</svg>\n");
    svg
}

fn draw(svg: &mut String, series: &Series, at: impl Fn((f64, f64)) -> (f64, f64)) {
    let points: Vec<(f64, f64)> = series.points.iter().copied().map(at).collect();
    let path: Vec<String> = points.iter().map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
    let class = class(series);
    put(svg, format_args!("<polyline class=\"{class}\" points=\"{}\"/>", path.join(" ")));
    // Few points are measurements; many are a distribution.
    if points.len() <= 6 {
        for ((x, y), (_, value)) in points.iter().zip(&series.points) {
            let title = format!("{}: {}", escaped(&series.name), digits(*value));
            put(
                svg,
                format_args!(
                    "<circle class=\"{class}\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3\"><title>{title}</title></circle>"
                ),
            );
        }
    }
}

/// Writes the names beside the ends of the lines, as near as there is room.
fn names(svg: &mut String, drawn: &[&Series], at: impl Fn((f64, f64)) -> (f64, f64)) {
    let end = |one: &&Series| one.points.last().map(|point| at(*point));
    let mut ends: Vec<(&Series, (f64, f64))> =
        drawn.iter().filter_map(|one| Some((*one, end(one)?))).collect();
    ends.sort_by(|one, other| one.1.1.total_cmp(&other.1.1));
    let mut places: Vec<f64> = Vec::new();
    for (_, (_, y)) in &ends {
        places.push(places.last().map_or(*y, |before: &f64| y.max(before + LINE)));
    }
    // Names that would be below the plot move up again.
    let mut limit = BOTTOM + 8.0;
    for place in places.iter_mut().rev() {
        *place = place.min(limit);
        limit = *place - LINE;
    }
    for ((one, (x, y)), place) in ends.iter().zip(places) {
        let (class, edge) = (class(one), RIGHT + 16.0);
        put(
            svg,
            format_args!(
                "<polyline class=\"lead {class}\" points=\"{:.1},{y:.1} {edge:.1},{place:.1}\"/>",
                x + 4.0
            ),
        );
        put(
            svg,
            format_args!(
                "<text class=\"{class}\" x=\"{}\" y=\"{:.1}\">{}</text>",
                edge + 4.0,
                place + 4.0,
                escaped(&one.name)
            ),
        );
    }
}

/// A group of bars for each system, on a logarithmic scale: one bar for each point. `names` are those of the points.
pub(crate) fn bars(about: &str, x_label: &str, names: &[&str], series: &[Series]) -> String {
    const BAR: f64 = 11.0;
    const LABELS: f64 = 150.0;
    let drawn: Vec<&Series> = series.iter().filter(|one| !one.points.is_empty()).collect();
    if drawn.is_empty() {
        return String::new();
    }
    let values = drawn.iter().flat_map(|one| one.points.iter().map(|point| point.1));
    let right = WIDTH - 110.0;
    let Some(scale) = Scale::of(values.chain([1.0]), LABELS, right) else { return String::new() };
    let row = BAR * names.len() as f64 + 10.0;
    let bottom = TOP + row * drawn.len() as f64;
    let mut svg = begin(about, bottom + 50.0);
    for (value, label) in scale.ticks() {
        let x = scale.at(value);
        put(
            &mut svg,
            format_args!(
                "<line class=\"grid\" x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"{TOP}\" y2=\"{bottom:.1}\"/>"
            ),
        );
        put(
            &mut svg,
            format_args!("<text class=\"middle\" x=\"{x:.1}\" y=\"{:.1}\">{label}</text>", bottom + 16.0),
        );
    }
    put(
        &mut svg,
        format_args!(
            "<text class=\"middle\" x=\"{}\" y=\"{:.1}\">{}</text>",
            f64::midpoint(LABELS, right),
            bottom + 36.0,
            escaped(x_label)
        ),
    );
    for (i, one) in drawn.iter().enumerate() {
        let (top, class) = (TOP + row * i as f64 + 5.0, class(one));
        put(
            &mut svg,
            format_args!(
                "<text class=\"end {class}\" x=\"{}\" y=\"{:.1}\">{}</text>",
                LABELS - 8.0,
                top + row / 2.0 - 1.0,
                escaped(&one.name)
            ),
        );
        // The first coordinate is the number of the name.
        for ((place, value), name) in
            one.points.iter().filter_map(|point| Some((point, *names.get(nth(point.0))?)))
        {
            let (y, width) = (top + BAR * place, (scale.at(*value) - LABELS).max(1.5));
            bar(
                &mut svg,
                &format!("{class} bar{place}"),
                (LABELS, y, width, BAR),
                &format!("{} · {name}", digits(*value)),
            );
        }
    }
    svg.push_str("</svg>\n");
    svg
}

#[allow(clippy::cast_sign_loss, reason = "places are counted from 0")]
fn nth(place: f64) -> usize {
    place as usize
}

/// A bar with its position, its size and its label.
fn bar(svg: &mut String, class: &str, (x, y, width, height): (f64, f64, f64, f64), label: &str) {
    put(
        svg,
        format_args!(
            "<rect class=\"{class}\" x=\"{x}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{}\"/>\n\
             <text class=\"small\" x=\"{:.1}\" y=\"{:.1}\">{label}</text>",
            height - 2.0,
            x + width + 4.0,
            y + height - 3.0
        ),
    );
}

fn begin(about: &str, height: f64) -> String {
    format!(
        "<svg viewBox=\"0 0 {WIDTH} {height:.0}\" role=\"img\" aria-label=\"{0}\"><title>{0}</title>\n",
        escaped(about)
    )
}

fn put(svg: &mut String, what: std::fmt::Arguments<'_>) {
    // Writing to a string does not fail.
    let _ = writeln!(svg, "{what}");
}

fn class(series: &Series) -> String {
    match &*series.name {
        FLOOR => "floor".to_owned(),
        "distlock" => "ours".to_owned(),
        _ => format!("c{}", series.colour),
    }
}

/// Escapes text for HTML.
pub(crate) fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

fn least(of: &[f64]) -> f64 {
    of.iter().copied().fold(f64::INFINITY, f64::min)
}

/// A logarithmic scale.
#[derive(Clone, Copy, Debug)]
struct Scale {
    from: f64,
    to: f64,
    begin: f64,
    end: f64,
}

impl Scale {
    /// `None` without values.
    fn of(values: impl Iterator<Item = f64>, begin: f64, end: f64) -> Option<Self> {
        let logs: Vec<f64> = values.filter(|value| *value > 0.0).map(f64::log10).collect();
        let (from, to) = (least(&logs), -least(&logs.iter().map(|log| -log).collect::<Vec<_>>()));
        let room = ((to - from) * 0.04).max(0.05);
        from.is_finite().then_some(Self { from: from - room, to: to + room, begin, end })
    }

    fn at(self, value: f64) -> f64 {
        let log = value.max(f64::MIN_POSITIVE).log10().clamp(self.from, self.to);
        self.begin + (log - self.from) / (self.to - self.from) * (self.end - self.begin)
    }

    /// Round values, few enough for a plot.
    fn ticks(self) -> Vec<(f64, String)> {
        let steps: &[f64] = if self.to - self.from > 2.5 { &[1.0] } else { &[1.0, 2.0, 5.0] };
        let decades = self.from.floor() as i32..=self.to.ceil() as i32;
        let values = decades.flat_map(|decade| steps.iter().map(move |step| step * 10_f64.powi(decade)));
        let shown = values.filter(|value| (self.from..=self.to).contains(&value.log10()));
        shown.map(|value| (value, short(value))).collect()
    }
}

fn short(value: f64) -> String {
    match value {
        v if v >= 1e6 => format!("{} M", v / 1e6),
        v if v >= 1e4 => format!("{} k", v / 1e3),
        v if v >= 1.0 => format!("{v:.0}"),
        v => format!("{}", (v * 1e6).round() / 1e6),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn series(name: &str, points: &[(f64, f64)]) -> Series {
        Series { name: name.to_owned(), colour: 1, points: points.to_vec() }
    }

    fn tasks() -> XAxis {
        let ticks = [1.0, 64.0].map(|tasks: f64| (tasks, tasks.to_string())).into();
        XAxis { label: "tasks", ticks, place: f64::log10 }
    }

    #[test]
    fn every_system_is_drawn_and_named_inside_of_the_plot() {
        let many: Vec<_> = (0..14).map(|i| series(&format!("s{i}"), &[(1.0, 10.0), (64.0, 10.1)])).collect();
        let svg = lines("about", &tasks(), "per s", &many);
        for i in 0..14 {
            assert!(svg.contains(&format!(">s{i}</text>")), "{svg}");
        }
        let ys: Vec<f64> =
            svg.split(" y=\"").skip(1).map(|rest| rest.split('"').next().unwrap().parse().unwrap()).collect();
        assert!(ys.iter().all(|y| (0.0..=HEIGHT).contains(y)), "{ys:?}");
        assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
    }

    #[test]
    fn nothing_is_drawn_of_nothing() {
        assert_eq!(lines("about", &tasks(), "per s", &[series("one", &[])]), "");
        assert_eq!(bars("about", "commands", &["2"], &[series("one", &[])]), "");
    }

    #[test]
    fn names_are_text_and_not_markup() {
        let svg = lines("<a>", &tasks(), "&", &[series("<script>", &[(1.0, 1.0)])]);
        assert!(!svg.contains("<script>") && svg.contains("&lt;script&gt;"), "{svg}");
    }
}
