use bibun::Variable;
fn main() {
    for (name, f) in [
        (
            "mul const",
            (|y: &Variable| y * 1.000001) as fn(&Variable) -> Variable,
        ),
        ("tanh", |y| y.tanh()),
        ("mul self", |y| y * y),
        ("add", |y| y + y),
    ] {
        let mut best = (f64::MAX, f64::MAX, f64::MAX);
        for _ in 0..20 {
            let x = Variable::new(0.5);
            let t = std::time::Instant::now();
            let mut y = x.clone();
            for _ in 0..10000 {
                y = f(&y);
            }
            let a = t.elapsed().as_nanos() as f64 / 1e4;
            let t = std::time::Instant::now();
            y.backward();
            let b = t.elapsed().as_nanos() as f64 / 1e4;
            let t = std::time::Instant::now();
            drop(y);
            let c = t.elapsed().as_nanos() as f64 / 1e4;
            if a + b + c < best.0 + best.1 + best.2 {
                best = (a, b, c);
            }
        }
        println!(
            "{name}: forward {:.0} backward {:.0} drop {:.0} ns",
            best.0, best.1, best.2
        );
    }
}
