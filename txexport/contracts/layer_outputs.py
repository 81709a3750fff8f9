"""Additional outputs: hidden states and attention weights of every layer.

Their names and shapes are those of `output_hidden_states` and `output_attentions` in transformers. With a
static cache the keys are the whole capacity; unfilled slots have weight 0, like padding and masked tokens.
"""

from collections.abc import Collection
from dataclasses import dataclass, field, replace
from typing import Generic, TypeVar

from txexport.contracts import names
from txexport.contracts.contract import Contract, Port

OUTPUTS = (names.ATTENTIONS, names.HIDDEN_STATES)
Value = TypeVar("Value")


@dataclass
class LayerOutputs(Generic[Value]):
    """The outputs of every layer that are `asked` for, by name in `values`; a value is a tensor or a graph's.

    `stack` is the name of one of two stacks. With `before_norm`, the last hidden state is without the stack's
    final norm, as transformers returns it for patches and for CLIP. `states` has the hidden states by layer
    if a head reads them, `maps` what each stage returns (B,R,C,W) if one does, and further values by name.
    """

    asked: Collection[str] = ()
    stack: str | None = None
    before_norm: bool = False
    states: dict[str, Value] | None = None
    maps: dict[str, Value] | None = None
    values: dict[str, Value] = field(default_factory=dict)
    _counts: dict[str, int] = field(default_factory=dict)

    @property
    def weighted(self) -> bool:
        """True if the layers return attention weights."""
        return names.ATTENTIONS in self.asked

    def hidden(self, x: Value) -> None:
        """Record x (B,S,W), the input of the next layer or the output of the last one."""
        if self.states is not None:
            self.states[str(len(self.states))] = x
        if names.HIDDEN_STATES in self.asked:
            self._add(names.HIDDEN_STATES, self.stack, x)

    def stage(self, x: Value) -> None:
        """Record x (B,R,C,W), the output of the next stage."""
        if self.maps is not None:
            self.maps[str(len(self.maps))] = x

    def weights(self, own: Value | None = None, cross: Value | None = None) -> None:
        """Record the next layer's attention weights (B,N,S,T), and those of cross-attention (B,N,S,E)."""
        if own is not None and self.weighted:
            self._add(names.ATTENTIONS, self.stack, own)
        if cross is not None and self.weighted:
            self._add(names.CROSS_ATTENTIONS, None, cross)

    def last(self, x: Value, normed: Value) -> None:
        """Record the output x (B,S,W) of the last layer, and `normed` after the final norm."""
        self.hidden(x if self.before_norm else normed)

    def _add(self, kind: str, stack: str | None, value: Value) -> None:
        layer = self._counts.get(kind, 0)
        self._counts[kind] = layer + 1
        self.values[names.of_layer(kind, layer, stack)] = value


def kind_of(name: str) -> str | None:
    """The kind, of OUTPUTS, of a layer's output; None if the output is not that of a layer."""
    kind, _, layer = name.rpartition(".")
    return next((known for known in OUTPUTS if kind.endswith(known) and layer.isdecimal()), None)


def kinds(ports: Collection[Port]) -> frozenset[str]:
    """The kinds of layer outputs among the ports of a graph."""
    return frozenset(kind for port in ports if (kind := kind_of(port.name)) is not None)


def with_outputs(contract: Contract, outputs: tuple[str, ...]) -> Contract:
    """The contract with `outputs` of every layer after the others; the same contract if there are none."""
    return replace(contract, outputs=outputs) if outputs else contract
