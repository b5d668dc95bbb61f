"""All rows, in the order of the table."""

import importlib

for part in (
    "limits",
    "softmax",
    "normalization",
    "elementwise",
    "reductions",
    "arrays",
    "products",
    "linalg",
    "convolutions",
    "networks",
    "recurrent",
    "transformations",
    "optimizers",
    "scalars",
):
    importlib.import_module(f"rows.{part}")
