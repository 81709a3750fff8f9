"""Vectors that are made for single layers, and the end of a layer that reads its own."""

import torch
from torch import Tensor, nn

from txexport.spec import LayerInputSpec, LayerInputsSpec
from txmodels.activation import activation
from txmodels.linear import Linear
from txmodels.norm import Norm


class LayerInputs(nn.Module):
    """For every token and layer a vector, of a table and of the embedded token (Gemma Team 2025)."""

    def __init__(self, spec: LayerInputsSpec, hidden_size: int, num_layers: int):
        super().__init__()
        self.vocab_size, self.partial = spec.vocab_size, spec.partial
        self.size, self.hidden_size, self.num_layers = spec.size, hidden_size, num_layers
        self.word = nn.Embedding(spec.vocab_size, num_layers * spec.size)
        self.project = Linear(hidden_size, num_layers * spec.size, False)
        self.norm = Norm(spec.norm)

    def forward(self, input_ids: Tensor, x: Tensor) -> Tensor:
        """input_ids (B,S), their vectors x (B,S,W) -> inputs of layers (B,S,D,P)."""
        layers = self.num_layers, self.size
        if self.partial:
            input_ids = torch.where(input_ids < self.vocab_size, input_ids, 0)  # (B, S)
        entries = (self.word(input_ids) * self.size**0.5).unflatten(2, layers)  # (B, S, D, P)
        projected = (self.project(x) * self.hidden_size**-0.5).unflatten(2, layers)  # (B, S, D, P)
        inputs: Tensor = (self.norm(projected) + entries) * 2**-0.5
        return inputs


class LayerInput(nn.Module):
    """A layer's own vector, gated and added to the output (Gemma Team 2025)."""

    def __init__(self, spec: LayerInputSpec):
        super().__init__()
        self.gate = Linear(spec.hidden_size, spec.size, False)
        self.act = activation(spec.activation)
        self.project = Linear(spec.size, spec.hidden_size, False)
        self.norm = Norm(spec.norm)

    def forward(self, x: Tensor, layer_input: Tensor) -> Tensor:
        """x (B,S,W), layer_input (B,S,P) -> what is added to x (B,S,W)."""
        gated = self.act(self.gate(x)) * layer_input  # (B, S, P)
        added: Tensor = self.norm(self.project(gated))  # (B, S, W)
        return added
