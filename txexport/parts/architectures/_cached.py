"""The ports of a decoder over a cache: keys and values or states by layer, and scores."""

from txexport.contracts import cache_names, names
from txexport.contracts.contract import Contract, Port, Signature, floats, ints
from txexport.parts import stacks
from txexport.parts.heads import head_of
from txexport.spec import HeadSpec, MaskedAttentionSpec, TextStackSpec


def logits(head: HeadSpec, decoder: TextStackSpec, length: str) -> tuple[Port, ...]:
    """Vocabulary scores of `length` tokens a row."""
    hidden = (names.BATCH_SIZE, length, decoder.hidden_size)
    return head_of(head).ports(head, hidden, decoder.embedding.vocab_size)


def own(decoder: TextStackSpec, kind: str, part: str | None, length: str) -> list[Port]:
    """A decoder's own keys and values, or states, by layer, of `kind` cache_names.PAST or PRESENT."""
    ports = []
    for layer, block in enumerate(decoder.layers):
        if block.has_keys:
            ports += pair(cache_names.pair(kind, layer, part), block.masked, length)
        labels = cache_names.states(kind, layer, block.states)
        shapes = zip(labels, block.states.values(), strict=True)
        ports += [floats(name, names.BATCH_SIZE, *shape) for name, shape in shapes]
    return ports


def step(decoder: TextStackSpec, contract: Contract) -> tuple[Port, ...]:
    """The inputs of a step but its past; without keys, nothing has a position."""
    placed = (names.CACHE_LENGTHS, names.POSITION_IDS)
    return tuple(port for port in contract.step if decoder.has_keys or port.name not in placed)


def counts(decoder: TextStackSpec, contract: Contract) -> tuple[Port, ...]:
    """The lengths of new tokens, for states over a cache without a mask."""
    masked = any(port.name == names.ATTENTION_MASK for port in contract.step)
    return () if masked or not decoder.stateful else (ints(names.NEW_LENGTHS, names.BATCH_SIZE),)


def pair(
    both: tuple[str, ...], spec: MaskedAttentionSpec, length: int | str, rows: str = names.BATCH_SIZE
) -> list[Port]:
    """Keys and values (rows,K,length,H)."""
    return [
        floats(name, rows, heads, length, size)
        for name, (heads, size) in zip(both, spec.cache_shapes, strict=True)
    ]


def layer_ports(
    decoder: TextStackSpec,
    name: str | None,
    signature: Signature,
    outputs: tuple[str, ...],
    source: int | str | None = None,
) -> list[Port]:
    """The ports of every layer of a decoder; attention weights cover all keys of its cache."""
    ports = (port for port in signature.outputs if cache_names.is_present(port.name))
    grown = (
        port for port in ports if not (cache_names.is_cross(port.name) or cache_names.is_state(port.name))
    )
    keys = next((port.shape[2] for port in grown), stacks.TOKENS[1])
    return stacks.layer_ports(decoder, name, outputs, stacks.TOKENS, keys, source)
