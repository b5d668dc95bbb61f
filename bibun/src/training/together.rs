//! What several processes of one training decide together.

use std::time::Duration;

use super::TrainingError;
use super::error::together;
use super::report::Report;
use crate::parallel::Communicator;
use crate::serializers::State;

/// What the processes know together after a step.
pub(super) struct Agreed {
    /// The number of examples of all processes.
    pub(super) examples: usize,
    /// The time of the first process.
    pub(super) elapsed: Duration,
    /// Whether one of them was interrupted.
    pub(super) is_interrupted: bool,
}

/// Puts together what the processes know after a step, and the reports that they made in it.
pub(super) fn after_step(
    world: &Communicator,
    own: &Agreed,
    report: &mut Report,
) -> Result<Agreed, TrainingError> {
    let mut bytes = (own.examples as u64).to_le_bytes().to_vec();
    bytes.extend(own.elapsed.as_secs_f64().to_le_bytes());
    bytes.push(u8::from(own.is_interrupted));
    bytes.extend(report.to_bytes());
    let all = together(|| world.gather_bytes(&bytes))?;
    let read = all.iter().map(|bytes| read(bytes).ok_or_else(unreadable));
    let read: Vec<(Agreed, Report)> = read.collect::<Result<_, _>>()?;
    let (agreed, reports): (Vec<Agreed>, Vec<Report>) = read.into_iter().unzip();
    *report = Report::of_processes(&reports, false);
    Ok(Agreed {
        examples: agreed.iter().map(|each| each.examples).sum(),
        elapsed: agreed[0].elapsed,
        is_interrupted: agreed.iter().any(|each| each.is_interrupted),
    })
}

fn read(bytes: &[u8]) -> Option<(Agreed, Report)> {
    let (examples, bytes) = bytes.split_first_chunk()?;
    let (seconds, bytes) = bytes.split_first_chunk()?;
    let (interrupted, bytes) = bytes.split_first()?;
    let agreed = Agreed {
        examples: usize::try_from(u64::from_le_bytes(*examples)).ok()?,
        elapsed: Duration::try_from_secs_f64(f64::from_le_bytes(*seconds)).ok()?,
        is_interrupted: *interrupted != 0,
    };
    Some((agreed, Report::from_bytes(bytes)?))
}

/// Puts together the reports of an extension that all processes ran.
pub(super) fn merge_reports(
    world: &Communicator,
    report: &mut Report,
) -> Result<(), TrainingError> {
    let all = together(|| world.gather_bytes(&report.to_bytes()))?;
    let all = all
        .iter()
        .map(|bytes| Report::from_bytes(bytes).ok_or_else(unreadable));
    *report = Report::of_processes(&all.collect::<Result<Vec<_>, _>>()?, true);
    Ok(())
}

fn unreadable() -> TrainingError {
    TrainingError::Data("what a process reported cannot be read".into())
}

/// Returns what the first process says.
pub(super) fn first_says(world: &Communicator, own: bool) -> Result<bool, TrainingError> {
    let said = together(|| world.broadcast_bytes(&[u8::from(own)]))?;
    Ok(said == [1])
}

/// Returns the state that the first process has, if it has one.
pub(super) fn first_has(
    world: &Communicator,
    own: Option<&State>,
) -> Result<Option<State>, TrainingError> {
    let bytes = own.map(State::to_snapshot).transpose()?;
    let bytes = together(|| world.broadcast_bytes(&bytes.unwrap_or_default()))?;
    match bytes.is_empty() {
        true => Ok(None),
        false => Ok(Some(State::from_snapshot(&bytes)?)),
    }
}
