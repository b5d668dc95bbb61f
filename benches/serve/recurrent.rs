//! Recurrent networks over 64 steps.

use bibun::array::Generator;
use bibun::links::{Gru, Link, Lstm};
use bibun::optimizers::Sgd;

use crate::row::Rows;

pub(crate) fn rows(rows: &mut Rows) {
    let lstm = || Lstm::new(64, 128, &mut Generator::new(0));
    let gru = || Gru::new(64, 128, &mut Generator::new(0));
    let sgd = || Sgd::new(0.05);
    rows.inference("recurrent/lstm-forward", lstm, |lstm, [x]| lstm.forward(x));
    rows.training("recurrent/lstm", lstm, sgd, |lstm, [x]| {
        lstm.forward(x).square().mean(..)
    });
    rows.inference("recurrent/gru-forward", gru, |gru, [x]| gru.forward(x));
    rows.training("recurrent/gru", gru, sgd, |gru, [x]| {
        gru.forward(x).square().mean(..)
    });
}
