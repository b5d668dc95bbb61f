//! The progress of training on the terminal.

use std::time::{Duration, Instant};

use indicatif::{ProgressBar as Bar, ProgressStyle};

use crate::training::{BoxError, Extension, Session, Until};

/// A progress bar on the terminal, with the loss, steps and examples per second, and the remaining
/// time.
///
/// Nothing is drawn if standard error is not a terminal. The cursor stays visible, so that a
/// program that is killed leaves the terminal unchanged.
///
/// ```
/// let bar = bibun::training::ProgressBar::new();
/// # let _ = bar;
/// ```
#[derive(Debug, Default)]
pub struct ProgressBar {
    bar: Option<Bar>,
    /// The time and progress at the start of this run.
    start: Option<(Instant, Moment)>,
    drawn: Option<Instant>,
}

#[derive(Clone, Copy, Debug)]
struct Moment {
    iteration: u64,
    examples: u64,
    progress: f64,
}

/// The number of parts of the bar; the terminal shows fewer.
const PARTS: u64 = 10_000;
/// The time between redraws; redrawing more often is not worth its cost.
const PERIOD: Duration = Duration::from_millis(100);

impl ProgressBar {
    /// Creates a progress bar.
    pub fn new() -> Self {
        Self::default()
    }
}

fn moment<M>(session: &Session<'_, M>) -> Moment {
    Moment {
        iteration: session.clock().iteration(),
        examples: session.clock().examples(),
        progress: session.progress(),
    }
}

/// Formats a rate with three digits.
fn rate(count: u64, seconds: f64) -> String {
    let rate = count as f64 / seconds;
    match rate {
        _ if !rate.is_finite() => "-".to_owned(),
        _ if rate >= 100.0 => format!("{rate:.0}"),
        _ => format!("{rate:.1}"),
    }
}

/// Formats a time in hours, minutes and seconds.
fn time(seconds: f64) -> String {
    if !(0.0..1e7).contains(&seconds) {
        return "?".to_owned();
    }
    let seconds = seconds.round() as u64;
    let (hours, minutes, seconds) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    match hours {
        0 => format!("{minutes}:{seconds:02}"),
        _ => format!("{hours}:{minutes:02}:{seconds:02}"),
    }
}

impl<M> Extension<M> for ProgressBar {
    fn name(&self) -> &str {
        "progress_bar"
    }

    fn is_for_first(&self) -> bool {
        true
    }

    fn start(&mut self, session: &mut Session<'_, M>) -> Result<(), BoxError> {
        let style = ProgressStyle::with_template("{prefix} {bar:30} {msg}")?;
        let bar = Bar::new(PARTS).with_style(style);
        session.terminal().bar = Some(bar.clone());
        self.bar = Some(bar);
        self.start = Some((Instant::now(), moment(session)));
        self.drawn = None;
        Ok(())
    }

    fn after_step(&mut self, session: &mut Session<'_, M>) -> Result<(), BoxError> {
        let (Some(bar), Some((start, first))) = (&self.bar, self.start) else {
            return Ok(());
        };
        if self.drawn.is_some_and(|drawn| drawn.elapsed() < PERIOD) {
            return Ok(());
        }
        self.drawn = Some(Instant::now());
        let now = moment(session);
        let seconds = start.elapsed().as_secs_f64();
        let left = seconds * (1.0 - now.progress) / (now.progress - first.progress);
        let steps = rate(now.iteration - first.iteration, seconds);
        let examples = rate(now.examples - first.examples, seconds);
        let loss = session.report().get("loss");
        let loss = loss.map_or_else(String::new, |loss| format!("loss {loss:.4}, "));
        bar.set_prefix(match session.until() {
            Until::Epochs(epochs) => format!("epoch {:.2}/{epochs}", session.clock().epoch()),
            Until::Iterations(count) => format!("step {}/{count}", now.iteration),
            Until::Elapsed(_) => format!("step {}", now.iteration),
        });
        bar.set_message(format!(
            "{loss}{steps} steps/s, {examples} examples/s, {} left",
            time(left)
        ));
        bar.set_position((now.progress * PARTS as f64) as u64);
        Ok(())
    }

    fn finish(&mut self, session: &mut Session<'_, M>) -> Result<(), BoxError> {
        if let Some(bar) = self.bar.take() {
            bar.finish_and_clear();
        }
        session.terminal().bar = None;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_and_rates() {
        assert_eq!(time(59.6), "1:00");
        assert_eq!(time(3725.0), "1:02:05");
        assert_eq!(time(f64::INFINITY), "?");
        assert_eq!(time(f64::NAN), "?");
        assert_eq!(rate(1000, 2.0), "500");
        assert_eq!(rate(7, 2.0), "3.5");
        assert_eq!(rate(0, 0.0), "-");
    }
}
