//! Parameters of complex numbers: both parts change as two parameters would.

use bibun::array::{Array, Complex, DType};
use bibun::functions::{abs, square};
use bibun::optimizers::hooks::{ClipNorm, ClipValue, GradientNoise, WeightDecay};
use bibun::optimizers::{
    AdaDelta, AdaGrad, Adam, AdamW, AmsGrad, Eve, Lamb, Lbfgs, Lion, MomentumSgd, NesterovAg,
    Optimizer, RmsProp, RmsPropGraves, Rprop, Sgd, Smorms3,
};
use bibun::parallel::{DataParallel, local};
use bibun::{Variable, attempt, per_example};

const START: [[f64; 2]; 2] = [[1.0, 0.5], [-2.0, 3.0]];

/// The parameters after some steps, of complex numbers or of their parts.
fn trained(mut optimizer: impl Optimizer, is_complex: bool) -> Vec<f64> {
    let parts = Array::from(START);
    let w = Variable::new(match is_complex {
        true => parts.view_as_complex(),
        false => parts,
    });
    for _ in 0..3 {
        optimizer.minimize(&w, &mut || match is_complex {
            true => square(abs(&w)).sum(..),
            false => square(&w).sum(..),
        });
    }
    let w = w.array();
    match is_complex {
        true => w.view_as_real().to_vec(),
        false => w.to_vec(),
    }
}

#[test]
fn as_of_two_real_numbers() {
    type Make = fn() -> Box<dyn Optimizer>;
    let all: [(&str, Make); 20] = [
        ("AdaDelta", || Box::new(AdaDelta::new(1.0))),
        ("AdaGrad", || Box::new(AdaGrad::new(0.1))),
        ("Adam", || Box::new(Adam::new(0.1))),
        ("AdamW", || Box::new(AdamW::new(0.1))),
        ("AmsGrad", || Box::new(AmsGrad::new(0.1))),
        ("Eve", || Box::new(Eve::new(0.1))),
        ("Lamb", || Box::new(Lamb::new(0.1))),
        ("Lbfgs", || Box::new(Lbfgs::new(0.1))),
        ("Lion", || Box::new(Lion::new(0.1))),
        ("MomentumSgd", || Box::new(MomentumSgd::new(0.1, 0.9))),
        ("NesterovAg", || Box::new(NesterovAg::new(0.1, 0.9))),
        ("RmsProp", || Box::new(RmsProp::new(0.1))),
        ("RmsPropGraves", || Box::new(RmsPropGraves::new(0.1))),
        ("Rprop", || Box::new(Rprop::new(0.1))),
        ("Sgd", || Box::new(Sgd::new(0.1))),
        ("Smorms3", || Box::new(Smorms3::new(0.1))),
        ("ClipNorm", || Box::new(Sgd::new(0.1).hook(ClipNorm(0.1)))),
        ("ClipValue", || Box::new(Sgd::new(0.1).hook(ClipValue(0.1)))),
        ("both", || {
            Box::new(Adam::new(0.1).hook(ClipNorm(0.1)).hook(WeightDecay(0.5)))
        }),
        ("noise", || {
            Box::new(Sgd::new(0.1).hook(GradientNoise::new(0.5, 0)))
        }),
    ];
    for (name, optimizer) in all {
        let (found, expected) = (trained(optimizer(), true), trained(optimizer(), false));
        for (a, b) in found.iter().zip(&expected) {
            assert!((a - b).abs() < 1e-14, "{name}: {found:?}, not {expected:?}");
        }
        assert_ne!(found, START.concat(), "{name} does nothing");
    }
}

#[test]
fn of_several_processes() {
    let w = local::run(2, |world| {
        let w = Variable::new([Complex::new(1.0, 2.0)]);
        let mut optimizer = DataParallel::new(Sgd::new(0.25), &world);
        let own = world.rank() as f64;
        optimizer.minimize(&w, &mut || square(abs(&w)).sum(..) * own);
        w.to_vec::<Complex<f64>>()
    });
    assert_eq!(w, vec![vec![Complex::new(0.75, 1.5)]; 2]);
}

#[test]
fn per_example_gradients_are_of_real_numbers() {
    let w = Variable::new([Complex::new(1.0, 2.0)]);
    let x = Variable::constant(Array::ones([3, 1], DType::C128));
    let losses = square(abs((x * &w).sum(1)));
    let message = attempt(|| drop(per_example(&losses, &w)))
        .unwrap_err()
        .to_string();
    assert!(
        message.starts_with("per_example: a parameter is [1] c128"),
        "{message}"
    );
    assert!(message.contains(file!()), "{message}");
}
