"""The dtypes of a bundle, and the number format that each assigns to a parameter."""

from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace

from txexport.errors import InputError, shown
from txexport.formats.float16 import (
    BFLOAT16_IN_OUT,
    BFLOAT16_ROWS,
    FLOAT16_COMPUTED,
    FLOAT16_COMPUTED_IN_OUT,
    FLOAT16_IN_OUT,
    FLOAT16_ROWS,
    MOST,
)
from txexport.formats.float32 import FLOAT32, FLOAT32_IN_OUT
from txexport.formats.int4 import in_blocks
from txexport.formats.int8 import INT8_CENTRED, INT8_FAST, INT8_IN_OUT, INT8_ROWS
from txexport.formats.number_format import NumberFormat, Use

DEFAULT = "float32"
STORED = "stored"  # a quantised checkpoint's integers and scales; its other parameters are float32
STORED_FAST = "stored-fast"

# ONNX Runtime's option for products with blocks of integers: level 1 multiplies float32 activations,
# level 4, the default, first rounds them to int8.
ACCURACY_LEVEL = "session.qdq_matmulnbits_accuracy_level"
FLOAT32_ACTIVATIONS, INT8_ACTIVATIONS = "1", "4"


@dataclass(frozen=True)
class Dtype:
    """The formats of a bundle's parameters, by the `name` that commands take.

    `suffix` ends the names of files, as in transformers.js. Formats by use: `product` for a matrix (out,in)
    that is only multiplied with, or the size of int4's blocks; `narrow` for such a matrix with no more
    outputs than inputs, if it differs; `head` for the projection to the vocabulary; `table` for a matrix
    whose rows are looked up; `others` for all other parameters. `opset` is the oldest with the operators of
    these formats. With `rounds_blocks`, the runtime rounds activations to int8 before products with blocks of
    integers. Graphs compute in `computes`, ONNX's name of float32 or float16.
    """

    name: str
    suffix: str
    product: NumberFormat | int
    head: NumberFormat
    table: NumberFormat
    narrow: NumberFormat | None = None
    opset: int = 17
    rounds_blocks: bool = False
    others: NumberFormat = FLOAT32
    computes: str = "FLOAT"

    def choose(self, shape: tuple[int, ...], uses: AbstractSet[Use], head: bool) -> NumberFormat:
        """The format of a parameter of that shape with those uses; `head` is True for a head's projection."""
        if len(shape) != 2 or Use.WHOLE in uses:
            return self.others
        if Use.LOOKUP in uses:
            return self.table
        if head:
            return self.head
        if isinstance(self.product, int):
            return in_blocks(self.product, shape[1])
        return self.narrow if self.narrow is not None and shape[0] <= shape[1] else self.product

    @property
    def uncentred(self) -> "Dtype":
        """The dtype without `narrow`, as in bundles of format 6."""
        return replace(self, narrow=None)

    @property
    def single(self) -> bool:
        """Tell whether graphs compute in float32."""
        return self.computes == "FLOAT"

    @property
    def number_bytes(self) -> int:
        """The bytes of a number in the computation."""
        return 4 if self.single else 2

    @property
    def relative(self) -> float:
        """The largest error of an output that the numbers in which graphs compute account for."""
        return self.others.relative

    @property
    def most(self) -> float | None:
        """The largest number with which graphs compute; None for float32's."""
        return None if self.single else MOST

    @property
    def blocks(self) -> bool:
        """Tell whether matrices are blocks of integers with a scale each."""
        return isinstance(self.product, int) or self.stored

    @property
    def keeps_integers(self) -> bool:
        """True if matrices stay integers, which a graph with branches holds inside each branch."""
        return self.blocks or (not isinstance(self.product, int) and self.product.rounding is not None)

    @property
    def stored(self) -> bool:
        """Tell whether matrices are the integers of a quantised checkpoint."""
        return self.name in (STORED, STORED_FAST)

    @property
    def session_options(self) -> Mapping[str, str]:
        """The options of an ONNX Runtime session that change the results of its graphs, by name."""
        return {ACCURACY_LEVEL: INT8_ACTIVATIONS if self.rounds_blocks else FLOAT32_ACTIVATIONS}

    @property
    def calibrates(self) -> bool:
        """True if calibration on sample texts improves it."""
        return isinstance(self.product, int)

    @property
    def exact(self) -> bool:
        """True if it rounds no number."""
        return self.name == DEFAULT


DTYPES = {
    dtype.name: dtype
    for dtype in (
        Dtype(DEFAULT, "", FLOAT32_IN_OUT, FLOAT32_IN_OUT, FLOAT32),
        Dtype(STORED, "", FLOAT32_IN_OUT, FLOAT32_IN_OUT, FLOAT32, opset=21),
        Dtype(STORED_FAST, "", FLOAT32_IN_OUT, FLOAT32_IN_OUT, FLOAT32, opset=21, rounds_blocks=True),
        Dtype("float16", "_fp16", FLOAT16_IN_OUT, FLOAT16_IN_OUT, FLOAT16_ROWS),
        Dtype("bfloat16", "_bf16", BFLOAT16_IN_OUT, BFLOAT16_IN_OUT, BFLOAT16_ROWS),
        Dtype("int8", "_int8", INT8_IN_OUT, INT8_IN_OUT, INT8_ROWS, INT8_CENTRED, opset=18),
        Dtype("int8-fast", "_quantized", INT8_FAST, INT8_FAST, INT8_ROWS, opset=18),
        Dtype("int4", "_q4", 32, INT8_IN_OUT, INT8_ROWS, opset=21),
        Dtype("int4-fast", "_q4_fast", 32, INT8_IN_OUT, INT8_ROWS, opset=21, rounds_blocks=True),
        Dtype("int4-128", "_q4_128", 128, INT8_IN_OUT, INT8_ROWS, opset=21),
        Dtype("int4-128-fast", "_q4_128_fast", 128, INT8_IN_OUT, INT8_ROWS, opset=21, rounds_blocks=True),
    )
}
# The dtypes in which graphs compute on a GPU, of those that are only stored narrow elsewhere.
COMPUTED = {
    "float16": Dtype(
        "float16",
        "_fp16",
        FLOAT16_COMPUTED_IN_OUT,
        FLOAT16_COMPUTED_IN_OUT,
        FLOAT16_COMPUTED,
        others=FLOAT16_COMPUTED,
        computes="FLOAT16",
    )
}


def check_known(name: str) -> None:
    """Raise InputError for a dtype that is not one of DTYPES."""
    if name not in DTYPES:
        raise InputError(f"dtype {shown(name)} is not known; expected one of {', '.join(DTYPES)}")
