"""A transformer encoder (BERT base of transformers): 128 tokens in, a vector out."""

import os

import torch
from transformers import BertConfig, BertModel

from harpagon_engine import serve
from harpagon_engine.torch import Network


class Text(Network):
    inputs = [("ids", "INT64", [-1, 128])]
    outputs = [("vector", "FP32", [-1, 768])]
    half = True
    graphs = os.environ.get("GRAPHS") != "0"

    def build(self, path):
        net = BertModel(BertConfig(), add_pooling_layer=True)
        if path:
            net.load_state_dict(torch.load(path, map_location="cpu"))
        return net

    def forward(self, net, ids):
        return net(input_ids=ids).pooler_output


if __name__ == "__main__":
    serve(Text())
