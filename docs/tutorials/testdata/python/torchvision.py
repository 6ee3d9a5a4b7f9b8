"""Stands in for torchvision, beside torch.py."""

import types

import torch

models = types.SimpleNamespace(resnet50=lambda weights=None: torch.Network())
