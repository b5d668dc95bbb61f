#![no_main]

use bibun::array::Array;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    if let Ok(x) = Array::from_npy(bytes) {
        let written = x.to_npy();
        let again = Array::from_npy(&written).expect("what was written");
        assert_eq!(again.to_npy(), written);
    }
});
