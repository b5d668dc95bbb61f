//! A field that is no Tree must be skipped, and what is skipped must be cloned.

use bibun::Variable;
use bibun::links::Chain;

struct Activation(fn(&Variable) -> Variable);

#[derive(Chain)]
struct Layer {
    w: Variable,
    activation: Activation,
}

struct Settings;

#[derive(Chain)]
struct Skipped {
    w: Variable,
    #[chain(skip)]
    settings: Settings,
}

fn main() {}
