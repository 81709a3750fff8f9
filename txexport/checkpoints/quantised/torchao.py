"""torchao's int8, of weights alone or of activations too (github.com/pytorch/ao, prototype/safetensors).

`_weight_qdata` int8 (out,in), `_weight_scale` (out,groups), `_weight_zero_point` of the same shape;
number = scale * (integer - zero).
"""

from txexport.checkpoints.quantised.integers import blocks, scales_of
from txexport.checkpoints.quantised.matrix import Matrix
from txexport.checkpoints.quantised.module import Module, nbytes_of
from txexport.checkpoints.quantised.settings import Settings
from txexport.errors import UnsupportedError

WEIGHTS, BOTH = "int8weightonlyconfig", "int8dynamicactivationint8weightconfig"
OF_ACTIVATIONS = ("_weight_act_quant_scale", "_weight_act_quant_zero_point", "_weight_act_pre_scale")


def reader(settings: Settings) -> "Reader":
    """A reader of modules with these `settings`. Raises UnsupportedError for types other than int8."""
    default = settings.table("quant_type").table("default")
    default.text("_type")
    default.expect(_type=(WEIGHTS, BOTH), _version=(2,))
    rounds = default.text("_type") == BOTH
    if rounds:
        details = default.table("_data")
        details.table("granularity").expect(_type=("perrow",))
        details.table("act_mapping_type").expect(_data=("symmetric",))
        details.expect(weight_only_decode=(False,))
    return Reader(rounds)


class Reader:
    """Reads the modules of one checkpoint."""

    def __init__(self, rounds: bool):
        self.rounds = rounds

    def __call__(self, module: Module) -> Matrix | None:
        """The matrix of a module; None if it is not int8."""
        if not any(leaf.startswith("_weight_") for leaf in module.parts):
            return None
        for leaf in OF_ACTIVATIONS:
            if leaf in module.parts:
                raise UnsupportedError(
                    f"tensor '{module.full(leaf)}' scales activations, which is not supported"
                )
        integers = module.take("_weight_qdata", ("I8",), 2)
        scales, _ = scales_of(module, "_weight_scale", integers.shape[0])
        zeros = module.maybe("_weight_zero_point", ("I8",))
        if zeros is not None:
            zeros.expect(scales.shape)
        return Matrix(
            "torchao int8",
            integers.shape,
            nbytes_of(integers, scales, zeros),
            lambda: blocks(integers.array(), 8, scales, None if zeros is None else zeros.array()),
            self.rounds,
        )
