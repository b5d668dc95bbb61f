//! Learns the filter that signals went through, frequency by frequency: its response is a complex
//! parameter, and the loss is measured in time. It is compared with the filter itself, and used on a
//! signal that it has not seen.

use bibun::array::{Array, Complex, DType, Generator};
use bibun::functions::{FourierOptions, abs, fft_convolve, irfft, rfft};
use bibun::links::Chain;
use bibun::optimizers::{Adam, Optimizer};
use bibun::{Variable, compile, s};

/// The number of samples of a signal.
const LENGTH: usize = 64;

/// A response for each frequency.
#[derive(Clone, Chain)]
struct Filter {
    response: Variable,
}

impl Filter {
    fn apply(&self, x: &Variable) -> Variable {
        let spectrum = rfft(x, FourierOptions::new());
        irfft(
            spectrum * &self.response,
            FourierOptions::new().lengths([LENGTH]),
        )
    }
}

/// A decaying echo, which begins after three samples.
fn echo() -> Array {
    let at = |i: usize| {
        if i < 3 {
            0.0
        } else {
            0.8f64.powi(i as i32 - 3) * (0.9 * i as f64).cos()
        }
    };
    Array::from((0..16).map(at).collect::<Vec<f64>>())
}

/// The signals with their echo, which goes on at the beginning when it is at the end.
fn echoed(x: &Variable) -> Variable {
    let long = fft_convolve(x, echo());
    let (first, rest) = (long.slice(s![.., ..LENGTH]), long.slice(s![.., LENGTH..]));
    let missing = LENGTH - rest.shape()[1];
    first + rest.pad(&[(0, 0), (0, missing)], 0.0)
}

fn main() {
    let mut generator = Generator::new(5);
    let mut signals =
        |count: usize| Variable::constant(generator.normal([count, LENGTH], 0.0, 1.0, DType::F64));
    let (x, unseen) = (signals(32), signals(4));
    let y = echoed(&x);

    let zeros = Array::zeros([LENGTH / 2 + 1], DType::C128);
    let filter = Filter {
        response: Variable::new(zeros),
    };
    let loss = |filter: &Filter| (filter.apply(&x) - &y).square().mean(..);
    let before = loss(&filter).item::<f64>();
    let mut optimizer = Adam::new(0.05);
    for _ in 0..400 {
        optimizer.minimize(&filter, &mut || loss(&filter));
    }
    let after = loss(&filter).item::<f64>();
    println!("mean squared error: {before:.3} before, {after:.2e} after");
    assert!(after < 1e-6 * before);

    // The transform of the echo is the response.
    let known = rfft(echo(), FourierOptions::new().lengths([LENGTH]));
    let wrong = abs(&filter.response - known).max(..).item::<f64>();
    println!("the response is wrong by {wrong:.1e} at most");
    assert!(wrong < 1e-2);

    let error = (filter.apply(&unseen) - echoed(&unseen))
        .abs()
        .max(..)
        .item::<f64>();
    println!("an unseen signal is wrong by {error:.1e} at most");
    assert!(error < 5e-2);

    // The same in a program.
    let expected = filter.apply(&unseen).to_vec::<f64>();
    let program = compile(move |response: &Variable| {
        let response = response.clone();
        Filter { response }.apply(&unseen)
    });
    let run = program.call(&filter.response.detach());
    assert_eq!(run.to_vec::<f64>(), expected);
    let first = filter.response.to_vec::<Complex<f64>>()[0];
    println!("the response at frequency zero: {first:.3}");
}
