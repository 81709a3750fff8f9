"""Number formats: storage of parameters, the nodes that read them, their size, and their rounding errors.

A format is one file. Other code neither reads the layout of numbers in the weights file nor writes the nodes
that multiply them. Formats need neither onnx nor PyTorch.
"""

from txexport.formats.blocks import Blocks
from txexport.formats.calibrated import CalibratedInt4, Integers
from txexport.formats.dtypes import (
    ACCURACY_LEVEL,
    COMPUTED,
    DEFAULT,
    DTYPES,
    INT8_ACTIVATIONS,
    STORED,
    STORED_FAST,
    Dtype,
    check_known,
)
from txexport.formats.float32 import FLOAT, FLOAT32, FLOAT32_IN_OUT
from txexport.formats.int4 import Int4
from txexport.formats.number_format import (
    NumberFormat,
    NumberType,
    Part,
    Rounding,
    UnstorableError,
    Use,
    Value,
    Values,
    decoded,
    kept,
    nbytes,
    part_name,
)
from txexport.formats.stored import StoredIntegers, stored_integers

__all__ = [
    "ACCURACY_LEVEL",
    "COMPUTED",
    "DEFAULT",
    "DTYPES",
    "FLOAT",
    "FLOAT32",
    "FLOAT32_IN_OUT",
    "INT8_ACTIVATIONS",
    "STORED",
    "STORED_FAST",
    "Blocks",
    "CalibratedInt4",
    "Dtype",
    "Int4",
    "Integers",
    "NumberFormat",
    "NumberType",
    "Part",
    "Rounding",
    "StoredIntegers",
    "UnstorableError",
    "Use",
    "Value",
    "Values",
    "check_known",
    "decoded",
    "kept",
    "nbytes",
    "part_name",
    "stored_integers",
]
