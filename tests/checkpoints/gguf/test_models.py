"""A GGUF file gives the same spec and numbers as the checkpoint that it was converted from."""

import re
from pathlib import Path

import numpy as np
import pytest
import tiny_checkpoint
import tiny_gguf
import torch
from tiny_gguf import every, floats, write

from txexport import families
from txexport.checkpoints.checkpoint import Checkpoint
from txexport.checkpoints.gguf import tensors as gguf_tensors
from txexport.checkpoints.gguf.metadata import Metadata
from txexport.checkpoints.gguf.rope import rope
from txexport.errors import CheckpointError, TxexportError, UnsupportedError
from txexport.families import Resolved

LLAMA3 = {"rope_type": "llama3", "rope_theta": 50.0, "factor": 8.0, "low_freq_factor": 1.0}
LLAMA3 |= {"high_freq_factor": 4.0, "original_max_position_embeddings": 16}
LINEAR = {"rope_type": "linear", "rope_theta": 500.0, "factor": 3.0}
YARN = {"rope_type": "yarn", "rope_theta": 500.0, "factor": 4.0, "original_max_position_embeddings": 10}
LONG = {"rope_type": "longrope", "rope_theta": 1e4, "original_max_position_embeddings": 16}
LONG |= {"short_factor": [1.0, 1.1, 1.3, 1.5], "long_factor": [1.0, 2.0, 3.0, 4.0]}
GROUPED = {"new_decoder_architecture": True, "num_kv_heads": 3, "num_attention_heads": 6}

ROWS = {
    "llama": ("llama", {}),
    "llama, tied, heads wider": ("llama", {"tie_word_embeddings": True, "head_dim": 10}),
    "llama, biases": ("llama", {"attention_bias": True, "mlp_bias": True}),
    "llama 3": ("llama", {"head_dim": 12, "rope_parameters": LLAMA3}),
    "llama, linear": ("llama", {"rope_parameters": LINEAR, "rms_norm_eps": 1e-5}),
    "qwen2": ("qwen2", {}),
    "qwen2, yarn": ("qwen2", {"rope_parameters": YARN, "tie_word_embeddings": True}),
    "qwen3": ("qwen3", {}),
    "phi3": ("phi3", {"sliding_window": 7}),
    "phi3, long": ("phi3", {"original_max_position_embeddings": 16, "rope_parameters": LONG}),
    "gemma2": ("gemma2", {"query_pre_attn_scalar": 10}),
    "gpt2": ("gpt2", {}),
    "starcoder2": ("starcoder2", {"sliding_window": None}),
    "phi2": ("phi", {}),
    "gptneox": ("gpt_neox", {}),
    "gptneox, in sequence": ("gpt_neox", {"use_parallel_residual": False, "tie_word_embeddings": False}),
    "falcon": ("falcon", {}),
    "falcon, grouped": ("falcon", GROUPED),
    "bloom": ("bloom", {}),
    "mpt": ("mpt", {}),
}


@pytest.fixture(scope="module")
def folder_of(tmp_path_factory):
    """A function from a row to its checkpoint folder and its GGUF file."""
    made: dict[str, tuple[Path, Path]] = {}

    def get(row: str) -> tuple[Path, Path]:
        if row not in made:
            model_type, config = ROWS[row]
            folder = tmp_path_factory.mktemp("gguf")
            tiny_checkpoint.save(folder / "original", model_type, **config)
            made[row] = folder / "original", tiny_gguf.convert(folder / "original", folder / "model.gguf")
        return made[row]

    return get


def numbers(resolved: Resolved, checkpoint: Checkpoint) -> dict[str, np.ndarray]:
    """Every parameter."""
    return {name: np.concatenate(list(weight.rows(checkpoint))) for name, weight in resolved.weights.items()}


@pytest.mark.parametrize("row", ROWS)
def test_a_file_of_floats_is_the_checkpoint(row, folder_of):
    original, file = map(Checkpoint, folder_of(row))
    ours, theirs = families.resolve(file), families.resolve(original)
    assert ours.spec == theirs.spec
    assert ours.task == theirs.task == "text-generation"
    expected = numbers(theirs, original)
    for name, array in numbers(ours, file).items():
        assert np.array_equal(array, expected[name]), name


MUTATIONS = {
    "queries and keys stay turned": ("llama", "HEADS_TURNED", {}),
    "queries alone are turned back": ("llama", "HEADS_TURNED", {"llama": ("attn_q",)}),
    "norms keep the one": ("gemma2", "NORMS_PLUS_ONE", set()),
    "parts stay apart": ("gptneox", "PARTS_APART", set()),
    "grouped parts stay apart": ("falcon, grouped", "PARTS_APART", {"bloom", "gptneox"}),
}


@pytest.mark.parametrize("what", MUTATIONS)
def test_without_a_rule_the_numbers_are_others(what, folder_of, monkeypatch):
    row, name, value = MUTATIONS[what]
    monkeypatch.setattr(gguf_tensors, name, value)
    original, file = map(Checkpoint, folder_of(row))
    expected = numbers(families.resolve(original), original)
    differing = [
        name
        for name, array in numbers(families.resolve(file), file).items()
        if not np.array_equal(array, expected[name])
    ]
    assert differing


def test_packed_rows_are_put_in_order_as_the_numbers_are(tmp_path):
    """Queries of packed blocks: a permutation of rows, while blocks run along the other axis."""
    tiny_checkpoint.save(tmp_path / "original", "llama", hidden_size=64, num_attention_heads=4)
    metadata, tensors = tiny_gguf.contents(tmp_path / "original", every(8))
    checkpoint = Checkpoint(write(tmp_path / "a.gguf", metadata, tensors))
    name, (shape, (_, data)) = "model.layers.0.self_attn.q_proj.weight", tensors["blk.0.attn_q.weight"]
    stored = np.frombuffer(data, np.uint8).reshape(-1, 34)
    scales = np.ascontiguousarray(stored[:, :2]).view("<f2").astype(np.float32)
    packed = (scales * stored[:, 2:].view(np.int8)).reshape(shape)
    expected = packed.reshape(4, 8, 2, 64).swapaxes(1, 2).reshape(shape)
    assert np.array_equal(checkpoint.read(name), expected)
    blocks = checkpoint.blocks(name)
    assert blocks is not None
    assert np.array_equal(blocks.numbers(), expected)
    assert checkpoint.blocks("model.norm.weight") is None


OF_BLOCKS = {"llama": 2, "gpt2": 8, "phi3": 3, "gptneox": 7, "falcon, grouped": 6, "mpt": 20}


@pytest.mark.parametrize("row", OF_BLOCKS)
def test_a_parameter_s_blocks_are_its_numbers(row, tmp_path):
    """Stored blocks cover every matrix, fused and transposed ones too, and nothing else."""
    model_type, config = ROWS[row]
    sizes = {"gpt2": {"n_embd": 64, "n_head": 4, "n_inner": 96}, "mpt": {"d_model": 64, "n_heads": 4}}
    wide = {"hidden_size": 64, "intermediate_size": 96, "num_attention_heads": 4}
    wide |= {"num_key_value_heads": 2} if model_type in ("llama", "phi3") else {}
    wide |= {"num_kv_heads": 2} if config.get("num_kv_heads") else {}
    tiny_checkpoint.save(tmp_path / "original", model_type, **config | sizes.get(model_type, wide))
    file = tiny_gguf.convert(tmp_path / "original", tmp_path / "a.gguf", every(OF_BLOCKS[row]))
    checkpoint = Checkpoint(file)
    resolved = families.resolve(checkpoint)
    read = numbers(resolved, checkpoint)
    for name, weight in resolved.weights.items():
        blocks = weight.blocks(checkpoint)
        assert (blocks is not None) == (len(weight.shape) == 2), name
        if blocks is not None:
            assert np.array_equal(blocks.numbers(), read[name]), name
        assert not weight.rounds(checkpoint)


def test_rows_are_read_a_few_at_a_time(tmp_path, monkeypatch):
    tiny_checkpoint.save(tmp_path / "original", "qwen2", hidden_size=64, num_attention_heads=4)
    file = tiny_gguf.convert(tmp_path / "original", tmp_path / "a.gguf", every(8), pre="qwen2")
    whole = Checkpoint(file).read("model.embed_tokens.weight")
    monkeypatch.setattr(gguf_tensors, "CHUNK", 4 * 64 * 10)
    blocks = list(Checkpoint(file).rows("model.embed_tokens.weight"))
    assert [len(block) for block in blocks] == [10] * 31 + [1]
    assert np.array_equal(np.concatenate(blocks), whole)


def test_a_window_makes_a_llama_a_mistral(tmp_path):
    tiny_checkpoint.save(tmp_path / "original", "mistral", sliding_window=5)
    metadata, tensors = tiny_gguf.contents(tmp_path / "original")
    file = write(tmp_path / "a.gguf", metadata | {"llama.attention.sliding_window": 5}, tensors)
    original = Checkpoint(tmp_path / "original")
    assert families.resolve(Checkpoint(file)).spec == families.resolve(original).spec


@pytest.mark.parametrize(("size", "factor"), [(128, 8.0), (64, 32.0)])
def test_llama_3s_factors_are_found_as_another_library_rounded_them(size, factor, folder_of):
    """As of Llama 3.1 and 3.2: computed in float32 by PyTorch."""
    theta, low, high, length = 500000.0, 1.0, 4.0, 8192
    plain = 1.0 / theta ** (torch.arange(0, size, 2, dtype=torch.float32) / size)
    wave = 2 * np.pi / plain
    smooth = (length / wave - low) / (high - low)
    middle = 1 / ((1 - smooth) / factor + smooth)
    factors = torch.where(wave < length / high, 1.0, torch.where(wave > length / low, factor, middle))
    metadata, _ = tiny_gguf.contents(folder_of("llama")[0])
    metadata |= {"llama.rope.freq_base": theta, "llama.rope.dimension_count": size}
    values = Metadata(metadata, Path("a.gguf"))
    found = rope(values, size, {"rope_freqs.weight": factors.numpy()})["rope_scaling"]
    assert found == {
        **{"rope_type": "llama3", "factor": factor, "low_freq_factor": low, "high_freq_factor": high},
        "original_max_position_embeddings": length,
    }


def test_factors_that_are_not_llama_3s_divide_the_frequencies(folder_of, tmp_path):
    """The file does not name the scheme of its factors; their effect is reported all the same."""
    metadata, tensors = tiny_gguf.contents(folder_of("llama")[0])
    factors = np.array([1, 1.25, 3, 5], np.float32)
    tensors["rope_freqs.weight"] = (4,), floats("", factors)
    resolved = families.resolve(Checkpoint(write(tmp_path / "a.gguf", metadata, tensors)))
    plain = families.resolve(Checkpoint(folder_of("llama")[1]))
    ours, theirs = (one.spec.stacks["decoder"].blocks[0].dense.rotary for one in (resolved, plain))
    assert np.allclose(np.array(theirs.frequencies) / factors, ours.frequencies, rtol=1e-7)
    assert ours.scale == 1


REFUSED = {
    "architecture": (
        {"general.architecture": "rwkv7"},
        "architecture 'rwkv7' is not supported; expected one",
    ),
    "value": ({"llama.attention.scale": 0.5}, "'llama.attention.scale' is 0.5, which is not supported"),
    "experts": ({"llama.expert_count": 8}, "a llama with experts is not supported"),
    "parts": ({"split.count": 3}, "is one of 3 parts; put them together"),
    "list of parts": ({"split.count": [3, 4]}, "'split.count' is a list"),
    "rope": ({"llama.rope.scaling.type": "dynamic"}, "rope scaling 'dynamic' is not supported"),
    "values": (
        {"llama.attention.key_length": 8, "llama.attention.value_length": 4},
        "keys and values of different",
    ),
    "by layer": (
        {"llama.attention.head_count_kv": [2, 3]},
        "'llama.attention.head_count_kv' is a list, one value is supported",
    ),
    "type": ({"llama.block_count": "two"}, "'llama.block_count' is 'two', expected another type"),
    "no heads": ({"llama.attention.head_count": 0}, "head_count is 0, expected 1 or more"),
    "heads": ({"llama.attention.head_count_kv": 5}, "cannot be cut into 10 parts"),
    "layers": ({"llama.block_count": 3}, "missing: layers.2.self_attn.q_proj.weight"),
    "huge": ({"llama.block_count": 2**31 - 1}, "there are tensors for at most 256"),
    "theta": ({"llama.rope.freq_base": float("nan")}, "expected a finite number"),
    "partial": ({"llama.rope.dimension_count": 4}, "partial_rotary_factor"),
}


@pytest.mark.parametrize("what", REFUSED)
def test_metadata_that_is_not_known_is_refused_by_name(what, folder_of, tmp_path):
    changes, words = REFUSED[what]
    metadata, tensors = tiny_gguf.contents(folder_of("llama")[0])
    file = write(tmp_path / "a.gguf", metadata | changes, tensors)
    with pytest.raises(TxexportError, match=re.escape(words)) as caught:
        families.resolve(Checkpoint(file))
    assert "a.gguf" in str(caught.value)


REQUIRED = ("block_count", "context_length", "embedding_length", "attention.head_count")


@pytest.mark.parametrize("key", [*REQUIRED, "attention.layer_norm_rms_epsilon"])
def test_a_missing_value_is_named(key, folder_of, tmp_path):
    metadata, tensors = tiny_gguf.contents(folder_of("llama")[0])
    del metadata[f"llama.{key}"]
    with pytest.raises(CheckpointError, match=f"has no 'llama.{key}' in its metadata"):
        Checkpoint(write(tmp_path / "a.gguf", metadata, tensors))


@pytest.mark.parametrize(
    "name",
    [
        "blk.0.ffn_gate_inp.weight",
        "blk.0.attn_norm",
        "token_embd.0.weight",
        "blk.x.attn_q.weight",
        "norm.weight",
    ],
)
def test_a_tensor_that_is_not_known_is_refused_by_name(name, folder_of, tmp_path):
    metadata, tensors = tiny_gguf.contents(folder_of("llama")[0])
    tensors[name] = (2,), floats("", np.zeros(2, np.float32))
    with pytest.raises(UnsupportedError, match=f"tensor '{name}' is not known in architecture 'llama'"):
        Checkpoint(write(tmp_path / "a.gguf", metadata, tensors))
