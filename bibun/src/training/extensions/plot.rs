//! Curves of logged values.

use std::io::Write;
use std::ops::Range;
use std::path::Path;

use plotters::chart::ChartContext;
use plotters::coord::Shift;
use plotters::coord::ranged1d::ValueFormatter;
use plotters::coord::types::RangedCoordf64;
use plotters::prelude::*;

use crate::serializers::write_whole;
use crate::training::{BoxError, Entry, Extension, Log, Session};

/// An extension that draws logged values over the epochs or steps into an `.svg` file in the
/// folder, again with every line of the log.
///
/// Requires the feature `plots`.
///
/// Values that are not finite leave a gap.
///
/// ```
/// use bibun::training::Plot;
/// let losses = Plot::new("loss.svg", ["loss", "test/loss"]).logarithmic();
/// let rate = Plot::new("rate.svg", ["learning_rate"]).over("iteration");
/// # let _ = (losses, rate);
/// ```
#[derive(Debug)]
pub struct Plot {
    file: String,
    values: Vec<String>,
    over: String,
    logarithmic: bool,
}

impl Plot {
    /// Creates an extension that draws the values of these names over the epochs.
    pub fn new<N: Into<String>>(
        file: impl Into<String>,
        values: impl IntoIterator<Item = N>,
    ) -> Self {
        Self {
            file: file.into(),
            values: values.into_iter().map(Into::into).collect(),
            over: "epoch".to_owned(),
            logarithmic: false,
        }
    }

    /// Sets the value on the horizontal axis: `iteration`, `elapsed_time`. Defaults to `epoch`.
    #[must_use]
    pub fn over(mut self, name: impl Into<String>) -> Self {
        self.over = name.into();
        self
    }

    /// Uses a logarithmic vertical axis; values that are not positive are left out.
    #[must_use]
    pub fn logarithmic(mut self) -> Self {
        self.logarithmic = true;
        self
    }

    fn draw(&self, log: &Log, file: &Path) -> Result<(), BoxError> {
        let curves: Vec<(&str, Vec<(f64, f64)>)> = (self.values.iter())
            .map(|name| {
                let points = log
                    .values(name)
                    .filter_map(|(entry, y)| Some((entry.get(&self.over)?, y)));
                (name.as_str(), points.collect())
            })
            .filter(|(_, points): &(_, Vec<_>)| !points.is_empty())
            .collect();
        let drawable =
            |&(x, y): &(f64, f64)| x.is_finite() && y.is_finite() && (y > 0.0 || !self.logarithmic);
        let points = curves
            .iter()
            .flat_map(|(_, points)| points)
            .filter(|point| drawable(point));
        let (xs, ys): (Vec<f64>, Vec<f64>) = points.copied().unzip();
        let (Some(x), Some(y)) = (range(&xs), range(&ys)) else {
            return Ok(());
        };
        let over = &*self.over;
        Picture::draw(file, (720, 440), |area| {
            let mut builder = ChartBuilder::on(area);
            builder
                .margin(14)
                .x_label_area_size(40)
                .y_label_area_size(60);
            // The two kinds of axis have different types.
            if self.logarithmic {
                let low = ys.iter().copied().fold(f64::INFINITY, f64::min);
                let y = low / 1.2..y.end * 1.2;
                let ticks = logarithmic_ticks(&y);
                let y = y.log_scale().with_key_points(ticks);
                let chart = builder.build_cartesian_2d(x.clone(), y)?;
                curves_in(chart, &curves, drawable, over, [x.end - x.start, 0.0])
            } else {
                let lengths = [&x, &y].map(|range| range.end - range.start);
                curves_in(
                    builder.build_cartesian_2d(x, y)?,
                    &curves,
                    drawable,
                    over,
                    lengths,
                )
            }
        })
    }
}

/// Returns powers of ten and, if these are few, also twice and five times them.
fn logarithmic_ticks(range: &Range<f64>) -> Vec<f64> {
    let exponents = range.start.log10().floor() as i32..=range.end.log10().ceil() as i32;
    let steps: &[f64] = if exponents.clone().count() > 5 {
        &[1.0]
    } else {
        &[1.0, 2.0, 5.0]
    };
    let ticks =
        exponents.flat_map(|exponent| steps.iter().map(move |step| step * 10f64.powi(exponent)));
    ticks.filter(|tick| range.contains(tick)).collect()
}

impl<M> Extension<M> for Plot {
    fn name(&self) -> &str {
        "plot"
    }

    fn is_for_first(&self) -> bool {
        true
    }

    fn files(&self) -> Vec<&Path> {
        vec![Path::new(&self.file)]
    }

    fn start(&mut self, session: &mut Session<'_, M>) -> Result<(), BoxError> {
        session.folder().map(drop)
    }

    fn logged(&mut self, _: &Entry, session: &mut Session<'_, M>) -> Result<(), BoxError> {
        self.draw(session.log(), &session.file(&self.file)?)
    }
}

/// Returns a range slightly larger than all values, or `None` if there are no values.
fn range(values: &[f64]) -> Option<Range<f64>> {
    let low = values.iter().copied().reduce(f64::min)?;
    let high = values.iter().copied().reduce(f64::max)?;
    let room = match high - low {
        0.0 => high.abs().max(1e-6) * 0.1,
        width => width * 0.04,
    };
    Some(low - room..high + room)
}

const COLORS: [RGBColor; 8] = [
    RGBColor(31, 119, 180),
    RGBColor(214, 39, 40),
    RGBColor(44, 160, 44),
    RGBColor(255, 127, 14),
    RGBColor(148, 103, 189),
    RGBColor(23, 190, 207),
    RGBColor(140, 86, 75),
    RGBColor(127, 127, 127),
];

type Chart<'a, B, Y> = ChartContext<'a, B, Cartesian2d<RangedCoordf64, Y>>;

/// Draws the axes, the curves and the legend.
fn curves_in<'a, B, Y>(
    mut chart: Chart<'a, B, Y>,
    curves: &[(&str, Vec<(f64, f64)>)],
    drawable: impl Fn(&(f64, f64)) -> bool,
    over: &str,
    lengths: [f64; 2],
) -> Result<(), BoxError>
where
    B: DrawingBackend<ErrorType: 'static> + 'a,
    Y: Ranged<ValueType = f64> + ValueFormatter<f64>,
{
    chart
        .configure_mesh()
        .x_desc(over)
        .x_labels(9)
        .y_labels(8)
        .x_label_formatter(&|x| axis_label(*x, lengths[0]))
        .y_label_formatter(&|y| axis_label(*y, lengths[1]))
        .label_style(("sans-serif", 13))
        .bold_line_style(RGBColor(225, 225, 225))
        .light_line_style(TRANSPARENT)
        .draw()?;
    for ((name, points), color) in curves.iter().zip(COLORS.iter().cycle()) {
        let style = color.stroke_width(2);
        for part in points.split(|point| !drawable(point)) {
            match part {
                [] => {}
                // A line needs two points.
                [point] => drop(chart.draw_series([Circle::new(*point, 3, color.filled())])?),
                part => drop(chart.draw_series(LineSeries::new(part.iter().copied(), style))?),
            }
        }
        let key = move |(x, y)| PathElement::new([(x, y), (x + 18, y)], style);
        chart
            .draw_series(std::iter::empty::<Circle<(f64, f64), i32>>())?
            .label(*name)
            .legend(key);
    }
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::UpperRight)
        .label_font(("sans-serif", 13))
        .background_style(WHITE.mix(0.85))
        .border_style(RGBColor(200, 200, 200))
        .draw()?;
    Ok(())
}

/// Formats a number beside an axis of some length, with as many digits as it needs.
pub(super) fn axis_label(value: f64, length: f64) -> String {
    // Multiples of 0.1 are rounded: their sums reach 0.30000000000000004, and their differences
    // 1e-17.
    let value = if value.abs() < length * 1e-9 {
        0.0
    } else {
        value
    };
    let rounded: f64 = format!("{value:.6e}").parse().unwrap_or(value);
    match rounded.abs() {
        0.0 => "0".to_owned(),
        size if (1e-3..1e5).contains(&size) => format!("{rounded}"),
        _ => format!("{rounded:e}"),
    }
}

/// Picture files.
pub(super) struct Picture;

impl Picture {
    /// Draws on a white background; the file appears complete or not at all.
    pub(super) fn draw(
        file: &Path,
        size: (u32, u32),
        draw: impl FnOnce(&DrawingArea<SVGBackend<'_>, Shift>) -> Result<(), BoxError>,
    ) -> Result<(), BoxError> {
        if file.extension().is_none_or(|extension| extension != "svg") {
            let what = format!("{}: pictures are `.svg` files", file.display());
            return Err(what.into());
        }
        let mut text = String::new();
        {
            let area = SVGBackend::with_string(&mut text, size).into_drawing_area();
            area.fill(&WHITE)?;
            draw(&area)?;
            area.present()?;
        }
        Ok(write_whole(file, |writer| {
            Ok(writer.write_all(text.as_bytes())?)
        })?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_and_ranges() {
        assert_eq!(axis_label(0.1 + 0.2, 1.0), "0.3");
        assert_eq!(axis_label(-5.6e-17, 0.4), "0");
        assert_eq!(axis_label(12000.0, 1e4), "12000");
        assert_eq!(axis_label(2.5e-5, 1e-4), "2.5e-5");
        assert_eq!(logarithmic_ticks(&(0.3..3.0)), [0.5, 1.0, 2.0]);
        assert_eq!(logarithmic_ticks(&(0.3..1.5e5)).len(), 6);
        assert_eq!(range(&[]), None);
        assert_eq!(range(&[0.0, 100.0]), Some(-4.0..104.0));
        assert!(range(&[5.0]).is_some_and(|range| range.start < 5.0 && range.end > 5.0));
    }
}
