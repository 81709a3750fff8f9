"""Whole models, put together from a spec."""

from collections.abc import Callable, Mapping

import onnx_ir as ir

from txexport.contracts import Contract
from txexport.parts import signatures
from txexport.spec import Cache, ModelSpec
from txgraphs._graph import Graph
from txgraphs._nodes import Parameter
from txgraphs._parameters import with_shared
from txgraphs.architectures import BUILDERS


def models(
    spec: ModelSpec,
    contract: Contract,
    stored: Callable[[str], Mapping[str, Parameter]] | None,
    dtype: ir.DataType = ir.DataType.FLOAT,
) -> dict[str, Graph]:
    """The graphs of a model by role, computing in `dtype`; `stored` gives a role its parameters by name.

    Parameters that are not stored are requested too: such a graph has `uses`, but cannot be written. With
    None, `uses` are all that a graph has.
    """

    def new(role: str) -> Graph:
        parameters = None if stored is None else with_shared(spec, stored(role))
        return Graph(role, parameters, dtype, contract.captured)

    return BUILDERS[type(spec)](spec, contract.cache or Cache.STATIC, signatures(spec, contract), new)
