"""How a row runs in PyTorch, as it is and under `torch.compile`."""

import os

import torch

import optimizers

torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))
torch.set_num_interop_threads(1)


def listed(y):
    return list(y) if isinstance(y, (tuple, list)) else [y]


def numbered(ys):
    return {str(i): y.detach().numpy() for i, y in enumerate(listed(ys))}


def prepare(row, arrays, is_compiled):
    """A function that runs the row, and one that makes named arrays of its result."""
    torch.compiler.reset()
    tensors = {name: torch.from_numpy(array.copy()) for name, array in arrays.items()}
    inputs = [tensors[str(i)] for i in range(len(row.inputs))]
    part = lambda name: {
        key.removeprefix(f"{name}/"): x for key, x in tensors.items() if key.startswith(f"{name}/")
    }
    function = torch.compile(row.torch, dynamic=False) if is_compiled else row.torch
    match row.kind:
        case "forward":
            return lambda: function(*inputs), numbered
        case "gradient":
            floats = [x.requires_grad_() for x in inputs if x.is_floating_point()]
            cotangent = tensors["cotangent"]

            def with_gradient():
                y = function(*inputs)
                return y, *torch.autograd.grad(y, floats, cotangent)

            return with_gradient, numbered
        case "inference":
            parameters = part("parameters")

            def infer():
                with torch.inference_mode():
                    return function(parameters, *inputs)

            return infer, numbered
        case "training":
            parameters = {name: x.requires_grad_() for name, x in part("parameters").items()}
            step = optimizers.in_torch(row.optimizer, list(parameters.values()))

            def train():
                step.zero_grad()
                loss = function(parameters, *inputs)
                loss.backward()
                step.step()
                return loss

            return train, lambda loss: named({"loss": loss, **parameters})
        case "update":
            parameters = {name: x.requires_grad_() for name, x in part("parameters").items()}
            for name, x in part("gradients").items():
                parameters[name].grad = x
            step = optimizers.in_torch(row.optimizer, list(parameters.values()))
            run = torch.compile(step.step) if is_compiled else step.step
            return run, lambda _: named(parameters)


def named(tensors):
    return {name: x.detach().numpy() for name, x in tensors.items()}
