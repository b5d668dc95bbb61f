"""What the three scripts beside this file share: inputs that Rust can make too, and the file of results."""

import json
import os

import numpy as np

HERE = os.path.dirname(os.path.abspath(__file__))


def wave(*shape, seed=0):
    """Numbers between -2 and 2, none of them zero and no two equal among the first hundred."""
    i = np.arange(int(np.prod(shape)))
    return (((i * 37 + seed * 53) % 101 - 50.5) / 25.0).reshape(shape)


RESULTS = {}


def row(name, *values):
    """What the peer gives for one name of a table: one or more arrays."""
    assert name not in RESULTS, name
    arrays = [np.array(value, dtype=np.float64) for value in values]
    RESULTS[name] = [{"shape": a.shape, "values": a.ravel().tolist()} for a in arrays]


def write(name, versions):
    path = os.path.join(HERE, name)
    with open(path, "w") as file:
        rows = [f" {json.dumps(key)}: {json.dumps(value)}" for key, value in RESULTS.items()]
        head = f" \"versions\": {json.dumps(versions)}"
        file.write("{\n" + ",\n".join([head] + rows) + "\n}\n")
    print(f"{path}: {len(RESULTS)} rows")
