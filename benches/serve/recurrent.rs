//! Recurrent networks over 64 steps.

use bibun::Variable;
use bibun::array::Generator;
use bibun::functions::softmax_cross_entropy;
use bibun::links::{Chain, Embedding, Gru, Linear, Link, Lstm};
use bibun::optimizers::{Adam, Sgd};

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
    rows.training(
        "recurrent/lstm-language-model",
        LanguageModel::new,
        || Adam::new(1e-3),
        |model, [words, next]| softmax_cross_entropy(model.forward(words), next),
    );
}

/// The scores of the next of 1,000 words.
#[derive(Chain)]
struct LanguageModel {
    words: Embedding,
    lstm: Lstm,
    head: Linear,
}

impl LanguageModel {
    fn new() -> Self {
        let random = &mut Generator::new(0);
        Self {
            words: Embedding::new(1000, 128, random),
            lstm: Lstm::new(128, 256, random),
            head: Linear::new(256, 1000, random),
        }
    }
}

impl Link for LanguageModel {
    /// `[n t, words]` for `[n, t]`.
    fn compute(&self, words: &Variable) -> Variable {
        let h = self.lstm.forward(&self.words.forward(words));
        self.head.forward(&h).reshape([words.size(), 1000])
    }
}
