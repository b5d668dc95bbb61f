"""Loads what bibun wrote in PyTorch's names into real PyTorch, strictly, and compares what the
model makes of the inputs in results.npz.

The files come from `cargo test -p bibun-tests --test bibun serializers -- --ignored torch`, which writes them into
the folder that the variable FOLDER names.

    python check.py FOLDER
"""

import os
import sys

import numpy as np
import torch
from safetensors import safe_open
from safetensors.torch import load_model

from make import HERE, Model

results = np.load(os.path.join(HERE, "results.npz"))
path = os.path.join(sys.argv[1], "model.safetensors")
model = Model()
missing, unexpected = load_model(model, path, strict=True)
assert not missing and not unexpected
model.eval()
with torch.no_grad():
    worst = abs(model(torch.tensor(results["ids"])).numpy() - results["y"]).max()
print(f"model: off by {worst}")
assert worst < 1e-5
with safe_open(os.path.join(sys.argv[1], "texts.safetensors"), framework="np") as file:
    print(file.metadata(), {name: file.get_tensor(name).tolist() for name in file.keys()})
    assert file.metadata() == {"title": "naïve", "b": "2"}
    assert file.get_tensor("flag").item() is True
