"""Writes the files beside this script with PyTorch and its package safetensors:

model.safetensors    Embedding, Conv2d, BatchNorm2d, GroupNorm, ConvTranspose2d, LayerNorm and two
                     Linears, the weight of the last tied to the Embedding's (all names are there)
one_name.safetensors the same, with only one name of what is tied (save_model)
dtypes.safetensors   a tensor of each dtype, and texts
results.npz          the inputs and what the model makes of them in test mode

    python make.py
"""

import os

import numpy as np
import torch
from safetensors.torch import save_file, save_model
from torch import nn

HERE = os.path.dirname(os.path.abspath(__file__))


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(7, 6)
        self.conv = nn.Conv2d(1, 4, (3, 2))
        self.bn = nn.BatchNorm2d(4)
        self.group = nn.GroupNorm(2, 4)
        self.deconv = nn.ConvTranspose2d(4, 1, (3, 2))
        self.layer = nn.LayerNorm(6)
        self.dense = nn.Linear(6, 6)
        self.head = nn.Linear(6, 7, bias=False)
        self.head.weight = self.embed.weight

    def forward(self, ids):
        x = self.embed(ids)[:, None]
        h = torch.relu(self.group(self.bn(self.conv(x))))
        y = self.layer(self.deconv(h).reshape(-1, 6))
        return self.head(torch.relu(self.dense(y)))


def main():
    torch.manual_seed(5)
    model = Model()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(0.3 + 0.5 * torch.randn(parameter.shape))
        for _ in range(3):
            model(torch.randint(0, 7, (8, 5)))
        model.eval()
        ids = torch.randint(0, 7, (3, 5))
        y = model(ids)
    # The package refuses tensors that share memory.
    whole = {name: x.clone() for name, x in model.state_dict().items()}
    save_file(whole, os.path.join(HERE, "model.safetensors"), metadata={"format": "pt"})
    save_model(model, os.path.join(HERE, "one_name.safetensors"))
    values = torch.tensor([[0.0, 1.0, 2.5], [100.0, 7.0, 127.0]])
    kinds = ["float64", "float32", "float16", "bfloat16", "int64", "int32", "int16", "int8", "uint8"]
    tensors = {kind: values.to(getattr(torch, kind)) for kind in kinds + ["bool"]}
    tensors["special"] = torch.tensor([float("inf"), -0.0, float("nan"), 1e-40]).bfloat16()
    tensors["scalar"] = torch.tensor(2.5)
    tensors["empty"] = torch.zeros(0, 3)
    save_file(tensors, os.path.join(HERE, "dtypes.safetensors"), metadata={"title": "naïve", "a": ""})
    np.savez(os.path.join(HERE, "results.npz"), ids=ids.numpy(), y=y.numpy())


if __name__ == "__main__":
    main()
