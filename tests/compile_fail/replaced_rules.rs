//! Rules by a function's type have as many gradients as it has inputs.

use bibun::Rules;
use bibun::functions::Relu;

fn main() {
    let _ = Rules::new().set::<Relu>(|_, [gy]| [Some(gy.clone()), Some(gy)]);
}
