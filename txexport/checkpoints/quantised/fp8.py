"""quant_method "fp8": float8 with scales for rectangles, as in DeepSeek-V3 (finegrained_fp8.py).

`weight` (out,in) float8, `weight_scale_inv` one number for each `weight_block_size` or for all; number =
weight * weight_scale_inv, despite the name. The rounding of activations to float8 is ignored.
"""

from txexport.checkpoints.quantised import scaled_float8
from txexport.checkpoints.quantised.float8 import LEVELS
from txexport.checkpoints.quantised.matrix import Matrix
from txexport.checkpoints.quantised.module import Module
from txexport.checkpoints.quantised.settings import Settings

SCALE = "weight_scale_inv"


def reader(settings: Settings) -> "Reader":
    """A reader of modules with these `settings`. Raises UnsupportedError for static activations."""
    settings.expect(activation_scheme=("dynamic",), fmt=("e4m3", "float8_e4m3fn"))
    return Reader(settings)


class Reader:
    """Reads the modules of one checkpoint."""

    def __init__(self, settings: Settings):
        self.rectangles = settings.rectangles("weight_block_size")

    def __call__(self, module: Module) -> Matrix | None:
        """The matrix of a module; None if it is not float8."""
        weight = module.parts.get("weight")
        if SCALE not in module.parts and (weight is None or weight.dtype not in LEVELS):
            return None
        return scaled_float8.matrix(module, SCALE, self.rectangles)
