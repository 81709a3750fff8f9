"""Protocols of inputs, heads and architectures; each of them is one object in one file."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from txexport.contracts.contract import Contract, Port, Signature
from txexport.contracts.stage import GraphFacts, Stage
from txexport.spec import AttentionPoolSpec, HeadKind, HeadSpec, StackSpec
from txexport.spec.shapes import Shapes

Shape = tuple[int | str, ...]  # the shape of a port: numbers and symbolic dimensions
PixelInputs = dict[str, np.ndarray]  # of one image to its graph, by name; of several they are concatenated


@dataclass(frozen=True, eq=False)
class MaskedTokens:
    """Tokens (S) of an encoder, padding among them, and their mask (S)."""

    ids: np.ndarray
    mask: np.ndarray

    def __len__(self) -> int:
        return len(self.ids)


Sources = Sequence[list[int] | np.ndarray]  # rows of tokens, or signals


@dataclass(frozen=True)
class SignalCase:
    """A batch of images (B,channels,height,width), of spectrograms, or of waveforms (B,samples).

    `mask` is the attention mask, for a stack that reads one; `real` (B,S) is then true for the vectors of the
    signal, and false for those of padding; so is `within` for those in the layers, where these have another
    number of vectors.
    """

    name: str
    signals: np.ndarray
    mask: np.ndarray | None = None
    real: np.ndarray | None = None
    within: np.ndarray | None = None


@dataclass(frozen=True)
class Skipped:
    """A case that does not apply, and the reason."""

    name: str
    reason: str


@dataclass(frozen=True)
class View:
    """The facts of a bundle that its cases depend on: its cache, its graphs, and the length of cases.

    `longest` returns the tokens of a stack's longest case; `affordable` tells whether one pass of a stack
    over a number of tokens takes only seconds. Graphs of the `hub` have LongRoPE's long factors beyond our
    limit. `masks` (B,S) by name are those of padded batches of texts, in place of the usual ones.
    """

    static: bool
    hub: bool
    longest: Callable[[StackSpec], int]
    affordable: Callable[[int, StackSpec], bool]
    masks: Mapping[str, np.ndarray] | None = None


@dataclass(frozen=True)
class Decoding:
    """The name of the stack that generates tokens, and that of the stack it attends to, if there is one."""

    decoder: str
    source: str | None = None


@dataclass(frozen=True)
class Readout:
    """A component that reads a stack's hidden states: a head, a pooler, a projection.

    Its parameters begin with `owner`. It reads `every` vector of a sequence, `joined` of them at a time, or
    one. `tied` is a matrix of another owner that it also multiplies with. A `pool` computes keys and values
    of every vector, and one output vector. With `for_decoder`, it computes the keys and values of
    cross-attention. `operations` are those of its convolutions for a row, which its matrices do not tell.
    One `apart` reads no hidden states: it makes vectors of images of any size, whose number no text tells.
    `note` describes it in reports.
    """

    owner: str
    note: str = ""
    every: bool = False
    joined: int = 1
    tied: str | None = None
    pool: AttentionPoolSpec | None = None
    for_decoder: bool = False
    operations: int = 0
    apart: bool = False


class Input(Protocol):
    """A stack's input: token ids, pixels, a spectrogram."""

    @property
    def spec(self) -> type:
        """The class of its embedding's spec."""

    @property
    def reads_tokens(self) -> bool:
        """True for token ids."""

    @property
    def last_state_before_norm(self) -> bool:
        """True if the original returns the last hidden state of such a stack without the final norm."""

    @property
    def tables(self) -> tuple[str, ...]:
        """The embedding's parameters that are added to vectors or prepended to them, not multiplied."""

    def ports(self, stack: Any, rows: Shape) -> tuple[Port, ...]:
        """The graph's inputs: token ids and masks of shape `rows`, or a signal with `rows[0]` rows."""

    def length(self, embedding: Any, tokens: int | str) -> int | str:
        """The number of vectors of a row as a port declares it; a text has `tokens` tokens."""

    def vectors(self, embedding: Any, tokens: int) -> int:
        """The number of vectors of a row; a text has `tokens` tokens, a signal the size of its spec."""

    def facts(self, embedding: Any) -> GraphFacts:
        """The facts of a graph that reads it."""

    def parameters(self, embedding: Any) -> Shapes:
        """Names and shapes of the embedding's parameters."""

    def fixed(self, embedding: Any) -> tuple[str, ...]:
        """The embedding's parameters that are computed and not learned: tables of sinusoids."""

    def operations(self, embedding: Any) -> int:
        """Floating-point operations that embed a row; 0 for a table of tokens."""

    def summary(self, stack: Any) -> list[str]:
        """Vocabulary or size of the signal, and positions, each in a few words."""

    def rows(self, stack: Any, random: np.random.Generator, lengths: Sequence[int]) -> Sources:
        """Random rows of tokens of these lengths, or one signal for each length."""

    def cases(self, stack: Any, vectors: int) -> Iterator[SignalCase]:
        """Batches of signals for an encoder alone, each row of `vectors` or more if any size can be."""


class Head(Protocol):
    """The layers on top of a stack."""

    @property
    def kind(self) -> HeadKind:
        """The kind in HeadSpec."""

    @property
    def component(self) -> str:
        """The file in txmodels/heads and txgraphs/heads that computes it over an encoder."""

    @property
    def per_sequence(self) -> bool:
        """True if it reads one vector of a sequence."""

    def ports(self, head: HeadSpec, hidden: Shape, vocab_size: int) -> tuple[Port, ...]:
        """The graph's outputs, for hidden states of shape `hidden` (B,S,W)."""

    def parameters(self, head: HeadSpec, hidden_size: int, vocab_size: int) -> Shapes:
        """Names and shapes of its parameters; a projection tied to the word embedding adds none."""

    def note(self, head: HeadSpec, vocab_size: int) -> str:
        """Kind, number of scores, and whether the projection is tied; empty where there is no head."""


class Architecture(Protocol):
    """The stacks of a model and the graphs that they are exported to."""

    @property
    def spec(self) -> type:
        """The class of its spec."""

    def roles(self, spec: Any) -> tuple[str, ...]:
        """The roles of the graphs that our runtime runs."""

    def signatures(self, spec: Any, contract: Contract) -> dict[str, Signature]:
        """Inputs and outputs of each graph by role. Raises SpecError where the contract has no such model."""

    def layer_ports(self, spec: Any, role: str, signature: Signature, outputs: tuple[str, ...]) -> list[Port]:
        """The ports of every layer's `outputs`, which follow the other outputs of a role's graph."""

    def stages(self, spec: Any, contract: Contract) -> list[Stage]:
        """The stage of each graph in running order. Raises SpecError as `signatures`."""

    def limits(self, spec: Any) -> dict[str, int | None]:
        """The longest sequence of each stack, in tokens; None is no limit."""

    def parameters(self, spec: Any) -> Shapes:
        """Names and shapes of all parameters; a shared matrix appears once, under its first owner."""

    def shared(self, spec: Any) -> Mapping[str, str]:
        """Further names of shared parameters, each with the name that is stored."""

    def decoding(self, spec: Any) -> Decoding | None:
        """The stack that generates; None if nothing is generated."""

    def readouts(self, spec: Any, stack: str) -> tuple[Readout, ...]:
        """The components that read the hidden states of a stack, in the order of computation."""

    def vector_output(self, spec: Any) -> str | None:
        """The output with one vector of a sequence beside its hidden states; None if there is none."""

    def cases(self, spec: Any, view: View) -> Iterator[Any]:
        """The seeded test cases, padding included, or Skipped ones, in the order of a report."""

    def text_case(self, spec: Any, batch: Any) -> Any:
        """The case of a padded batch of texts, for a model that generates nothing."""
