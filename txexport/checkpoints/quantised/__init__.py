"""Quantised checkpoints: each file reads one format, from packed tensors to matrices.

A module's packed tensors become one `Matrix`, or a `Stack` of several, under the name in a float checkpoint;
all other tensors stay unchanged. Regular expressions in config.json are not evaluated: a module's bits and
groups, which they would select, follow from its shapes.
"""

from collections.abc import Callable, Mapping
from typing import Any

from txexport.checkpoints.quantised import awq, bitsandbytes, compressed_tensors, fp8, gptq, mxfp4, torchao
from txexport.checkpoints.quantised.matrix import Matrix, Stack
from txexport.checkpoints.quantised.module import Module, by_module
from txexport.checkpoints.quantised.settings import Settings
from txexport.checkpoints.stored import Stored
from txexport.errors import CheckpointError, UnsupportedError, shown

Reader = Callable[[Module], Matrix | dict[str, Stack] | None]  # the module's weight, or stacks by leaf
READERS: dict[str, Callable[[Settings], Reader]] = {
    "gptq": gptq.reader,
    "awq": awq.reader,
    "compressed-tensors": compressed_tensors.reader,
    "bitsandbytes": bitsandbytes.reader,
    "fp8": fp8.reader,
    "mxfp4": mxfp4.reader,
    "torchao": torchao.reader,
}


def logical(config: Mapping[str, Any], tensors: Mapping[str, Stored]) -> dict[str, Stored | Matrix | Stack]:
    """The unpacked `tensors`, by the quantisation in config.json.

    Raises UnsupportedError for an unsupported format, CheckpointError for tensors that do not fit it.
    """
    if not config.get("quantization_config"):
        return dict(tensors)
    settings = Settings.of(config)
    method = settings.method()
    if method not in READERS:
        raise UnsupportedError(
            f"config.json: quantization_config.quant_method {shown(method)} is not supported; expected "
            f"{', '.join(READERS)}, or float weights"
        )
    read = READERS[method](settings)
    result: dict[str, Stored | Matrix | Stack] = {}
    packed = 0
    for module in by_module(tensors):
        matrices = read(module)
        named = {"weight": matrices} if isinstance(matrices, Matrix) else matrices or {}
        packed += len(named)
        result |= {module.full(leaf): matrix for leaf, matrix in named.items()}
        for leaf, stored in module.left():
            if module.full(leaf) in result:
                raise CheckpointError(f"tensor '{module.full(leaf)}' appears packed and unpacked")
            result[module.full(leaf)] = stored
    if not packed:
        raise CheckpointError(
            f"config.json says that weights are quantised by {method}, but no tensor is packed"
        )
    return result
