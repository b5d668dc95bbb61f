"""Loads what bibun wrote in Chainer's names into real Chainer, strictly, and compares what the
models make of the inputs in results.npz.

The files come from `cargo test -p bibun-tests --test bibun serializers -- --ignored chainer`, which writes them into
the folder that the variable FOLDER names.

    python check.py FOLDER
"""

import os
import sys

import chainer
import numpy as np

from make import HERE, Cnn, Mlp, predict

results = np.load(os.path.join(HERE, "results.npz"))
for name, model, x in [("mlp", Mlp(), "x"), ("cnn", Cnn(), "ids")]:
    chainer.serializers.load_npz(os.path.join(sys.argv[1], name + ".npz"), model)
    worst = abs(predict(model, results[x]) - results[name]).max()
    print(f"{name}: off by {worst}")
    assert worst < 1e-5
