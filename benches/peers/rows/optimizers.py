"""Steps of optimizers: of ten million parameters in ten tensors, and of half a million in a
thousand."""

from row import update

FEW = {f"w{i}": (1000, 1000) for i in range(10)}
MANY = {f"w{i:03}": (32, 32) if i % 2 else (32,) for i in range(1000)}

for sizes, parameters in (("few", FEW), ("many", MANY)):
    for optimizer in ("sgd", "momentum", "adam", "adamw", "adam-clipped"):
        update(f"optimizers/{optimizer}-{sizes}", parameters, optimizer)
