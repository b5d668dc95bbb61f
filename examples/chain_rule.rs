//! A chain of three multiplications by the parameters 2, 3 and 4, and all of its gradients.

use bibun::{GradOptions, Variable, gradients_with};

fn main() {
    let x = Variable::new([0.0, 1.0, 2.0, 3.0]);
    let weights = [2.0, 3.0, 4.0].map(|w| Variable::new([w; 4]));

    // A parameter for each element, so that its gradient can be seen element by element.
    let mut layers = vec![x];
    for w in &weights {
        let y = layers.last().unwrap() * w;
        layers.push(y);
    }
    let y = layers.last().unwrap();
    let ones = Variable::constant([1.0; 4]);
    y.backward_with(&GradOptions {
        retain_grad: true,
        ..GradOptions::new().cotangents(&[&ones])
    });

    // From the end of the chain to its beginning: 1, 4, 12, 24.
    let gradients: Vec<Vec<f64>> = layers
        .iter()
        .rev()
        .map(|layer| layer.grad().unwrap().to_vec())
        .collect();
    println!("gradients of the values, last to first: {gradients:?}");
    assert_eq!(gradients, [[1.0; 4], [4.0; 4], [12.0; 4], [24.0; 4]]);

    // The parameters' own gradients: each function's output by its parameter, which is its input.
    let gradients: Vec<Vec<f64>> = (0..3)
        .rev()
        .map(|k| {
            let options = GradOptions::new().cotangents(&[&ones]);
            let gw = gradients_with(&[&layers[k + 1]], &[&weights[k]], &options).remove(0);
            gw.expect("the layer uses its parameter").to_vec()
        })
        .collect();
    println!("gradients of the parameters, last to first: {gradients:?}");
    assert_eq!(
        gradients,
        [
            [0.0, 6.0, 12.0, 18.0],
            [0.0, 2.0, 4.0, 6.0],
            [0.0, 1.0, 2.0, 3.0]
        ]
    );
}
