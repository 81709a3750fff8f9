"""Shapes of parameters by name, and those of the parts that most components have."""

from txexport.spec import NormKind, NormSpec

Shapes = dict[str, tuple[int, ...]]


def under(name: str, shapes: Shapes) -> Shapes:
    """`shapes` with every name put under `name`."""
    return {f"{name}.{key}": shape for key, shape in shapes.items()}


def linear(inputs: int, outputs: int, bias: bool) -> Shapes:
    """A projection from `inputs` to `outputs` numbers."""
    return {"weight": (outputs, inputs)} | ({"bias": (outputs,)} if bias else {})


def norm(spec: NormSpec) -> Shapes:
    """Scale, and shift where the kind has one."""
    scale: Shapes = {"weight": (spec.size,)}
    return scale | ({"bias": (spec.size,)} if spec.kind == NormKind.LAYER and spec.bias else {})
