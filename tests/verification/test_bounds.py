"""Error bounds: if these fail, a wrong model is called equal, or a right one is not."""

import dataclasses
import shutil

import numpy as np
import onnx
import pytest
import tiny_checkpoint
import torch
from click.testing import CliRunner
from helpers.bundle_edits import graph_path, stored, tamper
from helpers.mutations_of_families import halved_slopes
from onnx import helper
from safetensors.torch import load_file, save_file

from txexport import bundle, families
from txexport.checkpoints.checkpoint import Checkpoint
from txexport.cli.main import main
from txexport.contracts.meaning import HIDDEN
from txexport.exporter import export
from txexport.runtime.loaded_bundle import open_bundle
from txexport.verification import bounds, verify
from txexport.verification.agreement import behaviour
from txexport.verification.bounds import MOST, MOST_OF_SCALAR, RELATIVE, ROUNDINGS, bound, largest_error
from txexport.verification.cases import plan
from txexport.verification.cases.graph_runner import runner_of
from txexport.verification.checks import HUB, NATIVE, check_of
from txexport.verification.judgement import judge
from txexport.verification.references.originals import Twin
from txexport.verification.reports.facts import facts_line

CONTENTS = {"checkpoint"}
LONGEST = ["longest sequence, one step from its end", "longest sequence in two chunks"]


def changed(folder, change) -> None:
    """A checkpoint whose tensors `change` has changed."""
    weights = load_file(folder / "model.safetensors")
    change(weights)
    save_file(
        {name: w.contiguous() for name, w in weights.items()}, folder / "model.safetensors", {"format": "pt"}
    )


def of_cases(report) -> list:
    return [case for case in report.failed if case.reference not in CONTENTS]


@pytest.mark.parametrize("factor", [1e-6, 1.0, 1e6])
def test_error_is_in_the_tensor_s_own_size(factor):
    random = np.random.default_rng(0)
    truth = factor * random.standard_normal((3, 40))
    assert largest_error(truth + factor * 2e-5, truth) > RELATIVE
    assert largest_error(truth + factor * 2e-6, truth) < RELATIVE
    assert largest_error(-truth, truth) > 1


def test_large_numbers_hide_nothing_in_other_vectors_nor_much_in_their_own():
    truth = np.ones((2, 100))
    truth[0] = 1e6
    off = truth.copy()
    off[1, 3] += 1e-4
    assert largest_error(off, truth) == pytest.approx(1e-4)
    truth = np.ones((1, 100))
    for outlier in (1000.0, -1e9, -np.inf):  # as transformers have them in vectors, and as masks of scores
        truth[0, 0] = outlier
        off = truth.copy()
        off[0, 3] += 1e-4
        assert largest_error(off, truth) > 0.9e-4
    off[0, 0] = 5.0
    assert largest_error(off, truth) == np.inf


@pytest.mark.parametrize("long", [1, 2, 7, 48, 700])
def test_outliers_are_told_from_a_median_to_the_bit(long):
    random = np.random.default_rng(long)
    numbers = random.standard_normal((60, long))
    counts = random.random((60, long)) < np.linspace(0.1, 1, 60)[:, None]
    counts[:, 0] = True
    expected = np.nanmedian(np.where(counts, numbers, np.nan), axis=-1, keepdims=True)
    assert np.array_equal(bounds._median(numbers, counts), expected)
    assert not bounds._median(numbers, np.zeros_like(counts)).any()


@pytest.mark.parametrize(
    ("found", "expected", "error"),
    [
        (np.zeros(3), np.zeros(3), 0.0),
        (np.array([0, 1e-9, 0]), np.zeros(3), np.inf),
        (np.array([[1, 1], [0, 1e-20]]), np.array([[1, 1], [0, 0]]), 1e-20 / (0.5 * 2**-23)),
        (np.array([1.0, np.nan]), np.array([1.0, np.nan]), np.inf),
        (np.array([np.inf, 1]), np.array([np.inf, 1]), 0.0),
        (np.array([1.1]), np.array([1.0]), 0.1),
        (np.ones((1, 3)), np.ones(3), np.inf),
        (np.ones((0, 3)), np.ones((0, 3)), 0.0),
    ],
)
def test_zeros_and_numbers_that_are_none(found, expected, error):
    assert largest_error(found, expected) == pytest.approx(error)


def test_rule():
    assert bound(RELATIVE, None) == RELATIVE
    assert bound(RELATIVE, 1e-7) == RELATIVE
    assert bound(RELATIVE, 1e-4) == ROUNDINGS * 1e-4
    assert bound(RELATIVE, 1.0) == MOST
    assert bound(RELATIVE, 0.01, scalar=True) == ROUNDINGS * 0.01
    assert bound(RELATIVE, 1.0, scalar=True) == MOST_OF_SCALAR
    assert bound(RELATIVE, np.inf) == RELATIVE


def test_opposite_vectors_are_never_equal_whatever_the_bound(bundle_of):
    truth = np.ones((2, 4), np.float32)
    said = behaviour(HIDDEN, [(-truth, truth)], 10.0)
    assert not said.ok
    check = check_of("last_hidden_state", [(-truth, truth)], 10.0)
    assert check.ok  # by its numbers alone


@pytest.fixture(scope="module")
def faint(tmp_path_factory):
    """A GPT-2 whose logits are of some 1e-7, and its bundle."""
    folder = tmp_path_factory.mktemp("faint")
    tiny_checkpoint.save(folder / "checkpoint", "gpt2")

    def shrink(weights):
        for name in ("transformer.ln_f.weight", "transformer.ln_f.bias"):
            weights[name] *= 1e-6

    changed(folder / "checkpoint", shrink)
    export(folder / "checkpoint", folder / "bundle", absolute_source=True)
    return folder


def test_tiny_outputs_are_held_as_tightly_as_large_ones(faint, tmp_path):
    assert verify(faint / "bundle", cases="quick").ok
    folder = shutil.copytree(faint / "bundle", tmp_path / "bundle")
    model = onnx.load(graph_path(folder), load_external_data=False)
    last = next(node for node in model.graph.node if "logits" in node.output)
    last.output[list(last.output).index("logits")] = "upright"
    model.graph.node.append(helper.make_node("Neg", ["upright"], ["logits"]))
    onnx.save(model, graph_path(folder))
    failed = of_cases(verify(folder, cases=["one token, then steps", "greedy, three ragged rows"]))
    assert {case.reference for case in failed} == {"twin", "transformers"}
    assert len(failed) == 4


def test_huge_key_biases_raise_no_false_alarm(tmp_path):
    """Float32 loses digits in scores of some hundreds: the original is as far from its own float64."""
    tiny_checkpoint.save(tmp_path / "checkpoint", "qwen2", num_hidden_layers=4)

    def bias(weights):
        for name in weights:
            if name.endswith("k_proj.bias"):
                weights[name] = 300 * torch.sign(weights[name])

    changed(tmp_path / "checkpoint", bias)
    export(tmp_path / "checkpoint", tmp_path / "bundle")
    report = verify(tmp_path / "bundle", cases="quick")
    assert of_cases(report) == []
    beyond = [c for case in report.cases for c in case.checks if c.error > RELATIVE]
    assert beyond, "the biases are not huge enough to need the rule"
    assert all(check.error <= check.tolerance for check in beyond)
    assert all(check.tolerance == min(ROUNDINGS * check.rounding, MOST) for check in beyond)
    folder = shutil.copytree(tmp_path / "bundle", tmp_path / "wrong")
    tamper(folder, "decoder.layers.1.attention.v.weight", lambda numbers: 1.05 * numbers)
    assert of_cases(verify(folder, cases="quick"))


def test_float64_is_computed_only_where_it_can_matter(checkpoint_of, bundle_of, tmp_path):
    checkpoint = Checkpoint(checkpoint_of("bert"))
    resolved = families.resolve(checkpoint, None)
    twin, asked = Twin(checkpoint, resolved), []
    real = twin.in_float64
    twin.in_float64 = lambda: (asked.append(1), real())[1]
    [case] = [case for case in plan.plan(resolved.spec, static=False) if case.name == "two equal rows"]
    for relative, times in ((RELATIVE, 0), (1e-12, 1)):
        checks = judge(case.run, runner_of(open_bundle(bundle_of("bert"))), twin, case.case, relative)
        assert len(asked) == times
        assert all(check.ok for check in checks)
    folder = shutil.copytree(bundle_of("bert"), tmp_path / "bundle")
    tamper(folder, "encoder.layers.1.feed_forward.up.weight", lambda numbers: 2 * numbers)
    checks = judge(case.run, runner_of(open_bundle(folder, check=False)), twin, case.case, RELATIVE)
    assert len(asked) == 1
    assert not any(check.ok for check in checks)
    assert twin.model.encoder.embedding.word.weight.dtype == torch.float32


def test_rounding_is_not_what_one_processor_happens_to_lose(checkpoint_of, bundle_of):
    """A float32 that is exact by chance makes no bound tighter than numbers off by a last bit allow."""

    class Lucky(Twin):
        def encode(self, inputs):
            if torch.get_default_dtype() == torch.float64:
                return super().encode(inputs)
            with self.in_float64():
                return super().encode(inputs)

    checkpoint = Checkpoint(checkpoint_of("bert"))
    resolved = families.resolve(checkpoint, None)
    [case] = [case for case in plan.plan(resolved.spec, static=False) if case.name == "two equal rows"]
    runner = runner_of(open_bundle(bundle_of("bert")))
    rounding = {}
    for kind in (Twin, Lucky):
        reference = kind(checkpoint, resolved)
        before = {name: numbers.clone() for name, numbers in reference.model.state_dict().items()}
        checks = judge(case.run, runner, reference, case.case, 1e-12)
        assert all(check.ok for check in checks)
        rounding[kind] = max(check.rounding for check in checks)
        after = reference.model.state_dict()
        assert all(torch.equal(numbers, after[name]) for name, numbers in before.items())
        assert torch.get_default_dtype() == torch.float32
    assert 1e-8 < rounding[Lucky] < RELATIVE
    assert 0.5 < rounding[Lucky] / rounding[Twin] < 2


def test_every_expert_is_at_work_in_some_case(tmp_path):
    """One expert of 32 whose gate and up are exchanged passed when a few tokens were all that was tried."""
    tiny_checkpoint.save(tmp_path / "checkpoint", "mixtral", num_local_experts=32)
    export(tmp_path / "checkpoint", tmp_path / "bundle")
    full = verify(tmp_path / "bundle", reference="twin")
    assert full.ok
    assert full.reach["experts"] == (64, 64)
    assert "64 of 64 experts" in facts_line(full)
    few = verify(tmp_path / "bundle", reference="twin", cases=["one token, then steps"])
    assert few.reach["experts"][0] < 64
    for number in (3, 31):
        weights = stored(tmp_path / "bundle")
        names = [f"decoder.layers.1.feed_forward.experts.{number}.{part}.weight" for part in ("gate", "up")]
        gate, up = (weights[name] for name in names)
        folder = shutil.copytree(tmp_path / "bundle", tmp_path / f"wrong{number}")
        tamper(folder, names[0], lambda _, up=up: up)
        tamper(folder, names[1], lambda _, gate=gate: gate)
        assert of_cases(verify(folder, reference="twin", cases=["every expert"]))


def test_cases_reach_the_limit_and_batches_of_nine(tmp_path, long_cases):
    tiny_checkpoint.save(tmp_path / "checkpoint", "gpt2", n_positions=1100)
    export(tmp_path / "checkpoint", tmp_path / "bundle")
    cases = [*LONGEST, "nine rows, then a step"]
    report = verify(tmp_path / "bundle", reference="twin", cases=cases)
    assert report.ok
    assert report.reach == {"rows": (9, None), "tokens": (1100, 1100)}
    assert facts_line(report).endswith("; up to 9 rows, 1,100 of 1,100 tokens")
    tamper(tmp_path / "bundle", "decoder.embedding.position.weight", _last_row_negated)
    failed = of_cases(verify(tmp_path / "bundle", reference="twin", cases=cases))
    assert [(case.graphs, case.name) for case in failed] == [
        (graphs, name) for graphs in (NATIVE, HUB) for name in LONGEST
    ]


def _last_row_negated(numbers):
    numbers[-1] *= -1
    return numbers


def test_what_is_out_of_reach_is_told(tmp_path, long_cases, monkeypatch):
    tiny_checkpoint.save(tmp_path / "checkpoint", "llama", max_position_embeddings=100_000)
    export(tmp_path / "checkpoint", tmp_path / "bundle")
    monkeypatch.setattr(plan, "SCORES", 4 * 6 * 3000**2)
    report = verify(tmp_path / "bundle", reference="twin", cases=["longest sequence in two chunks"])
    assert report.reach["tokens"] == (
        1562,
        100_000,
    )  # 1024 or more of which the scores have room: 100,000 / 64
    assert "1,562 of 100,000 tokens" in facts_line(report)


@pytest.mark.parametrize("family", ["bert", "vit", "clip", "t5"])
def test_batches_of_nine_are_tried(family, bundle_of):
    report = verify(bundle_of(family), reference="twin")
    assert report.reach["rows"] == (9, None)
    assert report.ok


def test_layers_that_say_otherwise_are_in_the_headline(bundle_of, tmp_path):
    """A wrong component of which no output shows anything, and wrong outputs of components that are right."""
    folder = shutil.copytree(bundle_of("bert"), tmp_path / "bundle")
    report = verify(folder, reference="twin", cases=["two equal rows"], layers=True)
    assert "yet" not in facts_line(report)
    wrong = [*report.layers.checks]
    wrong[0] = dataclasses.replace(wrong[0], error=1.0)
    odd = dataclasses.replace(report, layers=dataclasses.replace(report.layers, checks=wrong))
    assert odd.ok
    assert facts_line(odd).endswith("; yet components are beyond their budget alone")
    broken = dataclasses.replace(report.cases[0], exception="E")
    odd = dataclasses.replace(report, cases=[broken])
    assert facts_line(odd).endswith("; yet each component by itself is within its budget")


def test_ends_that_a_small_vocabulary_does_not_have(tmp_path):
    """A GPT-2 of 97 words whose config.json leaves the library's end, 50,256, is right all the same."""
    tiny_checkpoint.save(tmp_path / "checkpoint", "gpt2", vocab_size=97, eos_token_id=50256)
    export(tmp_path / "checkpoint", tmp_path / "bundle")
    arguments = ["verify", str(tmp_path / "bundle"), "--quiet"]
    result = CliRunner().invoke(main, arguments)
    assert result.exit_code == 0, result.output
    proof = bundle.read(tmp_path / "bundle").proof
    assert (proof.verdict, proof.failed, proof.references) == ("equal", 0, ["twin", "transformers"])
    tamper(tmp_path / "bundle", "decoder.final_norm.bias", lambda numbers: numbers + 0.01)
    assert CliRunner().invoke(main, arguments).exit_code == 1


def test_distances_of_a_thousand_tokens_are_no_false_alarm(tmp_path, long_cases):
    """MPT adds up to 1,023 slopes to a score, which costs float32 digits: in the original as much as here."""
    tiny_checkpoint.save(tmp_path / "checkpoint", "mpt", max_seq_len=1024)
    export(tmp_path / "checkpoint", tmp_path / "bundle")
    report = verify(tmp_path / "bundle", reference="transformers", cases=LONGEST)
    assert report.ok
    assert report.reach["tokens"] == (1024, 1024)
    beyond = [check for case in report.cases for check in case.checks if check.error > RELATIVE]
    assert beyond, "the distances are not long enough to need the rule"
    assert all(check.error <= check.tolerance for check in beyond)
    assert all(check.tolerance == min(ROUNDINGS * check.rounding, MOST) for check in beyond)
    model = onnx.load(graph_path(tmp_path / "bundle"), load_external_data=False)
    halved_slopes(model)
    onnx.save(model, graph_path(tmp_path / "bundle"))
    failed = of_cases(verify(tmp_path / "bundle", reference="transformers", cases=LONGEST))
    assert [case.name for case in failed] == LONGEST
