"""LoRA adapters of PEFT merged while exporting: the numbers are peft's, and verify passes."""

import json
import math
import shutil
from pathlib import Path

import numpy as np
import pytest
import tiny_adapter
import tiny_checkpoint
import torch
from click.testing import CliRunner
from safetensors.torch import load_file, save_file
from tiny_adapter import lora, random

from txexport import families
from txexport.checkpoints.adapters import Merged
from txexport.checkpoints.checkpoint import Checkpoint
from txexport.cli.main import main
from txexport.errors import CheckpointError, TxexportError, UnsupportedError
from txexport.exporter import export, quantize
from txexport.inspection import inspect
from txexport.verification import verify
from txexport.verification.reports.repeat import repeat_command

HALF = 2.0**-24  # relative error of a rounding to float32


def product(b: torch.Tensor, a: torch.Tensor, scale: float) -> tuple[np.ndarray, np.ndarray]:
    """scale * b @ a in float64, and the error bound of its rounding and scaling."""
    exact = b.double().numpy() @ a.double().numpy() * scale
    return exact, 3 * HALF * abs(exact)  # of the product, of the scale, of what is scaled


def assert_merged(base: Path, adapter: Path, tensors: dict, scale_of, turned: bool = False) -> None:
    """Every adapted matrix is W + scale B A but for rounding, and all others are the base's, bit for bit."""
    before, after = Checkpoint(base), Merged(Checkpoint(base), adapter)
    modules = {name.removesuffix(".lora_A.weight") for name in tensors if name.endswith(".lora_A.weight")}
    assert modules
    for name in before.tensors:
        own, module = before.read(name), name.removesuffix(".weight")
        if module not in modules:
            assert np.array_equal(after.read(name), own), name
            continue
        b, a = (tensors[f"{module}.lora_{one}.weight"] for one in "BA")
        added, bound = product(b, a, scale_of(module))
        added, bound = (added.T, bound.T) if turned else (added, bound)
        expected = own.astype(np.float64) + added
        assert (abs(after.read(name) - expected) <= bound * 1.01 + HALF * (abs(expected) + bound)).all(), name
        assert not np.array_equal(after.read(name), own)


def test_llama_by_rank_and_alpha_patterns_and_rslora(checkpoint_of, tmp_path):
    base = checkpoint_of("llama")
    tensors = lora(base, "q_proj", "v_proj") | lora(base, "layers.1.self_attn.q_proj", rank=6)
    config = {
        "target_modules": ["q_proj", "v_proj"],
        "rank_pattern": {"layers.1.self_attn.q_proj": 6},
        "alpha_pattern": {"^layers.0.self_attn.v_proj": 99, "^model.layers.0.self_attn.v_proj": 9},
    }

    def scale(module: str, root: bool = False) -> float:
        rank = 6 if module == "model.layers.1.self_attn.q_proj" else 3
        return (9 if module == "model.layers.0.self_attn.v_proj" else 5) / (math.sqrt(rank) if root else rank)

    adapter = tiny_adapter.write(tmp_path / "adapter", tensors, **config)
    assert_merged(base, adapter, tensors, scale)
    tiny_adapter.write(adapter, tensors, **config, use_rslora=True)
    assert_merged(base, adapter, tensors, lambda module: scale(module, root=True))
    export(base, tmp_path / "out", adapter=adapter)
    assert verify(tmp_path / "out", cases="quick").ok
    tiny_adapter.write(adapter, tensors, **config | {"rank_pattern": {}})
    assert "'model.layers.1.self_attn.q_proj' is of rank 6 and 6, but adapter_config.json says 3" in refusal(
        base, adapter
    )


def test_gpt2_whose_matrices_are_turned(checkpoint_of, tmp_path):
    """c_proj is square, so that its shape says nothing; fan_in_fan_out is wrong too, and peft corrects it."""
    base = checkpoint_of("gpt2")
    tensors = lora(base, "c_attn", "c_proj", conv1d=True)
    for told in (True, False):
        adapter = tiny_adapter.write(
            tmp_path / "adapter", tensors, target_modules=["c_attn", "c_proj"], fan_in_fan_out=told
        )
        assert_merged(base, adapter, tensors, lambda _: 5 / 3, turned=True)
    export(base, tmp_path / "out", adapter=adapter, dtype=["float32", "int8"])
    assert verify(tmp_path / "out", cases="quick").ok


@pytest.mark.parametrize("model_type", ["t5", "bart"])
def test_encoder_decoders(model_type, checkpoint_of, tmp_path):
    base = checkpoint_of(model_type)
    tensors = lora(base, *(("SelfAttention.q", "wo") if model_type == "t5" else ("q_proj", "fc1")))
    adapter = tiny_adapter.write(tmp_path / "adapter", tensors, task_type="SEQ_2_SEQ_LM")
    assert_merged(base, adapter, tensors, lambda _: 5 / 3)
    export(base, tmp_path / "out", adapter=adapter)
    assert verify(tmp_path / "out", cases="quick").ok


@pytest.fixture
def classifier(checkpoint_of, tmp_path) -> tuple[Path, Path, dict]:
    """An encoder without a head, and an adapter trained with a head of three labels and biases."""
    base = checkpoint_of("bert")
    prefix = "" if "encoder.layer.0.output.dense.bias" in Checkpoint(base).tensors else "bert."
    tensors = {f"bert.{name.removeprefix('bert.')}": t for name, t in lora(base, "query", "value").items()}
    assert prefix == ""  # so that names differ, as in published models
    saved = {
        **{"classifier.weight": random(3, 48), "classifier.bias": random(3)},
        **{"classifier.original_module.bias": random(3, seed=1)},
        "bert.encoder.layer.0.attention.self.query.base_layer.bias": random(48, seed=2),
        "bert.encoder.layer.1.output.LayerNorm.bias": random(48, seed=3),
    }
    values = {"task_type": "SEQ_CLS", "modules_to_save": ["classifier", "score"], "bias": "all"}
    adapter = tiny_adapter.write(
        tmp_path / "adapter", tensors | saved, target_modules=["query", "value"], **values
    )
    return base, adapter, tensors | saved


def test_a_classifier_with_its_head_and_labels(classifier, tmp_path):
    base, adapter, tensors = classifier
    merged = Merged(Checkpoint(base), adapter)
    for ours, theirs in {
        **{"classifier.weight": "classifier.weight", "classifier.bias": "classifier.bias"},
        "encoder.layer.0.attention.self.query.bias": (
            "bert.encoder.layer.0.attention.self.query.base_layer.bias"
        ),
        "encoder.layer.1.output.LayerNorm.bias": "bert.encoder.layer.1.output.LayerNorm.bias",
    }.items():
        assert np.array_equal(merged.read(ours), tensors[theirs].numpy()), ours
    assert families.resolve(merged).task == "text-classification"
    manifest = export(base, tmp_path / "out", adapter=adapter)
    assert manifest.task == "text-classification"
    assert json.loads((tmp_path / "out/config.json").read_text())["num_labels"] == 3
    assert verify(tmp_path / "out", cases="quick").ok


def test_a_head_without_axes(classifier, tmp_path):
    """Its labels cannot be counted: the shape is refused with the usual error."""
    base, adapter, tensors = classifier
    values = json.loads((adapter / "adapter_config.json").read_text())
    tiny_adapter.write(adapter, tensors | {"classifier.weight": torch.tensor(1.0)}, **values)
    with pytest.raises(CheckpointError, match=r"tensor 'classifier.weight' is \(\), expected \(2, 48\)"):
        export(base, tmp_path / "out", adapter=adapter)


def test_a_bias_of_b_and_adapters_in_half(checkpoint_of, tmp_path):
    base = checkpoint_of("bert")
    tensors = {name: tensor.bfloat16() for name, tensor in lora(base, "query").items()}
    bias = {name.replace(".weight", ".bias"): random(48) for name in tensors if "lora_B" in name}
    adapter = tiny_adapter.write(tmp_path / "adapter", tensors | bias, lora_bias=True)
    name = "encoder.layer.1.attention.self.query.bias"
    merged, own = Merged(Checkpoint(base), adapter), Checkpoint(base).read(name)
    added = random(48).numpy() * np.float32(5 / 3)
    assert np.array_equal(merged.read(name), own + added)
    weight = name.replace("bias", "weight")
    b, a = (tensors[weight.replace("weight", f"lora_{one}.weight")] for one in "BA")
    expected = Checkpoint(base).read(weight) + product(b, a, 5 / 3)[0]
    assert np.allclose(merged.read(weight), expected, rtol=1e-6, atol=1e-6)


def test_embeddings(tmp_path):
    base = tmp_path / "base"
    tiny_checkpoint.save(base, "llama", tie_word_embeddings=False)
    a, b = random(3, 311), random(48, 3)
    tables = {"model.embed_tokens.lora_embedding_A": a, "model.embed_tokens.lora_embedding_B": b}
    adapter = tiny_adapter.write(tmp_path / "adapter", tables, target_modules=["embed_tokens"])
    name = "model.embed_tokens.weight"
    added, bound = product(b, a, 5 / 3)
    expected = Checkpoint(base).read(name) + added.T
    merged = Merged(Checkpoint(base), adapter).read(name)
    assert (abs(merged - expected) <= bound.T * 1.01 + HALF * (abs(expected) + bound.T)).all()
    export(base, tmp_path / "out", adapter=adapter)
    assert verify(tmp_path / "out", cases="quick").ok
    values = json.loads((base / "config.json").read_text()) | {"tie_word_embeddings": True}
    (base / "config.json").write_text(json.dumps(values))
    assert "changes 'model.embed_tokens', which the base model ties to an unchanged matrix" in refusal(
        base, adapter
    )


def test_rows_come_in_blocks(checkpoint_of, tmp_path, monkeypatch):
    base = checkpoint_of("llama")
    tensors = lora(base, "q_proj")
    merged = Merged(Checkpoint(base), tiny_adapter.write(tmp_path / "adapter", tensors))
    name = "model.layers.0.self_attn.q_proj.weight"
    whole = merged.read(name)
    monkeypatch.setattr("txexport.checkpoints.stored.CHUNK", 5 * 4 * whole.shape[1])
    monkeypatch.setattr("txexport.checkpoints.adapters.AT_ONCE", 2 * whole.shape[1])
    blocks = list(merged.rows(name))
    assert len(blocks) > 3
    assert np.array_equal(np.concatenate(blocks), whole)


def test_a_bundle_finds_its_adapter_again(checkpoint_of, tmp_path):
    base = shutil.copytree(checkpoint_of("bert"), tmp_path / "base")
    adapter = tiny_adapter.write(tmp_path / "adapter", lora(base, "query"))
    out = tmp_path / "out"
    manifest = export(base, out, adapter=adapter)
    assert manifest.source.adapter == "../adapter"
    assert {"adapter_config.json", "adapter_model.safetensors"} < manifest.source.sha256.keys()
    assert inspect(out).to_dict()["bundle"]["adapter"] == "../adapter"
    assert "with the adapter ../adapter" in " ".join(
        CliRunner().invoke(main, ["inspect", str(out)]).output.split()
    )
    quantize(out, "int8")
    assert verify(out, cases="quick").ok
    moved = adapter.rename(tmp_path / "moved")
    with pytest.raises(CheckpointError, match=r"the adapter of .* is missing: .*; give its folder with --ad"):
        verify(out)
    report = verify(out, adapter=moved, cases="quick")
    assert report.ok
    assert f"--adapter {moved}" in repeat_command(report, report.cases[-1])
    quantize(out, "float16", adapter=moved)
    tiny_adapter.write(moved, lora(base, "query"), lora_alpha=6)
    with pytest.raises(CheckpointError, match=r"is not what was exported: adapter_config\.json differ"):
        verify(out, adapter=moved)
    with pytest.raises(CheckpointError, match=r"is not what .* was exported from"):
        quantize(out, "int4", adapter=moved)


def test_the_command(checkpoint_of, tmp_path):
    adapter = tiny_adapter.write(tmp_path / "adapter", lora(checkpoint_of("bert"), "query"))
    words = ["export", str(checkpoint_of("bert")), str(tmp_path / "out"), "--adapter", str(adapter)]
    assert CliRunner().invoke(main, words).exit_code == 0
    words = ["verify", str(tmp_path / "out"), "--adapter", str(adapter), "--cases", "quick"]
    assert CliRunner().invoke(main, words).exit_code == 0


def test_files_of_torch_save(checkpoint_of, tmp_path):
    base = checkpoint_of("llama")
    tensors = lora(base, "q_proj", "v_proj")
    adapter = tiny_adapter.write(tmp_path / "adapter", tensors)
    torch.save(load_file(adapter / "adapter_model.safetensors"), adapter / "adapter_model.bin")
    (adapter / "adapter_model.safetensors").unlink()
    assert_merged(base, adapter, tensors, lambda _: 5 / 3)


def refusal(base: Path, adapter: Path, kind: type[TxexportError] = TxexportError) -> str:
    with pytest.raises(kind) as caught:
        Merged(Checkpoint(base), adapter)
    assert len(str(caught.value).splitlines()) == 1
    return str(caught.value)


UNSUPPORTED = {
    **{
        kind: ({"peft_type": kind}, f"peft_type '{kind}' is not") for kind in ("IA3", "VERA", "PROMPT_TUNING")
    },
    "no kind": ({"peft_type": None}, "peft_type None is not"),
    "DoRA": ({"use_dora": True}, "use_dora True is not supported; merge it with peft's merge_and_unload"),
    "QALoRA": ({"use_qalora": True}, "use_qalora True is not"),
    "tokens": ({"trainable_token_indices": [1]}, "trainable_token_indices [1] is not"),
    "parameters": ({"target_parameters": ["mlp"]}, "target_parameters ['mlp'] is not"),
    "replicated": ({"layer_replication": [[0, 1]]}, "layer_replication [[0, 1]] is not"),
    "aLoRA": ({"alora_invocation_tokens": [3]}, "alora_invocation_tokens [3] is not"),
    "of the future": ({"use_novel": True}, "use_novel True is not"),
    **{
        start: ({"init_lora_weights": start}, f"init_lora_weights '{start}' changes the base model")
        for start in ("pissa", "pissa_niter_4", "olora", "loftq", "corda")
    },
    "expression": ({"rank_pattern": {"(a|b)+": 3}}, "rank_pattern has the regular expression '(a|b)+', and"),
}
WRONG = {
    "rank": ({"r": 4}, "is of rank 3 and 3, but adapter_config.json says 4"),
    "no rank": ({"r": 0}, "r is 0, expected a whole number of at least 1"),
    "alpha": ({"lora_alpha": "x"}, "lora_alpha is 'x', expected a number"),
    "nan": ({"lora_alpha": math.nan}, "lora_alpha is nan, expected a number"),
    "bias": ({"bias": "some"}, "bias is 'some', expected none, all or lora_only"),
    "flag": ({"use_rslora": "no"}, "use_rslora is 'no', expected true or false"),
    "pattern": ({"alpha_pattern": [3]}, "alpha_pattern is [3], expected numbers by name"),
    "modules": ({"modules_to_save": "score"}, "modules_to_save is 'score', expected a list of names"),
    "targets": ({"target_modules": ["key"]}, "does not adapt 'encoder.layer.0.attention.self.query', for"),
    "excluded": (
        {"exclude_modules": ["query"]},
        "does not adapt 'encoder.layer.0.attention.self.query', for",
    ),
    "layers": ({"layers_to_transform": [0]}, "does not adapt 'encoder.layer.1.attention.self.query', for"),
    "not saved": ({"modules_to_save": ["pooler"]}, "lacks 'pooler.dense.bias', which modules_to_save names"),
    "B's bias": ({"lora_bias": True}, "are not those that adapter_config.json describes"),
}


@pytest.mark.parametrize(("kind", "config", "message"), [
    *((UnsupportedError, *case) for case in UNSUPPORTED.values()),
    *((CheckpointError, *case) for case in WRONG.values()),
], ids=[*UNSUPPORTED, *WRONG])  # fmt: skip
def test_configs_that_are_refused(kind, config, message, checkpoint_of, tmp_path):
    base = checkpoint_of("bert")
    tensors = lora(base, "query")
    adapter = tiny_adapter.write(tmp_path / "adapter", tensors)
    Merged(Checkpoint(base), adapter)
    tiny_adapter.write(adapter, tensors, **config)
    assert message in refusal(base, adapter, kind)


FIRST = "encoder.layer.0.attention.self.query"
TENSORS = {
    "another module": (
        lambda t: t.update({k.replace("query", "gate"): v for k, v in t.items()}),
        "is for another base model: it changes 'encoder.layer.0.attention.self.gate', which",
    ),
    "another width": (
        lambda t: t.update({f"{FIRST}.lora_B.weight": random(50, 3)}),
        f"is for another base model: it changes '{FIRST}.weight' by (50, 48), which is (48, 48)",
    ),
    "without B": (lambda t: t.pop(f"{FIRST}.lora_B.weight"), f"tensor '{FIRST}.lora_B.weight' is missing"),
    "a convolution": (
        lambda t: t.update({f"{FIRST}.lora_A.weight": random(3, 48, 1, 1)}),
        f"tensor '{FIRST}.lora_A.weight' is (3, 48, 1, 1); only matrices",
    ),
    "a magnitude": (
        lambda t: t.update({f"{FIRST}.lora_magnitude_vector": random(48)}),
        f"tensor '{FIRST}.lora_magnitude_vector' is not part of plain LoRA",
    ),
    "a tensor unnamed": (
        lambda t: t.update({"pooler.dense.weight": random(48, 48)}),
        "does not belong to a module that",
    ),
    "integers": (lambda t: t.update({f"{FIRST}.lora_A.weight": torch.ones(3, 48).int()}), "is I32 (3, 48)"),
    "nothing": (lambda t: t.clear(), "holds no LoRA matrices"),
    "one twice": (
        lambda t: t.update({f"{FIRST}.bias": random(48), f"{FIRST}.base_layer.bias": random(48)}),
        "appears twice",
    ),
}


@pytest.mark.parametrize(("change", "message"), TENSORS.values(), ids=TENSORS)
def test_tensors_that_are_refused(change, message, checkpoint_of, tmp_path):
    base = checkpoint_of("bert")
    tensors = lora(base, "query")
    change(tensors)
    assert message in refusal(base, tiny_adapter.write(tmp_path / "adapter", tensors))


def test_bases_and_files_that_are_refused(checkpoint_of, tmp_path):
    base = checkpoint_of("bert")
    adapter = tiny_adapter.write(tmp_path / "adapter", lora(base, "query"))
    message = refusal(checkpoint_of("llama"), adapter)
    assert "is for another base model: it changes 'encoder.layer.0" in message
    assert "has no adapter_config.json" in refusal(base, tmp_path / "nowhere")
    file = adapter / "adapter_model.safetensors"
    tensors = load_file(file)
    save_file({name.removeprefix("base_model.model."): t for name, t in tensors.items()}, file)
    assert "does not begin with peft's prefix base_model.model." in refusal(base, adapter)
    file.write_bytes(file.read_bytes()[:-1])
    assert "is truncated" in refusal(base, adapter)
    file.unlink()
    assert "has no adapter_model.safetensors or adapter_model.bin" in refusal(base, adapter)


def test_overflow_is_told_by_name(checkpoint_of, tmp_path):
    base = checkpoint_of("llama")
    tensors = {name: tensor * 1e25 for name, tensor in lora(base, "q_proj").items()}
    adapter = tiny_adapter.write(tmp_path / "adapter", tensors)
    with pytest.raises(CheckpointError, match=r"q_proj\.weight', which fills .* holds NaN or infinity"):
        export(base, tmp_path / "out", adapter=adapter)


def test_modules_to_save_are_named_by_their_ends_as_peft_does(checkpoint_of, tmp_path):
    """ "norm" is Llama's last norm, and every input_layernorm and post_attention_layernorm."""
    base = checkpoint_of("llama")
    before = Checkpoint(base)
    norms = {name: before.read(name) for name in before.tensors if name.endswith("norm.weight")}
    assert len(norms) == 5
    whole = {name: torch.from_numpy(value) + 0.5 for name, value in norms.items()}
    config = {"target_modules": ["q_proj"], "modules_to_save": ["norm"]}
    adapter = tiny_adapter.write(tmp_path / "adapter", lora(base, "q_proj") | whole, **config)
    after = Merged(Checkpoint(base), adapter)
    for name in norms:
        assert np.array_equal(after.read(name), whole[name].numpy())
    export(base, tmp_path / "out", adapter=adapter, only="native")
    assert verify(tmp_path / "out", cases="quick").ok
    del whole["model.layers.1.input_layernorm.weight"]
    short = tiny_adapter.write(tmp_path / "short", lora(base, "q_proj") | whole, **config)
    assert "lacks 'model.layers.1.input_layernorm.weight', which modules_to_save names" in refusal(
        base, short
    )


@pytest.mark.parametrize("way", ["whole", "lora"])
def test_a_vocabulary_that_was_resized_is_told_with_the_way_out(checkpoint_of, tmp_path, way):
    base = checkpoint_of("llama")
    words, width = Checkpoint(base).tensors["lm_head.weight"].shape
    tensors = lora(base, "q_proj")
    if way == "whole":
        tensors |= {
            name: random(words + 8, width) for name in ("model.embed_tokens.weight", "lm_head.weight")
        }
    else:
        tensors |= {"lm_head.lora_A.weight": random(3, width), "lm_head.lora_B.weight": random(words + 8, 3)}
    adapter = tiny_adapter.write(tmp_path / "adapter", tensors, target_modules=["q_proj", "lm_head"])
    told = refusal(base, adapter, UnsupportedError)
    assert f"has {words + 8} tokens, and that of {base} {words}" in told
    assert f"resize the base (resize_token_embeddings({words + 8})), merge the adapter with peft's" in told
