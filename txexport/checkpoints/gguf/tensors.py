"""A GGUF file's tensors with the names, order and shapes of transformers."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from txexport.checkpoints.gguf.container import Packed
from txexport.checkpoints.gguf.rope import FACTORS
from txexport.checkpoints.stored import CHUNK, reading
from txexport.errors import CheckpointError, UnsupportedError
from txexport.formats.blocks import Blocks

LAYER = re.compile(r"blk\.(\d{1,6})\.(\w+)\.(weight|bias)")
GLOBAL = re.compile(r"(\w+)\.(weight|bias)")

_ATTENTION = {f"attn_{part}": f"layers.{{i}}.self_attn.{part}_proj" for part in "qkv"}
_OUTER = {"token_embd": "embed_tokens", "output_norm": "norm"}
_LLAMA = {
    **{name: f"model.{theirs}" for name, theirs in (_OUTER | _ATTENTION).items()},
    "output": "lm_head",
    "attn_output": "model.layers.{i}.self_attn.o_proj",
    "attn_norm": "model.layers.{i}.input_layernorm",
    "ffn_norm": "model.layers.{i}.post_attention_layernorm",
    **{f"ffn_{part}": f"model.layers.{{i}}.mlp.{part}_proj" for part in ("gate", "up", "down")},
}
_QWEN3 = _LLAMA | {f"attn_{part}_norm": f"model.layers.{{i}}.self_attn.{part}_norm" for part in "qk"}
_BLOOM = {
    "token_embd": "transformer.word_embeddings",
    "token_embd_norm": "transformer.word_embeddings_layernorm",
    "output_norm": "transformer.ln_f",
    "output": "lm_head",
    "attn_qkv": "transformer.h.{i}.self_attention.query_key_value",
    "attn_output": "transformer.h.{i}.self_attention.dense",
    "attn_norm": "transformer.h.{i}.input_layernorm",
    "ffn_norm": "transformer.h.{i}.post_attention_layernorm",
    "ffn_up": "transformer.h.{i}.mlp.dense_h_to_4h",
    "ffn_down": "transformer.h.{i}.mlp.dense_4h_to_h",
}

# llama.cpp's architecture -> its tensors' names, and those of transformers.
NAMES: dict[str, dict[str, str]] = {
    "llama": _LLAMA,
    "qwen2": _LLAMA,
    "qwen3": _QWEN3,
    "phi3": _LLAMA
    | {
        "attn_qkv": "model.layers.{i}.self_attn.qkv_proj",
        "ffn_up": "model.layers.{i}.mlp.gate_up_proj",
    },
    "gemma2": _LLAMA
    | {
        "post_attention_norm": "model.layers.{i}.post_attention_layernorm",
        "ffn_norm": "model.layers.{i}.pre_feedforward_layernorm",
        "post_ffw_norm": "model.layers.{i}.post_feedforward_layernorm",
    },
    "gpt2": {
        "token_embd": "transformer.wte",
        "position_embd": "transformer.wpe",
        "output_norm": "transformer.ln_f",
        "output": "lm_head",
        "attn_qkv": "transformer.h.{i}.attn.c_attn",
        "attn_output": "transformer.h.{i}.attn.c_proj",
        "attn_norm": "transformer.h.{i}.ln_1",
        "ffn_norm": "transformer.h.{i}.ln_2",
        "ffn_up": "transformer.h.{i}.mlp.c_fc",
        "ffn_down": "transformer.h.{i}.mlp.c_proj",
    },
    "starcoder2": _LLAMA | {"ffn_up": "model.layers.{i}.mlp.c_fc", "ffn_down": "model.layers.{i}.mlp.c_proj"},
    "phi2": _LLAMA
    | {
        "output_norm": "model.final_layernorm",
        "attn_output": "model.layers.{i}.self_attn.dense",
        "ffn_up": "model.layers.{i}.mlp.fc1",
        "ffn_down": "model.layers.{i}.mlp.fc2",
    },
    "gptneox": {
        "token_embd": "gpt_neox.embed_in",
        "output_norm": "gpt_neox.final_layer_norm",
        "output": "embed_out",
        "attn_qkv": "gpt_neox.layers.{i}.attention.query_key_value",
        "attn_output": "gpt_neox.layers.{i}.attention.dense",
        "attn_norm": "gpt_neox.layers.{i}.input_layernorm",
        "ffn_norm": "gpt_neox.layers.{i}.post_attention_layernorm",
        "ffn_up": "gpt_neox.layers.{i}.mlp.dense_h_to_4h",
        "ffn_down": "gpt_neox.layers.{i}.mlp.dense_4h_to_h",
    },
    "falcon": _BLOOM | {"attn_norm_2": "transformer.h.{i}.ln_attn"},
    "bloom": _BLOOM,
    "mpt": {
        "token_embd": "transformer.wte",
        "output_norm": "transformer.norm_f",
        "output": "lm_head",
        "attn_qkv": "transformer.blocks.{i}.attn.Wqkv",
        "attn_output": "transformer.blocks.{i}.attn.out_proj",
        "attn_norm": "transformer.blocks.{i}.norm_1",
        "ffn_norm": "transformer.blocks.{i}.norm_2",
        "ffn_up": "transformer.blocks.{i}.ffn.up_proj",
        "ffn_down": "transformer.blocks.{i}.ffn.down_proj",
    },
}

HEADS_TURNED = {"llama": ("attn_q", "attn_k")}  # rows of interleaved RoPE pairs, ours are in halves
PARTS_APART = {"bloom", "gptneox", "falcon"}  # all queries, then keys, then values; ours are by head
NORMS_PLUS_ONE = {"gemma2"}


@dataclass(frozen=True)
class GgufTensor:
    """A tensor as in transformers, decoded from a packed one of a GGUF file.

    Row i is the file's row `order[i]`, and `plus` is added to every number. Matrices are (out,in), also those
    that transformers stores as (in,out), such as GPT-2's. `name` is the file's.
    """

    file: Path
    packed: Packed
    order: np.ndarray | None = None
    plus: float = 0.0
    name: str = ""
    rounds: ClassVar[bool] = False  # see Matrix.rounds

    @property
    def dtype(self) -> str:
        """The name of the ggml type."""
        return self.packed.type.name

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape, with the inputs last."""
        return self.packed.shape

    @property
    def nbytes(self) -> int:
        """Bytes in the file."""
        return self.packed.nbytes

    def rows(self) -> Iterator[np.ndarray]:
        """Yield float32 rows, a few megabytes at a time. Raises CheckpointError."""
        for block in self._bytes():
            numbers = self.packed.type.numbers(block)
            if self.plus:
                numbers = numbers + np.float32(self.plus)
            yield numbers.reshape(-1, *self.shape[1:]) if self.shape else numbers.reshape(())

    def blocks(self) -> Blocks | None:
        """The matrix (out,in) as integers; None if it is no matrix, or one of floats."""
        if self.plus or len(self.shape) != 2:
            return None
        return self.packed.type.blocks(np.concatenate(list(self._bytes())))

    def _bytes(self) -> Iterator[np.ndarray]:
        """Yield the bytes of some rows at a time (rows, bytes); rows with another order are read all at once.

        A tensor of one axis is rows of one number, or a single row if it is in blocks.
        """
        shape, of = self.packed.shape or (1,), self.packed.type
        if 0 in shape:
            raise CheckpointError(f"a tensor of {self.file} has the shape {shape}, and no values")
        width = 1 if len(shape) == 1 and of.elements == 1 else shape[-1]
        row = width // of.elements * of.nbytes
        count, step = self.packed.nbytes // row, max(1, CHUNK // (4 * width))
        with reading(self.file), self.file.open("rb") as stream:
            stream.seek(self.packed.offset)
            if self.order is not None:
                reordered = self._read(stream, count, row)[self.order]
                yield from (reordered[first : first + step] for first in range(0, count, step))
                return
            for first in range(0, count, step):
                yield self._read(stream, min(step, count - first), row)

    def _read(self, stream: Any, count: int, row: int) -> np.ndarray:
        data = np.fromfile(stream, np.uint8, count * row)
        if data.size != count * row:
            raise CheckpointError(f"{self.file.name} ends within a tensor; copy it again")
        return data.reshape(count, row)


def tensors(
    file: Path, packed: Mapping[str, Packed], architecture: str, heads: int, keys: int
) -> dict[str, GgufTensor]:
    """Every tensor by transformers' name; `heads` and `keys` are the heads and key heads of a layer.

    Raises UnsupportedError for an unknown tensor, CheckpointError for one that does not fit the heads.
    """
    names, result = NAMES[architecture], {}
    for name, stored in packed.items():
        if name in FACTORS:
            continue
        number, kind, leaf = _parts(name)
        if kind not in names or ("{i}" in names[kind]) != (number is not None):
            raise UnsupportedError(f"{file}: tensor '{name}' is not known in architecture '{architecture}'")
        theirs = f"{names[kind].replace('{i}', number or '')}.{leaf}"
        order = None
        if kind in HEADS_TURNED.get(architecture, ()):
            order = _turned_back(stored, heads if kind == "attn_q" else keys, name, file)
        elif kind == "attn_qkv" and architecture in PARTS_APART:
            order = _by_head(stored, heads, keys if architecture == "falcon" else heads, name, file)
        result[theirs] = GgufTensor(
            file,
            stored,
            order,
            plus=-1.0 if kind.endswith("norm") and architecture in NORMS_PLUS_ONE else 0.0,
            name=name,
        )
    return result


def _parts(name: str) -> tuple[str | None, str, str]:
    """A tensor's layer number or None, its name in the layer, and weight or bias; None for other names."""
    if match := LAYER.fullmatch(name):
        return match[1], match[2], match[3]
    if match := GLOBAL.fullmatch(name):
        return None, match[1], match[2]
    return None, "", ""


def _turned_back(stored: Packed, heads: int, name: str, file: Path) -> np.ndarray:
    """The file's index of each row: the file interleaves the first and the second half of a head's rows."""
    return _rows(stored, 2 * heads, name, file).reshape(heads, -1, 2).swapaxes(1, 2).reshape(-1)


def _by_head(stored: Packed, heads: int, keys: int, name: str, file: Path) -> np.ndarray:
    """The file's index of each row: the file has all queries, keys, values; ours group them by key head."""
    if keys < 1 or heads % keys:
        raise CheckpointError(f"{file}: {heads} heads cannot share {keys} key heads")
    rows = _rows(stored, heads + 2 * keys, name, file).reshape(heads + 2 * keys, -1)
    queries = rows[:heads].reshape(keys, heads // keys, -1)
    together = [queries, rows[heads : heads + keys, None], rows[heads + keys :, None]]
    return np.concatenate(together, axis=1).reshape(-1)


def _rows(stored: Packed, parts: int, name: str, file: Path) -> np.ndarray:
    count = stored.shape[0] if len(stored.shape) == 2 or (stored.type.elements == 1 and stored.shape) else 0
    if parts < 1 or not count or count % parts:
        raise CheckpointError(
            f"{file}: tensor '{name}' is {stored.shape}, which cannot be cut into {parts} parts"
        )
    return np.arange(count)
