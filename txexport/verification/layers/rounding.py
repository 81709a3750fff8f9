"""What modules of the twin give where products round what they multiply with, as a number format says."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.overrides import TorchFunctionMode

from txexport.formats import NumberFormat, Rounding
from txexport.verification.layers.trace import Seen


class RoundedModules:
    """Modules whose own products round; matrices are those of `formats`, by their names in the twin.

    A number that lies halfway between two steps may be rounded to either, so there are two ends: everything
    between them is right.
    """

    def __init__(self, modules: Mapping[str, nn.Module], formats: Mapping[str, NumberFormat]):
        self._modules = modules
        self._roundings: dict[int, Rounding] = {}
        for name, module in modules.items():
            for own, parameter in module.named_parameters(name, recurse=False):
                rounding = formats[own].rounding if own in formats else None
                if rounding is not None:
                    self._roundings[parameter.data_ptr()] = rounding

    @torch.inference_mode()
    def ends(self, name: str, seen: Seen) -> tuple[list[np.ndarray], list[np.ndarray]] | None:
        """The lowest and the highest of each output of a call; None where it rounds nothing."""
        module = self._modules[name]
        given = [None if array is None else torch.from_numpy(array) for array in seen.arguments]
        own = [*module.parameters(recurse=False), *(one for one in given if one is not None)]
        places = self._roundings.keys() & {one.data_ptr() for one in own}
        roundings = {place: self._roundings[place] for place in places}
        if not roundings:
            return None
        results = []
        for side in (-1, 1):
            with _Products(roundings, side):
                outputs = module(*given)
            results.append([one.numpy() for one in (outputs if isinstance(outputs, tuple) else (outputs,))])
        pairs = [*zip(*results, strict=True)]
        return [np.minimum(*pair) for pair in pairs], [np.maximum(*pair) for pair in pairs]


class _Products(TorchFunctionMode):
    """Products with some matrices, by where these lie, of rounded numbers: the lower or the upper end."""

    def __init__(self, roundings: Mapping[int, Rounding], side: int):
        super().__init__()
        self._roundings, self._side = roundings, side

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """What a function of PyTorch gives."""
        if func is not nn.functional.linear or args[1].data_ptr() not in self._roundings:
            return func(*args, **(kwargs or {}))
        x, weight, bias = args
        rounded, off = map(torch.from_numpy, self._roundings[weight.data_ptr()](x.numpy()))
        wide = weight.double()
        y = nn.functional.linear(rounded, wide, None if bias is None else bias.double())
        return (y + self._side * nn.functional.linear(off, wide.abs())).float()
