#![no_main]

use bibun::serializers::State;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    if let Ok(state) = State::from_snapshot(bytes) {
        let written = state.to_snapshot().expect("what was read");
        let again = State::from_snapshot(&written).expect("what was written");
        assert_eq!(again.checksum(), state.checksum());
    }
});
