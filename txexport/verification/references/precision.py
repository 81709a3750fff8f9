"""PyTorch modules in float64, and perturbed by as much as float32 rounds."""

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

import torch
from torch import Tensor, nn

from txexport.verification.references.centred_products import CentredProducts

SAMPLES = 4  # perturbations: a single one may leave an output nearly unchanged by chance


@contextmanager
def in_float64(module: nn.Module) -> Iterator[None]:
    """Compute in float64 within the context, constants of the module such as rotary angles included."""
    before = torch.get_default_dtype()
    # The same storage afterwards: tensors are known by their addresses.
    numbers = {parameter: parameter.data for parameter in module.parameters()}
    buffers = [
        (part, name, buffer)
        for part in module.modules()
        for name, buffer in part.named_buffers(recurse=False)
    ]
    module.double()
    torch.set_default_dtype(torch.float64)
    try:
        yield
    finally:
        torch.set_default_dtype(before)
        for parameter, data in numbers.items():
            parameter.data = data
        for part, name, buffer in buffers:
            setattr(part, name, buffer)


@contextmanager
def perturbed(module: nn.Module, seed: int, centred: bool) -> Iterator[None]:
    """Compute in float64 with random errors of up to a last bit of float32 in weights and activations.

    The effect on the outputs is the accuracy that float32 can promise on any processor and in any order of
    summation: a float32 computation is as good as an exact one on perturbed numbers. `centred` perturbs
    products that subtract the middle of each row too; see CentredProducts.
    """
    random = torch.Generator().manual_seed(seed)

    def noisy(value: Any) -> Any:
        if isinstance(value, tuple):
            return tuple(map(noisy, value))
        if not isinstance(value, Tensor) or not value.is_floating_point():
            return value
        noise = torch.rand(value.shape, generator=random, dtype=torch.float64)
        return value * (1 + torch.finfo(torch.float32).eps * (2 * noise - 1))

    weights = {parameter: parameter.data for parameter in module.parameters()}
    with in_float64(module), CentredProducts(random) if centred else nullcontext():
        hooks = [part.register_forward_hook(lambda _, __, output: noisy(output)) for part in module.modules()]
        for parameter in weights:
            parameter.data = noisy(parameter.data)
        try:
            yield
        finally:
            for hook in hooks:
                hook.remove()
            for parameter, numbers in weights.items():
                parameter.data = numbers
