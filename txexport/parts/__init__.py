"""The parts of models: inputs, heads and architectures, each one object in one file.

Other code calls the methods of a model's part; only the parts distinguish the members of these unions.
"""

from dataclasses import replace

from txexport.contracts import ECOSYSTEM, SHARED, Contract, Signature, roles
from txexport.contracts.stage import Stage
from txexport.parts.architectures import architecture_of
from txexport.parts.heads import head_of
from txexport.parts.inputs import input_of
from txexport.parts.layer_outputs import check_outputs, last_before_norm, reads_stages, sums_layers
from txexport.parts.part import Architecture, Decoding, Head, Input, Readout
from txexport.spec import ModelSpec
from txexport.spec.shapes import Shapes

__all__ = [
    "Architecture",
    "Decoding",
    "Head",
    "Input",
    "Readout",
    "architecture_of",
    "check_outputs",
    "for_others",
    "head_of",
    "input_of",
    "last_before_norm",
    "limits",
    "parameters",
    "reads_stages",
    "roles_of",
    "signatures",
    "stages",
    "sums_layers",
]


def signatures(spec: ModelSpec, contract: Contract) -> dict[str, Signature]:
    """The inputs and outputs of each graph of a model by role, outputs of every layer last.

    Raises SpecError if the contract does not support such a model, UnsupportedError as `check_outputs` does.
    """
    architecture = architecture_of(spec)
    graphs = architecture.signatures(spec, contract)
    if not contract.outputs:
        return graphs
    check_outputs(spec, contract.outputs)
    return {
        role: replace(
            one, outputs=(*one.outputs, *architecture.layer_ports(spec, role, one, contract.outputs))
        )
        for role, one in graphs.items()
    }


def for_others(spec: ModelSpec, client: str | None = None) -> dict[str, Contract]:
    """The graphs for other clients by role, each with its contract; `client` as in `roles.of_client`."""
    result = dict.fromkeys(roles.of_client(signatures(spec, ECOSYSTEM), client), ECOSYSTEM)
    return {**result, roles.SHARED: SHARED} if client == roles.GENAI else result


def roles_of(spec: ModelSpec) -> tuple[str, ...]:
    """The graphs of our runtime by role."""
    return architecture_of(spec).roles(spec)


def stages(spec: ModelSpec, contract: Contract) -> list[Stage]:
    """The graphs of a model in running order, with the facts that the runtime needs."""
    return architecture_of(spec).stages(spec, contract)


def limits(spec: ModelSpec) -> dict[str, int | None]:
    """The longest sequences of a model's stacks, in tokens; None is no limit."""
    return architecture_of(spec).limits(spec)


def parameters(spec: ModelSpec) -> Shapes:
    """Names and shapes of a model's parameters, in the order in which the components declare them.

    A checkpoint must provide these; no PyTorch is needed to list them. A matrix is (out, in), as PyTorch
    keeps it. A tied or shared matrix appears once, under the name of its first owner.
    """
    return architecture_of(spec).parameters(spec)
