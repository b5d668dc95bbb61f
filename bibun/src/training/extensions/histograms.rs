//! Histograms of parameters and gradients.

use std::path::Path;

use bibun_array::{Array, DType};
use plotters::prelude::*;

use super::plot::{Picture, axis_label};
use crate::links::Chain;
use crate::training::{BoxError, Extension, Session, Trigger};

/// An extension that draws histograms of all parameters and their gradients into an `.svg` file in
/// the folder, whenever it is due.
///
/// Requires the feature `plots`.
///
/// Numbers that are not finite are left out of a histogram and counted above it.
///
/// ```
/// use bibun::training::{Histograms, Trigger};
/// let histograms = Histograms::new("histograms.svg").every(Trigger::Iterations(100));
/// # let _ = histograms;
/// ```
#[derive(Debug)]
pub struct Histograms {
    file: String,
    trigger: Trigger,
}

impl Histograms {
    /// Creates an extension that draws `file` after each epoch.
    pub fn new(file: impl Into<String>) -> Self {
        Self {
            file: file.into(),
            trigger: Trigger::Epochs(1.0),
        }
    }

    /// Sets when to draw. Defaults to every epoch.
    ///
    /// # Panics
    /// Panics if a period in epochs is not more than 0.
    #[must_use]
    #[track_caller]
    pub fn every(mut self, trigger: Trigger) -> Self {
        trigger.expect("every");
        self.trigger = trigger;
        self
    }
}

/// The numbers of values in ranges of equal width.
#[derive(Clone, Debug)]
pub(super) struct Counts {
    pub(super) min: f64,
    pub(super) max: f64,
    #[cfg_attr(not(feature = "tensorboard"), allow(dead_code))]
    pub(super) sum: f64,
    #[cfg_attr(not(feature = "tensorboard"), allow(dead_code))]
    pub(super) sum_of_squares: f64,
    pub(super) counts: Vec<u64>,
    /// The number of infinities and NaNs.
    pub(super) not_finite: u64,
}

impl Counts {
    /// Counts the elements of an array in `bins` ranges between the smallest and the largest;
    /// returns `None` if no element is finite.
    pub(super) fn of(x: &Array, bins: usize) -> Option<Self> {
        let all = x.cast(DType::F64).to_vec::<f64>();
        let finite: Vec<f64> = all.iter().copied().filter(|x| x.is_finite()).collect();
        let min = finite.iter().copied().reduce(f64::min)?;
        let max = finite.iter().copied().reduce(f64::max)?;
        let mut counts = vec![0; bins];
        for x in &finite {
            let place = (x - min) / (max - min) * bins as f64;
            // If all values are equal, they are counted in the first range.
            let place = if place.is_nan() { 0 } else { place as usize };
            counts[place.min(bins - 1)] += 1;
        }
        Some(Self {
            min,
            max,
            sum: finite.iter().sum(),
            sum_of_squares: finite.iter().map(|x| x * x).sum(),
            counts,
            not_finite: (all.len() - finite.len()) as u64,
        })
    }

    /// Returns the upper limits of the ranges.
    pub(super) fn upper_limits(&self) -> impl Iterator<Item = f64> {
        let bins = self.counts.len();
        let width = (self.max - self.min) / bins as f64;
        (1..=bins).map(move |i| match i == bins {
            true => self.max,
            false => self.min + width * i as f64,
        })
    }
}

impl<M: Chain> Extension<M> for Histograms {
    fn name(&self) -> &str {
        "histograms"
    }

    fn is_for_first(&self) -> bool {
        true
    }

    fn trigger(&self) -> &Trigger {
        &self.trigger
    }

    fn files(&self) -> Vec<&Path> {
        vec![Path::new(&self.file)]
    }

    fn start(&mut self, session: &mut Session<'_, M>) -> Result<(), BoxError> {
        session.folder().map(drop)
    }

    fn run(&mut self, session: &mut Session<'_, M>) -> Result<(), BoxError> {
        let panels: Vec<[(String, Option<Counts>); 2]> = (session.model().parameters().into_iter())
            .map(|(name, parameter)| {
                let gradient = parameter.grad().map(|gradient| gradient.array());
                let counts = |x: Array| Counts::of(&x, 40);
                [
                    (name.clone(), counts(parameter.array())),
                    (format!("gradient of {name}"), gradient.and_then(counts)),
                ]
            })
            .collect();
        let title = format!("after {} steps", session.clock().iteration());
        draw(&session.file(&self.file)?, &title, &panels)
    }
}

const PANEL: (u32, u32) = (420, 150);

fn draw(file: &Path, title: &str, rows: &[[(String, Option<Counts>); 2]]) -> Result<(), BoxError> {
    let size = (2 * PANEL.0, 30 + PANEL.1 * rows.len() as u32);
    Picture::draw(file, size, |area| {
        let area = area.titled(title, ("sans-serif", 18))?;
        let panels = area.split_evenly((rows.len(), 2));
        let colors = [RGBColor(31, 119, 180), RGBColor(255, 127, 14)];
        let both = rows.iter().flatten().zip(colors.iter().cycle());
        for (panel, ((name, counts), color)) in panels.iter().zip(both) {
            let lost = counts.as_ref().map_or(0, |counts| counts.not_finite);
            let caption = match (counts, lost) {
                (None, _) => format!("{name}: none"),
                (Some(_), 0) => name.clone(),
                (Some(_), lost) => format!("{name} ({lost} not finite)"),
            };
            let Some(counts) = counts else {
                panel.titled(&caption, ("sans-serif", 13))?;
                continue;
            };
            let highest = counts.counts.iter().copied().max().unwrap_or(1) as f64;
            // A range without width would have no axis.
            let room = if counts.max > counts.min {
                0.0
            } else {
                counts.min.abs().max(1e-6)
            };
            let (low, high) = (counts.min - room, counts.max + room);
            let mut chart = ChartBuilder::on(panel)
                .caption(&caption, ("sans-serif", 13))
                .margin(6)
                .x_label_area_size(18)
                .y_label_area_size(40)
                .build_cartesian_2d(low..high, 0.0..highest * 1.05)?;
            chart
                .configure_mesh()
                .disable_x_mesh()
                .x_labels(5)
                .y_labels(3)
                .x_label_formatter(&|x| axis_label(*x, high - low))
                .y_label_formatter(&|y| axis_label(*y, highest))
                .light_line_style(TRANSPARENT)
                .draw()?;
            let mut from = counts.min;
            let bars = counts
                .counts
                .iter()
                .zip(counts.upper_limits())
                .map(|(&count, to)| {
                    let from = std::mem::replace(&mut from, to);
                    let to = if room > 0.0 { from + room / 10.0 } else { to };
                    Rectangle::new([(from, 0.0), (to, count as f64)], color.filled())
                });
            chart.draw_series(bars)?;
        }
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_finite_number_is_counted_once() {
        let x = Array::from([0.0, 1.0, 1.0, 4.0, f64::NAN, 2.0, f64::INFINITY, 3.999]);
        let counts = Counts::of(&x, 4).expect("finite numbers");
        assert_eq!(counts.counts, [1, 2, 1, 2]);
        assert_eq!(counts.not_finite, 2);
        assert_eq!(
            counts.upper_limits().collect::<Vec<_>>(),
            [1.0, 2.0, 3.0, 4.0]
        );
        let same = Counts::of(&Array::from([7.0; 5]), 3).expect("finite numbers");
        assert_eq!(same.counts, [5, 0, 0]);
        assert!(Counts::of(&Array::from([f64::NAN]), 3).is_none());
        assert!(Counts::of(&Array::zeros([0], DType::F32), 3).is_none());
    }
}
