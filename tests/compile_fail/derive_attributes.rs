//! Attributes of `Tree` and `Chain` that say nothing, and what is no struct or enum.

use bibun::links::Chain;
use bibun::{Tree, Variable};

#[derive(Chain)]
#[chain(skip)]
struct OfTheStruct {
    w: Variable,
}

#[derive(Chain)]
struct Misspelt {
    w: Variable,
    #[chain(skipp)]
    name: String,
}

#[derive(Clone, Tree)]
struct WithAValue {
    #[tree(skip = "yes")]
    w: Variable,
}

#[derive(Tree)]
union Either {
    number: f64,
    flag: bool,
}

fn main() {}
