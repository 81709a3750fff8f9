"""Bundles that are right, of checkpoints at the edge of what there is: verify says so."""

import json
import random
import shutil
import warnings
from pathlib import Path

import numpy as np
import pytest
import tiny_adapter
import tiny_checkpoint
import tiny_gguf
import torch
from safetensors.numpy import load_file, save_file

import txexport
from txexport.checkpoints import transformers_loading
from txexport.spec import DecoderSpec, ModelSpec
from txexport.spec.serialization import from_dict
from txexport.verification import verify, verify_plan
from txexport.verification.cases import plan
from txexport.verification.checks import TIED
from txexport.verification.references.selection import originals_of
from txexport.verification.reports.facts import facts_line
from txexport.verification.reports.views import behaviours

SCALINGS = {
    "linear": {"rope_type": "linear", "factor": 2.0},
    "yarn": {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 16},
}


@pytest.fixture
def own_originals(monkeypatch):
    """Originals made anew, as a user's are."""
    monkeypatch.setattr(verify_plan, "originals_of", originals_of)


def edited(source: Path, out: Path, take: tuple[str, ...] = (), **values: object) -> Path:
    """A checkpoint with other values in its config.json, and without those in `take`."""
    shutil.copytree(source, out)
    config = json.loads((out / "config.json").read_text())
    config = {name: value for name, value in config.items() if name not in take} | values
    (out / "config.json").write_text(json.dumps(config))
    return out


@pytest.mark.parametrize("kind", SCALINGS)
def test_gguf_with_scaled_positions(kind, tmp_path, own_originals):
    tiny_checkpoint.save(tmp_path / "original", "llama", rope_parameters=SCALINGS[kind] | {"rope_theta": 1e4})
    file = tiny_gguf.convert(tmp_path / "original", tmp_path / "model.gguf")
    txexport.export(file, tmp_path / "out", only="native")
    report = verify(tmp_path / "out", cases="quick")
    assert report.ok
    assert report.references == ["checkpoint", "twin", "transformers"]


def test_a_classifier_adapter_over_a_base_with_rope_scaling(checkpoint_of, tmp_path, own_originals):
    """In transformers 4's spelling, into whose table the library writes the theta."""
    scaling = {"type": "linear", "factor": 2.0}
    base = edited(
        checkpoint_of("llama"), tmp_path / "base", ("rope_parameters",), rope_scaling=scaling, rope_theta=1e4
    )
    width = json.loads((base / "config.json").read_text())["hidden_size"]
    tensors = tiny_adapter.lora(base, "q_proj") | {"score.weight": tiny_adapter.random(3, width)}
    adapter = tiny_adapter.write(
        tmp_path / "adapter",
        tensors,
        task_type="SEQ_CLS",
        modules_to_save=["score"],
        target_modules=["q_proj"],
    )
    txexport.export(base, tmp_path / "out", adapter=adapter, only="native")
    assert verify(tmp_path / "out", cases="quick", reference="transformers").ok


def test_what_transformers_makes_of_a_config_leaves_it_as_it_was():
    values = {"model_type": "llama", "rope_scaling": {"type": "linear", "factor": 2.0}, "rope_theta": 5.0}
    before = json.dumps(values)
    transformers_loading.config_of(values)
    assert json.dumps(values) == before


def with_gates(source: Path, out: Path, alter) -> Path:
    """A checkpoint with other routers: `alter` changes an array in place."""
    shutil.copytree(source, out)
    tensors = {name: array.copy() for name, array in load_file(out / "model.safetensors").items()}
    gates = [name for name in tensors if name.endswith((".gate.weight", ".router.weight"))]
    assert gates
    for name in gates:
        alter(tensors[name])
    save_file(tensors, out / "model.safetensors", {"format": "pt"})
    return out


def zero(gate: np.ndarray) -> None:
    """Every expert is as good as every other."""
    gate[:] = 0


def alike(gate: np.ndarray) -> None:
    """All experts but the first are as good as each other."""
    gate[2:] = gate[1]


@pytest.mark.parametrize("alter", [zero, alike])
@pytest.mark.parametrize("model_type", ["mixtral", "qwen3_moe", "deepseek_v3"])
def test_ties_of_a_router_are_named(model_type, alter, checkpoint_of, tmp_path, own_originals):
    source = with_gates(checkpoint_of(model_type), tmp_path / "source", alter)
    txexport.export(source, tmp_path / "out", only="native")
    report = verify(tmp_path / "out", cases="quick")
    assert report.ok, facts_line(report)
    tied = behaviours(report).get(TIED)
    if tied is not None:  # the library may have taken what ONNX takes
        assert tied.ties
        assert tied.equal + tied.ties == tied.chosen
        assert f"and {tied.ties} ties" in tied.summary


def test_a_tie_excuses_no_other_number(checkpoint_of, tmp_path, own_originals, monkeypatch):
    """Experts of which all are a tie, and one weight that is wrong in the original."""
    source = with_gates(checkpoint_of("mixtral"), tmp_path / "source", zero)
    txexport.export(source, tmp_path / "out", only="native")

    def wrong(kinds, checkpoint, resolved, outputs):
        made = originals_of(kinds, checkpoint, resolved, outputs)
        with torch.no_grad():
            next(made["transformers"].model.parameters())[:] += 0.01
        return made

    monkeypatch.setattr(verify_plan, "originals_of", wrong)
    report = verify(tmp_path / "out", cases="quick", reference="transformers")
    assert not report.ok
    assert TIED not in behaviours(report)


def test_experts_that_are_no_tie_are_no_excuse(checkpoint_of, tmp_path, own_originals, monkeypatch):
    """A router that takes the worst of its experts."""
    txexport.export(checkpoint_of("mixtral"), tmp_path / "out", only="native")

    def wrong(kinds, checkpoint, resolved, outputs):
        made = originals_of(kinds, checkpoint, resolved, outputs)
        with torch.no_grad():
            for name, parameter in made["transformers"].model.named_parameters():
                if name.endswith(".gate.weight"):
                    parameter.neg_()
        return made

    monkeypatch.setattr(verify_plan, "originals_of", wrong)
    report = verify(tmp_path / "out", cases="quick", reference="transformers")
    assert not report.ok
    assert TIED not in behaviours(report)


def modes() -> tuple:
    """What of PyTorch, NumPy and Python a training script shares with whatever it calls."""
    return (
        random.getstate(),
        [str(part) for part in np.random.get_state()],
        np.geterr(),
        torch.random.get_rng_state().tolist(),
        torch.get_default_dtype(),
        torch.get_default_device(),
        torch.is_grad_enabled(),
        torch.get_num_threads(),
        torch.get_float32_matmul_precision(),
        torch.is_autocast_enabled("cpu"),
    )


def test_a_process_goes_on_as_before(bundle_of, own_originals):
    """Also one whose own modes would change the numbers of an original."""
    torch.manual_seed(5)
    out = bundle_of("bert")
    before = modes()
    assert verify(out, cases="quick").ok
    assert modes() == before
    try:
        torch.set_default_dtype(torch.float64)
        torch.set_default_device("meta")
        torch.set_float32_matmul_precision("medium")
        with np.errstate(all="raise"), torch.no_grad(), torch.autocast("cpu"):
            before = modes()
            assert verify(out, cases="quick").ok
            assert modes() == before
            assert txexport.verification.compare(out, out, cases="quick").ok
            assert modes() == before
    finally:
        torch.set_default_dtype(torch.float32)
        torch.set_default_device("cpu")
        torch.set_float32_matmul_precision("highest")


@pytest.mark.parametrize(("model_type", "architecture"), [("llama", None), ("t5", None), ("bert", None)])
def test_a_vocabulary_of_one(model_type, architecture, tmp_path, own_originals):
    ids = {"bos_token_id": 0, "pad_token_id": 0, "eos_token_id": None, "decoder_start_token_id": 0}
    tiny_checkpoint.save(tmp_path / "source", model_type, architecture, vocab_size=1, **ids)
    txexport.export(tmp_path / "source", tmp_path / "out")
    report = verify(tmp_path / "out")
    assert report.ok, facts_line(report)
    [why] = {case.skipped for case in report.cases if case.name == "beams, two rows"} or {None}
    assert why in (None, "a vocabulary of one token makes no two beams")


@pytest.mark.parametrize("positions", [1, 2, 6, 9, 12])
@pytest.mark.parametrize("model_type", ["bart", "marian", "gpt2", "llama"])
def test_few_positions_are_not_overrun(model_type, positions, tmp_path, own_originals):
    key = "n_positions" if model_type == "gpt2" else "max_position_embeddings"
    tiny_checkpoint.save(tmp_path / "source", model_type, **{key: positions})
    manifest = txexport.export(tmp_path / "source", tmp_path / "out")
    report = verify(tmp_path / "out", reference="twin")
    assert report.ok, facts_line(report)
    for case in plan.plan(from_dict(ModelSpec, manifest.spec), static=True):
        for source in getattr(case.case, "sources", None) or []:
            assert len(source) <= positions
    decoded = isinstance(from_dict(ModelSpec, manifest.spec), DecoderSpec)
    assert (positions > 1) == any(case.name.startswith("greedy") for case in report.cases) or not decoded


@pytest.mark.parametrize("theta", [5e5, 1e4])
def test_one_theta_for_both_kinds_of_layers_is_told(theta, checkpoint_of, tmp_path, own_originals):
    """transformers 4 wrote OLMo 3 so; transformers 5 reads 500000 for layers with a window."""
    source = edited(checkpoint_of("olmo3"), tmp_path / "source", ("rope_parameters",), rope_theta=theta)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        txexport.export(source, tmp_path / "out", only="native")
    said = [str(one.message) for one in told if "rope_theta" in str(one.message)]
    report = verify(tmp_path / "out", cases="quick")
    assert report.ok, facts_line(report)
    if theta == 5e5:
        assert (said, report.notes) == ([], [])
    else:
        [note] = said
        assert note.startswith("rope_theta 10000 is taken for layers with a window too")
        assert report.notes == [note]
        assert note in facts_line(report)


@pytest.mark.parametrize("kind", ["yarn", "linear"])
def test_one_theta_beside_a_scaling_is_told(kind, checkpoint_of, tmp_path, own_originals):
    """The scaling is that of layers without a window, whose table transformers 5 expects to be there."""
    scaling = {"rope_type": kind, "factor": 4.0, "original_max_position_embeddings": 12}
    if kind == "linear":
        del scaling["original_max_position_embeddings"]
    source = edited(
        checkpoint_of("olmo3"),
        tmp_path / "source",
        ("rope_parameters",),
        rope_theta=1e4,
        rope_scaling=scaling,
    )
    with pytest.warns(UserWarning, match="rope_theta 10000 is taken for layers with a window too"):
        txexport.export(source, tmp_path / "out", only="native")
    report = verify(tmp_path / "out", cases="quick")
    assert report.ok, facts_line(report)
