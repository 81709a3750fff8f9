"""Parameters of the connector between an image encoder and a decoder."""

from txexport.spec import ConnectorSpec, PatchMergerSpec
from txexport.spec.shapes import Shapes, linear, norm, under


def connector(spec: ConnectorSpec) -> Shapes:
    """The norm, and one projection or two."""
    shapes = {} if spec.norm is None else under("norm", norm(spec.norm))
    if spec.intermediate_size is None:
        return shapes | under("project", linear(spec.wide, spec.size, spec.bias))
    shapes |= under("up", linear(spec.wide, spec.intermediate_size, spec.bias))
    return shapes | under("down", linear(spec.intermediate_size, spec.size, spec.bias))


def patch_merger(spec: PatchMergerSpec) -> Shapes:
    """The norm, and the projection of squares of neighbours."""
    wide = spec.hidden_size * spec.merged**2
    return under("norm", norm(spec.norm)) | under("project", linear(wide, spec.hidden_size, False))
