"""GPTQ, as AutoGPTQ and GPTQModel write it (github.com/ModelCloud/GPTQModel, nn_modules/qlinear).

`qweight` int32 (in*bits/32, out) is packed along inputs, `qzeros` (groups, out*bits/32) along outputs,
`scales` are (groups, out), `g_idx` (in) is the group of each input. number = scale * (integer - zero).
"""

import numpy as np

from txexport.checkpoints.quantised.groups import block_of, ordered
from txexport.checkpoints.quantised.matrix import Matrix
from txexport.checkpoints.quantised.module import ANY_FLOAT, Module, Part, nbytes_of
from txexport.checkpoints.quantised.packing import unpacked
from txexport.checkpoints.quantised.settings import Settings
from txexport.errors import CheckpointError, UnsupportedError
from txexport.formats.blocks import Blocks

FORMATS = ("gptq", "gptq_v2")
BITS = (2, 3, 4, 8)
INT32 = ("I32",)


def reader(settings: Settings) -> "Reader":
    """A reader of modules with these `settings`. Raises UnsupportedError for another layout."""
    settings.expect(
        checkpoint_format=FORMATS,
        format=FORMATS,
        is_marlin_format=(False,),
        pack_dtype=("int32",),
        rotation=(),
        adapter=(),
    )
    return Reader(settings)


class Reader:
    """Reads the modules of one checkpoint.

    `checkpoint_format` "gptq" stores a zero minus 1, "gptq_v2" unchanged; some checkpoints of the second kind
    are labelled as the first. If `sym` is true, all zeros are the middle, and may be stored either way.
    """

    def __init__(self, settings: Settings):
        form = settings.text("checkpoint_format", settings.text("format", FORMATS[0]))
        self.offset = int(form == FORMATS[0])
        self.group_size = settings.integer("group_size", -1)
        self.symmetric = settings.flag("sym", False)
        described = [settings, *settings.tables("dynamic")]
        for one in described:
            one.expect(bits=BITS, sym=(self.symmetric,))
        self.bits = {one.integer("bits", settings.integer("bits")) for one in described}

    def __call__(self, module: Module) -> Matrix | None:
        """The matrix of a module; None if it is not packed."""
        if "qweight" not in module.parts:
            return None
        packed, zeros = module.take("qweight", INT32, 2), module.take("qzeros", INT32, 2)
        scales, groups = module.take("scales", ANY_FLOAT, 2), module.maybe("g_idx", INT32, 1)
        outputs = packed.shape[1]
        bits, rest = divmod(zeros.shape[1] * 32, outputs)
        inputs = packed.shape[0] * 32 // max(bits, 1)
        if rest or bits not in self.bits or packed.shape[0] * 32 % bits:
            expected = ", ".join(map(str, sorted(self.bits)))
            raise CheckpointError(
                f"tensors '{packed.name}' {packed.shape} and '{zeros.name}' {zeros.shape} are not packed in "
                f"{expected} bits, as config.json says"
            )
        scales.expect((zeros.shape[0], outputs))
        if groups is not None:
            groups.expect((inputs,))
        return Matrix(
            f"gptq int{bits}",
            (outputs, inputs),
            nbytes_of(packed, zeros, scales, groups),
            lambda: self._blocks(bits, packed, zeros, scales, groups),
        )

    def _blocks(self, bits: int, words: Part, zeros: Part, scales: Part, groups: Part | None) -> Blocks:
        integers = unpacked(words.array().T, bits)
        count = scales.shape[0]
        if groups is None or not groups.array().any():  # older writers stored zeros if there is no order
            block, order = block_of(integers.shape[1], scales, count, [self.group_size]), None
        else:
            block, order = ordered(groups, count)
        if order is not None:
            integers = integers.take(order, axis=1)
        of_blocks = np.ascontiguousarray(scales.scales().T)
        zero = np.ascontiguousarray(unpacked(zeros.array(), bits).T)
        if self.symmetric:
            middle = self._middle(zero, bits, zeros.name)
            signed = (integers - np.uint8(middle)).view(np.int8)
            return Blocks(signed, bits, of_blocks, block, order=order)
        if self.offset and zero.max() == 255:
            raise UnsupportedError(
                f"tensor '{zeros.name}' has the zero point 256, too large for 8 bits; quantise again"
            )
        zero += np.uint8(self.offset)
        used = 8 if zero.max() >= 1 << bits else bits  # a zero of 16 with integers of 4 bits
        return Blocks(integers, used, of_blocks, block, zeros=zero, order=order)

    def _middle(self, zero: np.ndarray, bits: int, name: str) -> int:
        """The zero of symmetric integers, the same for all, stored unchanged or minus 1."""
        middle = 1 << bits - 1
        if not ((zero == middle).all() or (zero == middle - 1).all()):
            raise CheckpointError(
                f"tensor '{name}' has zero points from {zero.min()} to {zero.max()}; config.json says sym, "
                f"which needs {middle - 1} (gptq) or {middle} (gptq_v2) for all"
            )
        return middle
