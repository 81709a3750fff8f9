"""Attention weights of every layer and head, as the graphs return them.

L layers, N heads, S queries, T keys.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
from tokenizers import Encoding

from txexport.contracts import OUTPUTS, cache_names, layer_outputs, names
from txexport.contracts.stage import TOKENS
from txexport.errors import InputError, UnsupportedError, counted
from txexport.runtime import batches, memory
from txexport.runtime.generation.media import step_inputs
from txexport.runtime.generation.prompts import inputs_of, target_option
from txexport.runtime.generation.requests import encoded, request_of
from txexport.runtime.generation.states import zero_states
from txexport.runtime.loaded_bundle import LoadedBundle, check_length
from txexport.runtime.preprocessing.text import Item, Text, as_items, as_rows
from txexport.runtime.session import Session, finite
from txexport.runtime.tasks.text_generation import generate_ids
from txexport.support.arguments import check_flag

DIGITS = 5  # decimals of a weight in JSON


@dataclass(frozen=True)
class AttentionMap:
    """Attention weights (L,N,S,T) of `queries` over `keys`; the weights of a query sum to 1.

    `name` is that of the graph's outputs: "attentions", or for an encoder-decoder "encoder_attentions",
    "decoder_attentions" or "cross_attentions". The queries of cross-attention are the tokens that steps
    generate, not those that they read: its rows align target and source.
    """

    name: str
    queries: list[str]
    keys: list[str]
    weights: np.ndarray

    def to_dict(self) -> dict[str, Any]:
        """The map as a JSON object; `weights` are nested lists (L,N,S,T), rounded to 5 decimals."""
        return {
            "name": self.name,
            "queries": self.queries,
            "keys": self.keys,
            "weights": np.round(self.weights.astype(np.float64), DIGITS).tolist(),
        }


def attention(
    bundle: LoadedBundle,
    text: Item,
    target: str | None = None,
    *,
    src_lang: str | None = None,
    tgt_lang: str | None = None,
    truncate: bool = False,
    **options: Any,
) -> dict[str, AttentionMap]:
    """Attention weights of all layers and heads for a text or a pair, by name.

    For an encoder or a decoder this is "attentions", from one pass over the text; for an encoder-decoder
    "encoder_attentions", "decoder_attentions" and "cross_attentions", for the tokens of `target`. Without a
    target, the model generates one greedily, with `options`, `src_lang` and `tgt_lang` as in `generate`.
    Raises InputError for a bundle that was exported without attentions, for a text that is too long (unless
    `truncate` cuts it, for encoders), and for a target where the model is no encoder-decoder,
    UnsupportedError for models of images or sounds.
    """
    check_flag("truncate", truncate)
    _check_given(bundle)
    items = as_items([text])
    if bundle.is_encoder_decoder:
        maps = _translated(bundle, items[0], target, src_lang, tgt_lang, options)
    elif target is not None or src_lang or tgt_lang or options:
        raise InputError(f"task '{bundle.manifest.task}' reads one text: it has no target and no languages")
    elif bundle.step is not None:
        maps = _prompt(bundle, items[0])
    else:
        maps = _read(bundle, items[0], truncate)
    return {one.name: one for one in maps}


def _check_given(bundle: LoadedBundle) -> None:
    """Raise InputError for graphs without attention outputs, UnsupportedError for models without texts."""
    outputs = {port for session in bundle.sessions.values() for port in session.outputs}
    if not any(layer_outputs.kind_of(name) == names.ATTENTIONS for name in outputs):
        raise InputError(
            f"the graphs give no attention weights; export with --outputs {names.ATTENTIONS} "
            f"(of {', '.join(OUTPUTS)})"
        )
    if bundle.prompt_kind != TOKENS:
        raise UnsupportedError("attention reads texts; model.run returns the weights of images and sounds")


def _read(bundle: LoadedBundle, item: Item, truncate: bool) -> list[AttentionMap]:
    """The maps of an encoder for a text or a pair."""
    encodings = batches.encode(bundle, [item], truncate)
    ((_, outputs, _),) = batches.run(bundle, encodings, batches.BATCH_TOKENS, None)
    tokens = _pieces(encodings[0], item)
    return [AttentionMap(name, tokens, tokens, weights) for name, weights in _weights(outputs).items()]


def _prompt(bundle: LoadedBundle, item: Item) -> list[AttentionMap]:
    """The maps of a decoder, in one pass over a text."""
    text = _single_text(item)
    (encoding,) = bundle.files.text.encode([text])
    outputs = _pass(bundle, encoding.ids, {})
    tokens = _pieces(encoding, text)
    return [AttentionMap(name, tokens, tokens, weights) for name, weights in _weights(outputs).items()]


def _translated(
    bundle: LoadedBundle,
    item: Item,
    target: str | None,
    src_lang: str | None,
    tgt_lang: str | None,
    options: dict[str, Any],
) -> list[AttentionMap]:
    """The maps of an encoder-decoder for a source and `target`, by default generated greedily."""
    text, tokenizer = _single_text(item), bundle.files.text
    rows = inputs_of(bundle, [text], src_lang)[0]
    if target is None:
        greedy = {"num_beams": 1, "do_sample": False, **target_option(bundle, tgt_lang), **options}
        (written,) = generate_ids(bundle, rows, **greedy)
    elif options:
        raise InputError(f"{', '.join(options)}: the target is given, so that nothing is generated")
    else:
        (written,) = inputs_of(bundle, [target], tgt_lang)[0]
    request = encoded(request_of(bundle, rows, None, {}))
    read = [request.decoder_input_ids[0][0], *written[:-1]]
    ids = np.array([request.inputs[0]], np.int64)
    source = bundle.sessions[bundle.reader.role]
    _check_room(source, ids.shape[1], ids.shape[1])
    seen = finite(source.run({names.INPUT_IDS: ids, names.ATTENTION_MASK: np.ones_like(ids)}))
    cross = {cache_names.to_past(name): array for name, array in seen.items() if cache_names.is_cross(name)}
    cross[names.ENCODER_ATTENTION_MASK] = np.ones_like(ids)
    outputs = _pass(bundle, read, cross)
    keys = _decoded(tokenizer, request.inputs[0])
    before, after = _decoded(tokenizer, read), _decoded(tokenizer, written)
    maps = [AttentionMap(name, keys, keys, weights) for name, weights in _weights(seen).items()]
    for name, weights in _weights(outputs).items():
        crossed = name == names.CROSS_ATTENTIONS
        maps.append(AttentionMap(name, after if crossed else before, keys if crossed else before, weights))
    return maps


def _pass(bundle: LoadedBundle, ids: Sequence[int], cross: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The outputs of a decoder in one pass over a row of ids, with an empty cache."""
    step, session, length = bundle.step, bundle.decoder, len(ids)
    assert step is not None
    as_rows([ids], step.facts.vocab_size)
    check_length(length, bundle.max_length(step))
    _check_room(session, length, next(iter(cross.values())).shape[2] if cross else length)
    row, empty = np.array([ids], np.int64), np.zeros(1, np.int64)
    feeds = {
        names.INPUT_IDS: row,
        names.ATTENTION_MASK: np.ones_like(row),
        names.LOGITS_INDICES: np.array([[length - 1]]),
        **step_inputs(session, [()], empty, np.array([length]), length, prompts=True),
        **zero_states(session, 1),
        **cross,
    }
    slots = length if names.CACHE_LENGTHS in session.inputs else 0
    for name in cache_names.own_past(session.inputs):
        _, heads, _, size = session.inputs[name].shape
        feeds[name] = np.zeros((1, int(heads), slots, int(size)), session.dtype(name))
    return dict(finite(session.run({name: feeds[name] for name in session.inputs})))


def _check_room(session: Session, queries: int, keys: int) -> None:
    """Raise InputError where the outputs of a row exceed the memory."""
    longest = max(queries, keys)
    sizes = (
        prod(dim if isinstance(dim, int) else 1 if dim == names.BATCH_SIZE else longest for dim in port.shape)
        for port in session.outputs.values()
    )
    memory.check(f"the attention of {counted(longest, 'token')}", 4 * sum(sizes))


def _weights(outputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Stack the outputs of all layers to weights (L,N,S,T) of the first row, by kind."""
    layers: dict[str, list[np.ndarray]] = {}
    for name, array in outputs.items():
        if layer_outputs.kind_of(name) == names.ATTENTIONS:
            layers.setdefault(name.rpartition(".")[0], []).append(array[0])
    return {name: np.stack(each) for name, each in layers.items()}


def _single_text(item: Item) -> str:
    """One text. Raises InputError for a pair."""
    if not isinstance(item, str):
        raise InputError("the model reads one text, not a pair")
    return item


def _pieces(encoding: Encoding, item: Item) -> list[str]:
    """The text of each token; special tokens by their names."""
    texts = (item,) if isinstance(item, str) else item
    pieces = []
    for token, (start, end), which in zip(
        encoding.tokens, encoding.offsets, encoding.sequence_ids, strict=True
    ):
        pieces.append(token if which is None or start == end else texts[which][start:end])
    return pieces


def _decoded(text: Text, ids: Sequence[int]) -> list[str]:
    """Each token as text, or by its name where it has none."""
    pieces = text.decode([[token] for token in ids], special=True)
    return [
        piece if piece.strip() else str(text.tokenizer.id_to_token(token))
        for piece, token in zip(pieces, ids, strict=True)
    ]
