"""Outputs beside those of a task: hidden states and attention weights of every layer, where asked for.

Their names and shapes are those of `output_hidden_states` and `output_attentions` in transformers. A static
cache has its whole capacity for keys, of which unfilled slots have weight 0, as padding and what is hidden.
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
    """What the layers of a stack give of the outputs `asked` for: `values` by name, of whatever computes.

    `stack` is the name of one of two. `before_norm` is whether the last hidden state is without the stack's
    final norm, as transformers gives it of patches and of CLIP. `states` by layer are kept where they are
    summed.
    """

    asked: Collection[str] = ()
    stack: str | None = None
    before_norm: bool = False
    states: dict[str, Value] | None = None
    values: dict[str, Value] = field(default_factory=dict)
    _counts: dict[str, int] = field(default_factory=dict)

    @property
    def weighted(self) -> bool:
        """Whether layers are to give their weights."""
        return names.ATTENTIONS in self.asked

    def hidden(self, x: Value) -> None:
        """The next layer reads x (B,S,W), or the last one gave it."""
        if self.states is not None:
            self.states[str(len(self.states))] = x
        if names.HIDDEN_STATES in self.asked:
            self._add(names.HIDDEN_STATES, self.stack, x)

    def weights(self, own: Value | None = None, cross: Value | None = None) -> None:
        """The next layer weighs with `own` (B,N,S,T), and an encoder's tokens with `cross` (B,N,S,E)."""
        if own is not None and self.weighted:
            self._add(names.ATTENTIONS, self.stack, own)
        if cross is not None and self.weighted:
            self._add(names.CROSS_ATTENTIONS, None, cross)

    def last(self, x: Value, normed: Value) -> None:
        """The last layer gave x (B,S,W), and the final norm `normed`."""
        self.hidden(x if self.before_norm else normed)

    def _add(self, kind: str, stack: str | None, value: Value) -> None:
        layer = self._counts.get(kind, 0)
        self._counts[kind] = layer + 1
        self.values[names.of_layer(kind, layer, stack)] = value


def kind_of(name: str) -> str | None:
    """That of OUTPUTS which an output is of a layer's, None for one that is of no layer."""
    kind, _, layer = name.rpartition(".")
    return next((known for known in OUTPUTS if kind.endswith(known) and layer.isdecimal()), None)


def kinds(ports: Collection[Port]) -> frozenset[str]:
    """The outputs of every layer that are among a graph's."""
    return frozenset(kind for port in ports if (kind := kind_of(port.name)) is not None)


def with_outputs(contract: Contract, outputs: tuple[str, ...]) -> Contract:
    """The contract, whose graphs give `outputs` of every layer too, last; itself where there are none."""
    return replace(contract, outputs=outputs) if outputs else contract
