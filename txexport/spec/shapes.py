"""Shapes of parameters by name, and those of the parts that most components have."""

from txexport.spec import NormKind, NormSpec

Shapes = dict[str, tuple[int, ...]]


def under(name: str, shapes: Shapes) -> Shapes:
    """`shapes` with every name put under `name`."""
    return {f"{name}.{key}": shape for key, shape in shapes.items()}


def linear(inputs: int, outputs: int, bias: bool) -> Shapes:
    """A projection from `inputs` to `outputs` numbers."""
    return {"weight": (outputs, inputs)} | ({"bias": (outputs,)} if bias else {})


def grouped_linear(inputs: int, outputs: int, bias: bool, groups: int) -> Shapes:
    """A projection in groups, each with its own parts of the numbers; a plain one for a single group."""
    if groups == 1:
        return linear(inputs, outputs, bias)
    shapes: Shapes = {}
    for number in range(groups):
        shapes |= under(f"groups.{number}", linear(inputs // groups, outputs // groups, bias))
    return shapes


def adapted_linear(inputs: int, outputs: int, bias: bool, groups: int, rank: int | None) -> Shapes:
    """A projection in groups, or one with an adapter of `rank`."""
    if rank is None:
        return grouped_linear(inputs, outputs, bias, groups)
    return {
        **linear(inputs, outputs, bias),
        **under("adapter_down", linear(inputs, rank, False)),
        **under("adapter_up", linear(rank, outputs, False)),
    }


def norm(spec: NormSpec) -> Shapes:
    """Scale, and shift where the kind has one."""
    scale: Shapes = {"weight": (spec.size,)}
    return scale | ({"bias": (spec.size,)} if spec.kind != NormKind.RMS and spec.bias else {})


def convolution(inputs: int, outputs: int, kernel: int, bias: bool = True) -> Shapes:
    """A convolution over maps."""
    shapes: Shapes = {"weight": (outputs, inputs, kernel, kernel)}
    return shapes | {"bias": (outputs,)} if bias else shapes


def batch_norm(size: int) -> Shapes:
    """Scale and shift, and the mean and variance of training."""
    return dict.fromkeys(("weight", "bias", "mean", "variance"), (size,))


def convolution_norm(inputs: int, outputs: int, kernel: int) -> Shapes:
    """A convolution without a bias, and a batch norm."""
    weights = under("convolution", convolution(inputs, outputs, kernel, bias=False))
    return weights | under("norm", batch_norm(outputs))
