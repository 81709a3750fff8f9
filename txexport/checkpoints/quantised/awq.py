"""AWQ of the layout "gemm", as AutoAWQ writes it (github.com/casper-hansen/AutoAWQ, utils/packing_utils.py).

`qweight` int32 (in, out/8) and `qzeros` (groups, out/8) are packed along outputs, in an order of their own;
`scales` are (groups, out). number = scale * (integer - zero).
"""

import numpy as np

from txexport.checkpoints.quantised.groups import block_of
from txexport.checkpoints.quantised.matrix import Matrix
from txexport.checkpoints.quantised.module import ANY_FLOAT, Module, Part, nbytes_of
from txexport.checkpoints.quantised.packing import unpacked
from txexport.checkpoints.quantised.settings import Settings
from txexport.errors import CheckpointError, UnsupportedError
from txexport.formats.blocks import Blocks

BITS = 4
ORDER = [0, 4, 1, 5, 2, 6, 3, 7]  # the position in a word of each of its eight outputs
LAYOUT = ("gemm",)
KERNELS = (  # versions of the "gemm" layout
    *("autoawq", "auto", "auto_trainable", "machete", "marlin", "exllama_v1", "exllama_v2"),
    *("gemm", "gemm_triton", "torch_awq", "torch_fused_awq"),
)


def reader(settings: Settings) -> "Reader":
    """A reader of modules with these `settings`. Raises UnsupportedError for another layout."""
    settings.expect(
        version=LAYOUT, format=LAYOUT, checkpoint_format=LAYOUT, backend=KERNELS, zero_point=(True,)
    )
    settings.expect(bits=(BITS,), w_bit=(BITS,), pack_dtype=("int32",))
    return Reader(settings)


class Reader:
    """Reads the modules of one checkpoint."""

    def __init__(self, settings: Settings):
        self.group_size = settings.integer("group_size", settings.integer("q_group_size", 128))

    def __call__(self, module: Module) -> Matrix | None:
        """The matrix of a module; None if it is not packed."""
        if "qweight" not in module.parts:
            if "scales" in module.parts:
                raise UnsupportedError(
                    f"tensor '{module.full('scales')}' scales an activation, which is not supported; export "
                    "float weights"
                )
            return None
        packed_weights, zeros = module.take("qweight", ("I32",), 2), module.take("qzeros", ("I32",), 2)
        scales = module.take("scales", ANY_FLOAT, 2)
        inputs, outputs = packed_weights.shape[0], packed_weights.shape[1] * 32 // BITS
        count = scales.shape[0]
        scales.expect((count, outputs))
        zeros.expect((count, packed_weights.shape[1]))
        if inputs % count:
            raise CheckpointError(f"tensor '{scales.name}' has {count} groups for {inputs} inputs")
        nbytes = nbytes_of(packed_weights, zeros, scales)
        return Matrix(
            f"awq int{BITS}",
            (outputs, inputs),
            nbytes,
            lambda: self._blocks(inputs, packed_weights, zeros, scales),
        )

    def _blocks(self, inputs: int, words: Part, zeros: Part, scales: Part) -> Blocks:
        block = block_of(inputs, scales, scales.shape[0], [self.group_size])
        of_blocks = np.ascontiguousarray(scales.scales().T)
        return Blocks(_outputs(words), BITS, of_blocks, block, zeros=_outputs(zeros))


def _outputs(words: Part) -> np.ndarray:
    """words (rows, out/8) -> integers (out, rows)."""
    integers = unpacked(words.array(), BITS)
    return np.ascontiguousarray(integers.reshape(len(integers), -1, 8)[:, :, ORDER].reshape(integers.shape).T)
