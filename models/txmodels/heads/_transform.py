"""The transform and the projection that all heads share."""

import torch
from torch import Tensor, nn

from txexport.spec import HeadSpec
from txmodels.activation import activation
from txmodels.linear import Linear
from txmodels.norm import Norm

# input_ids and attention_mask (B,S), if there are any; of a detector references (B,Q,4) in the mask's place.
Tokens = tuple[Tensor | None, Tensor | None]


class Transform(nn.Module):
    """The projection, and the dense layer, activation and norm that may precede it."""

    def __init__(self, spec: HeadSpec, hidden_size: int, outputs: int):
        super().__init__()
        size = spec.projection_size(hidden_size)
        self.weight = None if spec.tied else nn.Parameter(torch.empty(outputs, size - (spec.beside or 0)))
        self.bias = nn.Parameter(torch.zeros(outputs)) if spec.bias else None
        self.beside = Linear(spec.beside, outputs, False) if spec.beside else None
        self.dense = None
        if spec.activation is not None:
            self.act = activation(spec.activation)
            self.dense = Linear(hidden_size, size, spec.dense_bias)
        self.norm = Norm(spec.norm) if spec.norm is not None else nn.Identity()
        factored = spec.factored_size
        self.narrow = Linear(hidden_size, factored, spec.factored_bias) if factored else nn.Identity()

    def shape(self, x: Tensor) -> Tensor:
        """x (...,W) as the input of the projection: of the same width, or factored."""
        if self.dense is not None:
            x = self.act(self.dense(x))
        y: Tensor = self.narrow(self.norm(x))
        return y

    def project(self, x: Tensor, word: Tensor | None = None) -> Tensor:
        """x (...,W), a tied head's word embedding (V,W) -> scores (...,V); W less the columns beside it."""
        weight = word if self.weight is None else self.weight
        assert weight is not None
        if self.beside is not None:
            weight = torch.cat([weight, self.beside.weight], dim=1)
        return nn.functional.linear(x, weight, self.bias)


def dense_layers(hidden_size: int, layers: int, outputs: int) -> nn.ModuleList:
    """Dense layers from `hidden_size` numbers to `outputs`."""
    return nn.ModuleList(
        Linear(hidden_size, outputs if layer == layers - 1 else hidden_size) for layer in range(layers)
    )
