"""Looks the names of the chapter names.md up in the real library, so that none of them is made up. Arguments in
brackets must be arguments of what is called, where that can be asked.

    python names.py pytorch|jax|chainer
"""

import importlib
import inspect
import os
import re
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
CHAPTER = os.path.join(HERE, "..", "..", "..", "docs", "src", "names.md")


def pytorch():
    import torch

    return {"F": "torch.nn.functional", "nn": "torch.nn", "optim": "torch.optim"}, torch.ones(2)


def jax():
    import jax.numpy as jnp

    return {"jnp": "jax.numpy", "lax": "jax.lax", "nnx": "flax.nnx"}, jnp.ones(2)


def chainer():
    return {"F": "chainer.functions", "L": "chainer.links", "np": "numpy"}, None


def look_up(path, short, x):
    first, *rest = path.split(".")
    if first == "x":
        value = x
    else:
        rest = (short.get(first, first) + path[len(first):]).split(".")
        value = importlib.import_module(rest[0])
        rest = rest[1:]
    seen = first
    for name in rest:
        seen += "." + name
        if name in getattr(value, "__annotations__", {}) and not hasattr(value, name):
            return None
        if not hasattr(value, name):
            importlib.import_module(value.__name__ + "." + name)
        value = getattr(value, name)
    return value


def arguments_of(value):
    try:
        parameters = inspect.signature(value).parameters.values()
    except (TypeError, ValueError):
        return None
    open_ended = any(p.kind is p.VAR_KEYWORD for p in parameters)
    return None if open_ended else {p.name for p in parameters}


column = ["pytorch", "jax", "chainer"].index(sys.argv[1])
short, x = globals()[sys.argv[1]]()
found, wrong = 0, []
with open(CHAPTER) as file:
    rows = [line.strip().strip("|").split(" | ") for line in file if line.startswith("| `")]
for row in rows:
    for name in re.findall(r"`([^`]*)`", row[1 + column]):
        found += 1
        if name == "x[..]":
            continue
        if name.startswith("x.at[..]."):
            if not hasattr(x.at[0], name.removeprefix("x.at[..].")):
                wrong.append(f"{row[0]}: {name}")
            continue
        path, _, settings = name.partition("(")
        try:
            value = look_up(path, short, x)
        except (AttributeError, ImportError) as error:
            wrong.append(f"{row[0]}: {name}: {error}")
            continue
        known = arguments_of(value)
        for argument in re.findall(r"(\w+)=", settings):
            if known is not None and argument not in known:
                wrong.append(f"{row[0]}: {name}: no argument {argument}")
print(f"{found} names")
assert found > 100
assert not wrong, "\n".join(wrong)
