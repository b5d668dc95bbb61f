//! A rule gives one gradient for each input, and a gradient is no array.

use bibun::array::Array;
use bibun::*;

#[derive(Clone, Debug)]
struct Product;

impl Function for Product {
    type Inputs = Fixed<2>;
    type Outputs = Fixed<1>;
    fn name(&self) -> &'static str {
        "product"
    }
    fn saves(&self, _: Needs<'_>) -> Saved {
        Saved::ALL
    }
    fn shape(&self, [a, _]: [&Spec; 2]) -> Result<[Spec; 1], Mismatch> {
        Ok([a.clone()])
    }
    fn forward(&self, [a, b]: [Array; 2]) -> [Array; 1] {
        [a * b]
    }
    fn vjp(&self, cx: &Context<'_>, [gy]: [Variable; 1]) -> [Option<Variable>; 2] {
        [Some(gy * cx.input(1))]
    }
    fn jvp(&self, cx: &Context<'_>, [da, _]: [Option<Variable>; 2]) -> [Option<Variable>; 1] {
        [da.map(|da| da.array() * cx.input(1).array())]
    }
    fn batch(&self, [a, _]: [Batched; 2]) -> [Batched; 1] {
        [a]
    }
    fn per_example(&self, _: &Context<'_>, _: [ExampleCotangent; 1]) -> [Option<ExampleGradient>; 2] {
        [None]
    }
}

fn main() {
    let x = Variable::new(2.0);
    let [_y] = apply(Product, [x]);
}
