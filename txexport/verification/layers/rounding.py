"""Modules of the twin that quantise activations in products as a number format does."""

from collections.abc import Iterator, Mapping, Set
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.overrides import TorchFunctionMode

from txexport.formats import NumberFormat, Rounding
from txexport.verification.layers.trace import ModuleCall


class RoundedModules:
    """Modules with quantised products; `formats` are those of their matrices, by parameter of the twin.

    A number halfway between two steps may be rounded to either, so an output has two ends: all numbers
    between them are right. Products of a part round too if the graph has the part inside the module's body,
    and not as a component of its own: the others have the numbers of the twin.
    """

    def __init__(self, modules: Mapping[str, nn.Module], formats: Mapping[str, NumberFormat]):
        self._modules = modules
        self._roundings: dict[int, Rounding] = {}
        for name, module in modules.items():
            for full_name, parameter in module.named_parameters(name, recurse=False):
                rounding = formats[full_name].rounding if full_name in formats else None
                if rounding is not None:
                    self._roundings[parameter.data_ptr()] = rounding

    def _parts(self, name: str) -> Iterator[tuple[str, nn.Module]]:
        return ((path, part) for path, part in self._modules.items() if path.startswith(f"{name}."))

    @torch.no_grad()
    def ends(
        self, name: str, call: ModuleCall, components: Set[str] = frozenset()
    ) -> tuple[list[np.ndarray], list[np.ndarray]] | None:
        """The lowest and highest value of each output of a call; None if it quantises nothing.

        `components` are the modules that the graph has as components.
        """
        module = self._modules[name]
        inside = [module, *(part for path, part in self._parts(name) if not _within(path, name, components))]
        arguments = [None if array is None else torch.from_numpy(array) for array in call.arguments]
        weights = [weight for part in inside for weight in part.parameters(recurse=False)]
        tensors = [*weights, *(one for one in arguments if one is not None)]
        addresses = self._roundings.keys() & {tensor.data_ptr() for tensor in tensors}
        roundings = {address: self._roundings[address] for address in addresses}
        if not roundings:
            return None
        results = []
        for side in (-1, 1):
            with _Products(roundings, side):
                outputs = module(*arguments)
            results.append(
                [output.numpy() for output in (outputs if isinstance(outputs, tuple) else (outputs,))]
            )
        pairs = [*zip(*results, strict=True)]
        return [np.minimum(*pair) for pair in pairs], [np.maximum(*pair) for pair in pairs]


def _within(path: str, name: str, components: Set[str]) -> bool:
    """True if a part of the module `name` is a component or in one that is in the module."""
    steps = path.removeprefix(f"{name}.").split(".")
    return any(".".join([name, *steps[:count]]) in components for count in range(1, len(steps) + 1))


class _Products(TorchFunctionMode):
    """Products of quantised numbers with some matrices, by address: the lower or the upper end."""

    def __init__(self, roundings: Mapping[int, Rounding], side: int):
        super().__init__()
        self._roundings, self._side = roundings, side

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Quantise the inputs of a product; see TorchFunctionMode."""
        if func is not nn.functional.linear or args[1].data_ptr() not in self._roundings:
            return func(*args, **(kwargs or {}))
        x, weight, bias = args
        rounded, error = map(torch.from_numpy, self._roundings[weight.data_ptr()](x.numpy()))
        wide = weight.double()
        y = nn.functional.linear(rounded, wide, None if bias is None else bias.double())
        return (y + self._side * nn.functional.linear(error, wide.abs())).float()
