//! Functions of single elements, of a million of them.

use bibun::Variable;
use bibun::functions::{erf, gelu, mish, pow, relu, sigmoid, silu, softplus};

use crate::row::Rows;

pub(crate) fn rows(rows: &mut Rows) {
    rows.both("elementwise/add", |[x, y]| x + y);
    rows.both("elementwise/multiply", |[x, y]| x * y);
    rows.both("elementwise/divide", |[x, y]| x / y);
    rows.both("elementwise/add-row", |[x, y]| x + y);
    rows.both("elementwise/add-column", |[x, y]| x + y);
    rows.both("elementwise/polynomial", |[x]| {
        ((0.5 * x + 1.0) * x - 2.0) * x + 3.0
    });
    for (name, f) in [
        ("relu", (|x| relu(x)) as fn(&Variable) -> Variable),
        ("sigmoid", |x| sigmoid(x)),
        ("tanh", |x| x.tanh()),
        ("gelu", |x| gelu(x)),
        ("silu", |x| silu(x)),
        ("mish", |x| mish(x)),
        ("softplus", |x| softplus(x, 1.0)),
        ("erf", |x| erf(x)),
        ("exp", |x| x.exp()),
        ("log", |x| x.log()),
        ("sqrt", |x| x.sqrt()),
        ("sin", |x| x.sin()),
        ("power-2.5", |x| x.pow(2.5)),
    ] {
        rows.both(&format!("elementwise/{name}"), move |[x]| f(x));
    }
    rows.both("elementwise/power", |[x, y]| pow(x, y));
}
