//! Random formulae: every way to a derivative leads to the same one.
//!
//! Failing formulae are shrunk and kept in `property.regressions`.

use crate::formula::{Formula, close, flat, formulae, inner};
use bibun::array::{Array, DType, Generator, stack};
use bibun::functions::watch;
use bibun::{
    GradOptions, GradientCheckOptions, Variable, VmapOptions, assert_gradients, gradients_with,
    jvp, vmap_with,
};
use proptest::prelude::*;
use proptest::test_runner::FileFailurePersistence;

impl Formula {
    /// Numbers in the shapes of `x`.
    fn like(&self, x: &[Variable], stream: u64) -> Vec<Variable> {
        let mut generator = Generator::new(self.seed).split(stream);
        x.iter()
            .map(|x| Variable::constant(generator.normal(x.shape(), 0.0, 1.0, DType::F64)))
            .collect()
    }

    /// The gradients of `<w, run(x)>`.
    fn gradients(&self, x: &[Variable], w: &[Variable]) -> Vec<Variable> {
        let x: Vec<Variable> = x.iter().map(watch).collect();
        let y = self.run(&x);
        let [y, x] = [&y, &x].map(|list| list.iter().collect::<Vec<_>>());
        let options = GradOptions {
            cotangents: w.to_vec(),
            ..GradOptions::new().create_graph()
        };
        let gradients = gradients_with(&y, &x, &options);
        gradients
            .into_iter()
            .zip(x)
            .map(|(gradient, x)| gradient.unwrap_or_else(|| zeros_like(x)))
            .collect()
    }

    /// The derivative along `v`.
    fn tangents(&self, x: &[Variable], v: &[Variable]) -> Vec<Variable> {
        jvp(|x| self.run(x), &x.to_vec(), &v.to_vec()).1
    }
}

fn zeros_like(x: &Variable) -> Variable {
    Variable::constant(Array::zeros(x.shape(), DType::F64))
}

fn configuration() -> ProptestConfig {
    ProptestConfig {
        cases: 48,
        failure_persistence: Some(Box::new(FileFailurePersistence::Direct(
            "tests/property.regressions",
        ))),
        ..ProptestConfig::default()
    }
}

proptest! {
    #![proptest_config(configuration())]

    #[test]
    fn gradients_are_finite_differences(formula in formulae()) {
        // Where all values are 0 or what rounding has left of it, nothing tells what it may leave of a
        // derivative of 0.
        let y = flat(&formula.run(&formula.inputs()));
        prop_assume!(y.iter().any(|y| y.abs() > 1e-9));
        let options = GradientCheckOptions { positions: 8, ..GradientCheckOptions::new().order(2) };
        assert_gradients(|x| formula.run(x), &formula.inputs(), &options);
    }

    #[test]
    fn reverse_is_forward_element_by_element(formula in formulae()) {
        let x = formula.inputs();
        let w = formula.like(&formula.run(&x), 1);
        let gradients = formula.gradients(&x, &w);
        for (i, input) in x.iter().enumerate() {
            let by_forward: Vec<f64> = (0..input.size())
                .map(|position| {
                    let mut unit = vec![0.0; input.size()];
                    unit[position] = 1.0;
                    let mut v: Vec<Variable> = x.iter().map(zeros_like).collect();
                    v[i] = Variable::constant(Array::from_vec(unit, input.shape()));
                    inner(&formula.tangents(&x, &v), &w)
                })
                .collect();
            close("forward", &by_forward, &gradients[i].to_vec::<f64>());
        }
    }

    #[test]
    fn tangents_are_linear(formula in formulae(), a in -2.0..2.0, b in -2.0..2.0) {
        let x = formula.inputs();
        let (u, v) = (formula.like(&x, 1), formula.like(&x, 2));
        let sum: Vec<Variable> = u.iter().zip(&v).map(|(u, v)| a * u + b * v).collect();
        let [u, v, sum] = [&u, &v, &sum].map(|v| flat(&formula.tangents(&x, v)));
        let expected: Vec<f64> = u.iter().zip(&v).map(|(u, v)| a * u + b * v).collect();
        close("sum", &sum, &expected);
    }

    #[test]
    fn the_reverse_walk_transposes_the_forward_walk(formula in formulae()) {
        let x = formula.inputs();
        let (v, w) = (formula.like(&x, 1), formula.like(&formula.run(&x), 2));
        let forward = inner(&formula.tangents(&x, &v), &w);
        let reverse = inner(&formula.gradients(&x, &w), &v);
        close("product", &[forward], &[reverse]);
    }

    #[test]
    fn batch_elements_and_gradients_commute(formula in formulae(), count in 1usize..4, axis in 0usize..4) {
        let single = formula.inputs();
        // Every second input has a batch axis, the others are shared.
        let batch: Vec<Vec<Variable>> = (0..count as u64)
            .map(|k| formula.like(&single, k))
            .map(|mut element| {
                for (i, x) in element.iter_mut().enumerate().filter(|(i, _)| i % 2 == 1) {
                    *x = single[i].clone();
                }
                element
            })
            .collect();
        let axes: Vec<Option<isize>> = (single.iter().enumerate())
            .map(|(i, x)| (i % 2 == 0).then_some((axis % (x.rank() + 1)) as isize))
            .collect();
        let x: Vec<Variable> = (axes.iter().enumerate())
            .map(|(i, axis)| match axis {
                None => single[i].clone(),
                Some(axis) => {
                    let batch: Vec<Array> = batch.iter().map(|element| element[i].array()).collect();
                    stack(&batch.iter().collect::<Vec<_>>(), *axis).into()
                }
            })
            .collect();
        let w = formula.like(&formula.run(&single), 9);

        // Gradients within each batch element.
        let options = VmapOptions::new().in_axes(axes.clone());
        let by_element = vmap_with(|x| formula.gradients(x, &w), &x, &options);
        let by_loop: Vec<Vec<Variable>> =
            batch.iter().map(|element| formula.gradients(element, &w)).collect();
        for (i, by_element) in by_element.iter().enumerate() {
            let by_loop: Vec<f64> =
                by_loop.iter().flat_map(|element| element[i].to_vec::<f64>()).collect();
            close("vmap of gradients", &by_element.to_vec::<f64>(), &by_loop);
        }

        // Gradients of the sum over all batch elements.
        let x: Vec<Variable> = x.iter().map(watch).collect();
        let y = vmap_with(|x| formula.run(x), &x, &options);
        let total = y.iter().zip(&w).map(|(y, w)| (y * w).sum(..));
        let total = total.reduce(|a, b| a + b).expect("two outputs");
        let inputs: Vec<&Variable> = x.iter().collect();
        let gradients = gradients_with(&[&total], &inputs, GradOptions::new());
        for (i, gradient) in gradients.into_iter().enumerate() {
            let gradient = gradient.unwrap_or_else(|| zeros_like(&x[i]));
            let by_loop: Vec<Array> = by_loop.iter().map(|element| element[i].array()).collect();
            let expected = match axes[i] {
                Some(axis) => stack(&by_loop.iter().collect::<Vec<_>>(), axis),
                None => by_loop.into_iter().reduce(|a, b| a + b).expect("an element"),
            };
            close("gradients of vmap", &gradient.to_vec::<f64>(), &expected.to_vec::<f64>());
        }
    }
}
