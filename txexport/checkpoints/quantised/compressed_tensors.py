"""compressed-tensors, as llm-compressor writes it (github.com/vllm-project/compressed-tensors, compressors).

pack-quantized: `weight_packed` int32 (out, in*bits/32), `weight_scale` (out, groups), `weight_zero_point`
(out*bits/32, groups), `weight_shape`, and `weight_g_idx` (in) where inputs have an order; integers and zeros
are stored with half their range added. int-quantized: `weight` int8 (out,in). float-quantized: `weight`
float8. number = scale * (integer - zero).

All groups of modules in config.json are read together, since regular expressions assign modules to them: bits
follow from the shapes, and the quantisation of activations must be the same for all.
"""

import math
from collections.abc import Callable

import numpy as np

from txexport.checkpoints.quantised import scaled_float8
from txexport.checkpoints.quantised.float8 import LEVELS
from txexport.checkpoints.quantised.integers import blocks, scales_of
from txexport.checkpoints.quantised.matrix import Matrix
from txexport.checkpoints.quantised.module import Module, Part, nbytes_of
from txexport.checkpoints.quantised.packing import unpacked
from txexport.checkpoints.quantised.settings import Settings
from txexport.errors import CheckpointError, UnsupportedError
from txexport.formats.blocks import Blocks

FORMATS = ("pack-quantized", "int-quantized", "float-quantized", "naive-quantized", "dense")
PACKED_BITS = (2, 4, 8)  # bits for which no version splits an integer between words


def reader(settings: Settings) -> "Reader":
    """A reader of modules with these `settings`. Raises UnsupportedError for another layout."""
    settings.expect(
        format=(*FORMATS, "mixed-precision"), quantization_status=("compressed", "frozen"), kv_cache_scheme=()
    )
    settings.table("sparsity_config").expect(format=("dense",))
    if settings.table("transform_config").table("config_groups").values:
        raise UnsupportedError(f"{settings.path}.transform_config is not supported")
    groups = settings.tables("config_groups")
    for group in groups:
        group.expect(format=FORMATS, output_activations=())
    return Reader(settings, groups)


class Reader:
    """Reads the modules of one checkpoint."""

    def __init__(self, settings: Settings, groups: list[Settings]):
        weights = [group.table("weights") for group in groups if group.values.get("weights")]
        if not weights:
            raise CheckpointError(f"{settings.path}.config_groups names no weights")
        for one in weights:
            one.expect(
                num_bits=tuple(range(1, 9)),
                type=("int", "float"),
                strategy=("tensor", "channel", "group", "block"),
            )
        self.bits = {one.integer("num_bits", 8) for one in weights}
        self.sizes = [one.integer("group_size", -1) for one in weights]
        self.symmetric = {one.flag("symmetric", True) for one in weights}
        self.rectangles = [size for one in weights for size in one.rectangles("block_structure")]
        self.rounding = [_rounds(group.table("input_activations")) for group in groups]

    def __call__(self, module: Module) -> Matrix | None:
        """The matrix of a module; None if it is not packed."""
        weight = module.parts.get("weight")
        if "weight_packed" in module.parts:
            return self._packed(module)
        if weight is not None and weight.dtype in LEVELS:
            return scaled_float8.matrix(module, "weight_scale", self.rectangles)
        return self._int8(module) if weight is not None and weight.dtype == "I8" else None

    def _packed(self, module: Module) -> Matrix:
        words, shape = module.take("weight_packed", ("I32",), 2), module.take("weight_shape", ("I64", "I32"))
        shape.expect((2,))
        outputs, inputs = (int(size) for size in shape.array())
        fits = [bits for bits in sorted(self.bits) if words.shape == (outputs, math.ceil(inputs * bits / 32))]
        if len(fits) != 1 or inputs < 1:
            raise CheckpointError(
                f"tensor '{words.name}' is {words.shape}, which is not ({outputs}, {inputs}) packed in "
                f"{' or '.join(map(str, sorted(self.bits)))} bits"
            )
        [bits] = fits
        if bits not in PACKED_BITS:
            raise UnsupportedError(f"tensor '{words.name}' is packed in {bits} bits; expected {PACKED_BITS}")
        scales, count = scales_of(module, "weight_scale", outputs)
        zeros = self._zeros(module, ("I32",), (math.ceil(outputs * bits / 32), count))
        groups = module.maybe("weight_g_idx", ("I32",), 1)
        if groups is not None:
            groups.expect((inputs,))

        def load() -> Blocks:
            integers = unpacked(words.array(), bits)[:, :inputs]
            order = (
                groups if groups is not None and (groups.array() != -1).all() else None
            )  # -1 if none is set
            if zeros is None:
                integers = (integers - np.uint8(1 << bits - 1)).view(np.int8)
                return blocks(integers, bits, scales, None, self.sizes, order)
            zero = unpacked(zeros.array().T, bits)[:, :outputs].T
            return blocks(np.ascontiguousarray(integers), bits, scales, zero, self.sizes, order)

        parts = [words, shape, scales, zeros, groups]
        return self._matrix(f"compressed-tensors int{bits}", (outputs, inputs), parts, load)

    def _int8(self, module: Module) -> Matrix:
        weight = module.take("weight", ("I8",), 2)
        outputs, inputs = weight.shape
        scales, count = scales_of(module, "weight_scale", outputs)
        zeros = self._zeros(module, ("I8",), (outputs, count), (outputs,), (1,), ())

        def load() -> Blocks:
            zero = None if zeros is None else zeros.array()
            return blocks(weight.array(), 8, scales, zero, self.sizes)

        return self._matrix("compressed-tensors int8", (outputs, inputs), [weight, scales, zeros], load)

    def _zeros(self, module: Module, dtypes: tuple[str, ...], *shapes: tuple[int, ...]) -> Part | None:
        """Zero points; required if all matrices are asymmetric."""
        take = module.maybe if True in self.symmetric else module.take
        zeros = take("weight_zero_point", dtypes)
        if zeros is not None:
            zeros.expect(*shapes)
        return zeros

    def _matrix(
        self, dtype: str, shape: tuple[int, int], parts: list[Part | None], load: Callable[[], Blocks]
    ) -> Matrix:
        if len(set(self.rounding)) != 1:
            raise UnsupportedError(
                "config.json: quantization_config.config_groups quantise the activations of some modules "
                "only, which is not supported"
            )
        return Matrix(dtype, shape, nbytes_of(*parts), load, self.rounding[0])


def _rounds(activations: Settings) -> bool:
    """Tell whether activations are rounded to int8 for each token; rounding to float8 is ignored.

    Raises UnsupportedError for another scheme.
    """
    if not activations.values:
        return False
    activations.expect(dynamic=(True,), type=("int", "float"), num_bits=(8,), symmetric=(True,))
    if not activations.flag("dynamic", False):
        raise UnsupportedError(f"{activations.path}.dynamic False is not supported; expected True")
    if activations.text("type", "int") == "float":
        activations.expect(strategy=("token", "group"))
        return False
    activations.expect(strategy=("token",))
    return True
