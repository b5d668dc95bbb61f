use bibun::Variable;
fn main() {
    let x = Variable::new(0.5);
    let mut y = x.clone();
    let n: usize = std::env::args().nth(1).unwrap().parse().unwrap();
    for _ in 0..n { y = y.tanh() * 1.0001; }
    if std::env::args().nth(2).is_some() { y.backward(); }
}
