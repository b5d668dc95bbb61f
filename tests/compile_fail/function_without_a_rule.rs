//! There are no default rules: what is not written is missing.

use bibun::array::Array;
use bibun::*;

#[derive(Clone, Debug)]
struct Square;

impl Function for Square {
    type Inputs = Fixed<1>;
    type Outputs = Fixed<1>;
    fn name(&self) -> &'static str {
        "square"
    }
    fn shape(&self, [x]: [&Spec; 1]) -> Result<[Spec; 1], Mismatch> {
        Ok([x.clone()])
    }
    fn forward(&self, [x]: [Array; 1]) -> [Array; 1] {
        [&x * &x]
    }
}

fn main() {}
