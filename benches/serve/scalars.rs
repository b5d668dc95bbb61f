//! Chains of a thousand functions of one number: the cost of a call and of its place in history.

use bibun::Variable;

use crate::row::Rows;

pub(crate) fn rows(rows: &mut Rows) {
    for (name, f) in [
        ("multiply", (|x| x * 1.000_1) as fn(&Variable) -> Variable),
        ("sin", |x| x.sin()),
        ("tanh", |x| x.tanh()),
    ] {
        rows.both(&format!("scalars/{name}"), move |[x]| {
            (1..1000).fold(f(x), |y, _| f(&y))
        });
    }
}
