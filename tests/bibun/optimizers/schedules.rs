//! Schedules against their formulae, at and beyond their bounds.

use std::f64::consts::PI;

use bibun::Variable;
use bibun::optimizers::schedule::*;
use bibun::optimizers::{Optimizer, Sgd};
use bibun::serializers::Stateful;

fn near(found: f64, expected: f64) -> bool {
    (found - expected).abs() <= 1e-15
}

/// Every step up to 1000 and some far ones.
fn compare(schedule: impl Schedule, reference: impl Fn(f64) -> f64) {
    for step in (0..1000).chain([1_000_000, u64::from(u32::MAX)]) {
        let (found, expected) = (schedule.factor(step), reference(step as f64));
        assert!(
            near(found, expected),
            "{schedule:?}, step {step}: {found} for {expected}"
        );
    }
}

#[test]
fn formulae() {
    compare(0.25, |_| 0.25);
    compare(step_decay(7, 0.9), |t| 0.9f64.powf((t / 7.0).floor()));
    compare(exponential(0.99), |t| 0.99f64.powf(t));
    compare(linear(90).down_to(0.1), |t| 1.0 - 0.9 * (t / 90.0).min(1.0));
    compare(polynomial(90, 3.0), |t| (1.0 - (t / 90.0).min(1.0)).powi(3));
    compare(cosine(77).down_to(0.2), |t| {
        0.2 + 0.8 * (1.0 + (PI * (t / 77.0).min(1.0)).cos()) / 2.0
    });
    compare(cosine_restarts(10, 1), |t| {
        (1.0 + (PI * (t % 10.0) / 10.0).cos()) / 2.0
    });
    compare(cosine_restarts(10, 3), |t| {
        let (mut t, mut period) = (t, 10.0);
        while t >= period {
            (t, period) = (t - period, 3.0 * period);
        }
        (1.0 + (PI * t / period).cos()) / 2.0
    });
    compare(warm_up(13), |t| ((t + 1.0) / 13.0).min(1.0));
    compare(one_cycle(201).rise(51.0 / 201.0).from_to(0.1, 0.01), |t| {
        let t = t.min(200.0);
        match t < 50.0 {
            true => 0.1 + 0.9 * (1.0 - (PI * t / 50.0).cos()) / 2.0,
            false => 0.01 + 0.99 * (1.0 + (PI * (t - 50.0) / 150.0).cos()) / 2.0,
        }
    });
    compare(piecewise(2.0, [(5, 1.0), (6, 0.5)]), |t| match t {
        t if t < 5.0 => 2.0,
        t if t < 6.0 => 1.0,
        _ => 0.5,
    });
    compare(piecewise(3.0, []), |_| 3.0);
}

/// The learning rates of `OneCycleLR(max_lr=1)` in PyTorch 2.15, step by step to the last.
#[test]
fn one_cycle_is_that_of_pytorch() {
    let end = 4e-6;
    let cases: [(OneCycle, &[f64]); 9] = [
        (
            one_cycle(12),
            &[
                0.04,
                0.349789654219583,
                0.879285159122129,
                0.994415435450912,
                0.933012969841412,
                0.811745653949763,
                0.647378997695103,
                0.462637102666975,
                0.283060998208699,
                0.133477530188831,
                0.0345669874253952,
                end,
            ],
        ),
        (one_cycle(1), &[end]),
        (one_cycle(2), &[0.811745653949763, end]),
        (
            one_cycle(7).rise(0.5).linearly().from_to(0.1, 0.001),
            &[
                0.1,
                0.46,
                0.82,
                0.857285714285714,
                0.571857142857143,
                0.286428571428571,
                0.001,
            ],
        ),
        (
            one_cycle(11).three_phases(),
            &[
                0.04,
                0.422341113734736,
                0.960261424722617,
                0.796806554615136,
                0.192374491255046,
                0.0394609513218553,
                0.0337254602740989,
                0.0234746162569833,
                0.0120811968387489,
                0.00329391474736409,
                end,
            ],
        ),
        (
            one_cycle(9)
                .three_phases()
                .linearly()
                .rise(0.4)
                .from_to(0.2, 0.01),
            &[
                0.2,
                0.507692307692308,
                0.815384615384615,
                0.876923076923077,
                0.569230769230769,
                0.261538461538461,
                0.145714285714286,
                0.0778571428571429,
                0.01,
            ],
        ),
        (
            one_cycle(6).rise(1.0),
            &[
                0.04,
                0.131671842700025,
                0.371671842700025,
                0.668328157299975,
                0.908328157299975,
                1.0,
            ],
        ),
        (
            one_cycle(10).rise(0.05),
            &[
                0.993180678978754,
                0.939737116655742,
                0.838641431249727,
                0.700848908935635,
                0.541291507577475,
                0.377259747400575,
                0.226529014835103,
                0.105433323582822,
                0.0270952707841661,
                end,
            ],
        ),
        (
            one_cycle(8).rise(0.25),
            &[
                0.04,
                1.0,
                0.933012969841412,
                0.750001,
                0.500002,
                0.250003,
                0.0669910301585882,
                end,
            ],
        ),
    ];
    for (schedule, expected) in cases {
        for (step, expected) in expected.iter().enumerate() {
            let found = schedule.factor(step as u64);
            let difference = (found - expected).abs();
            assert!(
                difference < 1e-14,
                "{schedule:?} at {step}: {found}, {expected}"
            );
        }
        let last = expected.len() as u64 - 1;
        assert_eq!(schedule.factor(last + 1), schedule.factor(last));
        assert_eq!(schedule.factor(u64::MAX), schedule.factor(last));
        assert_eq!(schedule.steps(), last + 1);
    }
    // A rise of one step alone is the peak; PyTorch divides by zero.
    assert_eq!(one_cycle(10).rise(0.1).factor(0), 1.0);
}

#[test]
fn schedules_of_no_steps_have_ended() {
    compare(cosine(0).down_to(0.3), |_| 0.3);
    compare(linear(0), |_| 0.0);
    compare(warm_up(0), |_| 1.0);
    compare(one_cycle(0).from_to(1.0, 0.5), |_| 0.5);
    compare(0.3.for_steps(0).then(warm_up(0)).then(0.7), |_| 0.7);
}

#[test]
fn composition() {
    compare(warm_up(10).then(cosine(90)).times(0.5), |t| match t {
        t if t < 10.0 => 0.5 * (t + 1.0) / 10.0,
        t => 0.25 * (1.0 + (PI * ((t - 10.0) / 90.0).min(1.0)).cos()),
    });
    compare(exponential(0.9).for_steps(20), |t| 0.9f64.powf(t.min(20.0)));
    let three = warm_up(2)
        .then(1.0.for_steps(3))
        .then(step_decay(2, 0.5).for_steps(4));
    assert_eq!(three.steps(), 9);
    let factors: Vec<f64> = (0..11).map(|step| three.factor(step)).collect();
    let expected = [0.5, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 0.5, 0.5, 0.25, 0.25];
    assert_eq!(factors, expected);
    assert_eq!(linear(5).times(warm_up(9)).steps(), 9);
    let boxed: Box<dyn Schedule> = Box::new(warm_up(4));
    assert_eq!(boxed.times(2.0).factor(0), 0.5);
}

#[test]
fn steps_have_the_rate_of_their_number() {
    let w = Variable::new(0.0);
    let mut optimizer = Sgd::new(2.0).schedule(warm_up(2).then(linear(2)));
    let mut rates = Vec::new();
    for _ in 0..5 {
        let (before, rate) = (w.item::<f64>(), optimizer.learning_rate());
        w.set_grad(&Variable::constant(-1.0));
        optimizer.update(&w);
        assert_eq!(w.item::<f64>() - before, rate);
        rates.push(rate);
    }
    assert_eq!(rates, [1.0, 2.0, 2.0, 1.0, 0.0]);
}

/// The base rates after each metric.
fn rates(plateau: &mut ReduceOnPlateau, optimizer: &mut Sgd, metrics: &[f64]) -> Vec<f64> {
    let observe = |&metric: &f64| {
        let before = optimizer.base_learning_rate();
        let reduced = plateau.observe(metric, optimizer);
        assert_eq!(reduced, optimizer.base_learning_rate() < before);
        optimizer.base_learning_rate()
    };
    metrics.iter().map(observe).collect()
}

#[test]
fn reduce_on_plateau() {
    let half = |patience| ReduceOnPlateau::new(0.5).patience(patience);
    let run = |mut plateau, metrics: &[f64]| rates(&mut plateau, &mut Sgd::new(1.0), metrics);
    assert_eq!(
        run(half(0), &[1.0, 1.0, 0.5, 0.6, 0.6]),
        [1.0, 0.5, 0.5, 0.25, 0.125]
    );
    assert_eq!(
        run(half(2), &[1.0; 7]),
        [1.0, 1.0, 1.0, 0.5, 0.5, 0.5, 0.25]
    );
    // Better by less than the threshold is not better, for negative metrics too.
    assert_eq!(
        run(half(0).threshold(0.1), &[1.0, 0.95, 0.89]),
        [1.0, 0.5, 0.5]
    );
    assert_eq!(
        run(half(0).threshold(0.1), &[-1.0, -1.05, -1.11]),
        [1.0, 0.5, 0.5]
    );
    let largest = half(0).largest();
    assert_eq!(run(largest, &[0.5, 0.6, 0.6, 0.5]), [1.0, 1.0, 0.5, 0.25]);
    assert_eq!(
        run(half(0).cooldown(2), &[1.0; 6]),
        [1.0, 0.5, 0.5, 0.5, 0.25, 0.25]
    );
    assert_eq!(run(half(0).minimum(0.3), &[1.0; 4]), [1.0, 0.5, 0.3, 0.3]);
    assert_eq!(run(half(0), &[f64::NAN, 1.0, f64::NAN]), [0.5, 0.5, 0.25]);
    // A schedule goes on beside it.
    let mut optimizer = Sgd::new(1.0).schedule(0.1);
    half(0).observe(f64::NAN, &mut optimizer);
    assert_eq!(
        (optimizer.base_learning_rate(), optimizer.learning_rate()),
        (0.5, 0.05)
    );
}

#[test]
fn plateaus_are_resumed() {
    let metrics = [3.0, 2.0, 2.0, 2.5, 1.0, 1.0, 1.0, 1.0, 1.0];
    for stop in 0..metrics.len() {
        for largest in [false, true] {
            let make = || {
                let plateau = ReduceOnPlateau::new(0.5).patience(1).cooldown(1);
                if largest { plateau.largest() } else { plateau }
            };
            let (mut one, mut optimizer) = (make(), Sgd::new(1.0));
            rates(&mut one, &mut optimizer, &metrics[..stop]);
            let mut two = make();
            two.load_state(&one.state()).unwrap();
            let mut other = Sgd::new(optimizer.base_learning_rate());
            assert_eq!(
                rates(&mut one, &mut optimizer, &metrics[stop..]),
                rates(&mut two, &mut other, &metrics[stop..])
            );
        }
    }
}
