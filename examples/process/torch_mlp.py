"""A network in PyTorch, on a GPU where the device is one. Weights are those of the file
that the module names as its model (torch.save of the state), or random."""

import torch

from harpagon_engine import serve
from harpagon_engine.torch import Network


class Layers(Network):
    inputs = [("x", "FP32", [-1, 1024])]
    outputs = [("y", "FP32", [-1, 10])]

    def build(self, path):
        torch.manual_seed(0)
        net = torch.nn.Sequential(
            torch.nn.Linear(1024, 2048), torch.nn.ReLU(),
            torch.nn.Linear(2048, 2048), torch.nn.ReLU(),
            torch.nn.Linear(2048, 10))
        if path:
            net.load_state_dict(torch.load(path, map_location="cpu"))
        return net

    def forward(self, net, x):
        return net(x)


if __name__ == "__main__":
    serve(Layers())
