"""Initialisation of parameters."""

import torch
from torch import nn

from txmodels.inputs.tokens import Embedding


def xavier(model: nn.Module) -> None:
    """Glorot-uniform matrices (Glorot and Bengio 2010, 4.2.1), biases 0, scales 1.

    Word embeddings are normal with variance 1 / width; the scaling of Vaswani et al. 2017 (3.4) makes it 1.
    """
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if not parameter.requires_grad:
                continue
            if parameter.ndim > 1:
                nn.init.xavier_uniform_(parameter)
            else:
                parameter.fill_(0.0 if name.endswith("bias") else 1.0)
        for module in model.modules():
            if isinstance(module, Embedding):
                nn.init.normal_(module.word.weight, std=module.word.weight.shape[1] ** -0.5)
