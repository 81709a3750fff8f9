"""Names and shapes of the parameters of a layer within a bottleneck."""

from txexport.spec.bottleneck import BottleneckSpec
from txexport.spec.shapes import Shapes, linear, norm, under


def bottleneck(spec: BottleneckSpec) -> Shapes:
    """The projections into the bottleneck and back, attention, the networks, and their norms."""
    size, network = spec.size, spec.feed_forward
    shapes: Shapes = {}
    for name in ("residual", "narrow"):
        shapes |= under(name, linear(spec.hidden_size, size, True)) | under(f"{name}_norm", norm(spec.norm))
    for name, width in (("q", size), ("k", size), ("v", spec.hidden_size), ("o", size)):
        shapes |= under(name, linear(width, size, True))
    shapes |= under("o_norm", norm(spec.norm))
    up = linear(size, network.intermediate_size, network.bias)
    down = linear(network.intermediate_size, size, network.bias)
    for number in range(spec.networks):
        shapes |= under(f"networks.{number}.up", up) | under(f"networks.{number}.down", down)
    for number in range(spec.networks):
        shapes |= under(f"norms.{number}", norm(spec.norm))
    return shapes | under("wide", linear(size, spec.hidden_size, True))
