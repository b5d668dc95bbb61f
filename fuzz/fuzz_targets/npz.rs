#![no_main]

use bibun::serializers::State;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    if let Ok(state) = State::from_npz(bytes) {
        let written = state.to_npz().expect("what was read");
        let again = State::from_npz(&written).expect("what was written");
        assert_eq!(again.checksum(), state.checksum());
    }
});
