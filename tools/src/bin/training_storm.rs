//! Damages snapshots; what can still be loaded must be what was saved.

use std::process::ExitCode;
use std::time::{Duration, Instant};

use bibun::array::{DType, Generator};
use bibun::serializers::State;

fn main() -> ExitCode {
    let random = &mut Generator::new(std::process::id().into());
    let weights = random.normal([100, 100], 0.0, 1.0, DType::F32);
    let state: State = [("weights", weights)].into_iter().collect();
    let whole = state.to_snapshot().expect("no texts");
    let start = Instant::now();
    while start.elapsed() < Duration::from_secs(60) {
        let mut bytes = whole.clone();
        let place = (random.uniform((), 0.0, bytes.len() as f64, DType::F64)).item::<f64>();
        let bit = random.uniform((), 0.0, 8.0, DType::F64).item::<f64>();
        bytes[place as usize] ^= 1 << bit as u32;
        if let Ok(read) = State::from_snapshot(&bytes)
            && read.checksum() != state.checksum()
        {
            println!("bit {bit:.0} of byte {place:.0} is turned, and nobody sees it");
            return ExitCode::FAILURE;
        }
    }
    ExitCode::SUCCESS
}
