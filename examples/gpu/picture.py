"""ResNet-50 of torchvision: pictures as bytes in, probabilities out."""

import os

import torch
import torchvision

from harpagon_engine import serve
from harpagon_engine.torch import Network


class Picture(Network):
    inputs = [("image", "UINT8", [-1, 3, 224, 224])]
    outputs = [("probabilities", "FP32", [-1, 1000])]
    half = True
    graphs = os.environ.get("GRAPHS") != "0"

    def build(self, path):
        net = torchvision.models.resnet50(weights=None)
        if path:  # random weights without a file, for trying the speed
            net.load_state_dict(torch.load(path, map_location="cpu"))
        return net.to(memory_format=torch.channels_last)

    def forward(self, net, image):
        return net((image.to(self.dtype) / 255).contiguous(memory_format=torch.channels_last)).float().softmax(1)


if __name__ == "__main__":
    serve(Picture())
