"""A network in PyTorch, on a GPU where there is one. Weights are those of the file
that the module names as its model (torch.save of the state), or random."""

import os

import torch

import oip


class Model:
    raw = True  # tensors arrive as bytes
    inputs = [("x", "FP32", [-1, 1024])]
    outputs = [("y", "FP32", [-1, 10])]

    def __init__(self, path):
        torch.manual_seed(0)
        self.device = "cuda" if torch.cuda.is_available() else "cpu"
        self.net = torch.nn.Sequential(
            torch.nn.Linear(1024, 2048), torch.nn.ReLU(),
            torch.nn.Linear(2048, 2048), torch.nn.ReLU(),
            torch.nn.Linear(2048, 10))
        if path:
            self.net.load_state_dict(torch.load(path, map_location="cpu"))
        self.net.to(self.device).eval()

    def infer(self, tensors):
        shape, data = tensors["x"]
        x = torch.frombuffer(bytearray(data), dtype=torch.float32).reshape(shape)
        with torch.inference_mode():
            y = self.net(x.to(self.device)).cpu().contiguous()
        return {"y": (list(y.shape), bytes(y.numpy().tobytes()))}


if __name__ == "__main__":
    oip.serve(Model(os.environ["HARPAGON_MODEL"]))
