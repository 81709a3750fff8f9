"""verify's checks beside the tensors: labels, ranks, directions, tokens of greedy and beam search."""

import json
import shutil

import numpy as np
import pytest
from click.testing import CliRunner
from helpers.bundle_edits import tamper
from helpers.reports import SCHEMA, valid
from safetensors.numpy import load_file, save_file

from txexport import families
from txexport.checkpoints.checkpoint import Checkpoint
from txexport.cli.main import main
from txexport.contracts.meaning import HIDDEN, NUMBERS, SCORES, UNKNOWN, VECTOR, Kind, Meaning, meaning_of
from txexport.exporter import export
from txexport.parts.cases import greedy_cases
from txexport.runtime.generation import kv_cache
from txexport.runtime.loaded_bundle import open_bundle
from txexport.verification import CaseReport, TensorCheck, verify
from txexport.verification.agreement import Behaviour, behaviour, best_of
from txexport.verification.cases.beam_search import run_beams
from txexport.verification.cases.graph_runner import runner_of
from txexport.verification.judgement import judge
from txexport.verification.references.originals import Twin

BEAMS = "beams, two rows"


def test_choices_are_counted_and_ties_told_apart():
    truth = np.array([[1.0, 3.0, 2.0], [0.5, 0.500004, 0.1], [4.0, 1.0, 0.0]])
    found = np.array([[1.0, 3.0, 2.0], [0.500001, 0.5, 0.1], [0.9, 1.0, 0.0]])
    said = behaviour(SCORES, [(found, truth)], 1e-5)
    assert said == Behaviour(chosen=3, equal=1, ties=1, ranked=9, places=5)
    assert said.summary == "1 of 3 choices equal and 1 ties, 5 of 9 best ranks"
    assert not said.ok
    assert behaviour(SCORES, [(found[:2], truth[:2])], 1e-5).ok
    assert not behaviour(SCORES, [(found[:2], truth[:2])], 1e-6).ok


@pytest.mark.parametrize("count", [1, 3, 10, 50])
def test_the_best_are_those_of_a_stable_sort(count):
    """Of ties the lower place first, and what is no number last."""
    random = np.random.default_rng(count)
    rows = random.integers(0, 6, (40, 50)).astype(np.float32) / 3 - 1  # full of ties
    rows[3], rows[4, ::2], rows[5] = 0, -np.inf, np.inf
    for scores in (rows, np.where(random.random(rows.shape) < 0.1, np.nan, rows)):
        expected = np.argsort(-scores, axis=1, kind="stable")[:, :count]
        assert np.array_equal(best_of(scores, count), expected)


def test_only_the_best_ten_are_ranked():
    truth = np.arange(50.0)[None]
    found = truth.copy()
    found[0, :40] = found[0, 39::-1]
    said = behaviour(SCORES, [(found, truth)], 1e-5)
    assert (said.ranked, said.places) == (10, 10)


def test_smallest_cosine_counts():
    truth = np.array([[[1.0, 0.0], [0.0, 2.0], [0.0, 0.0]]])
    found = np.array([[[5.0, 0.0], [2.0, 2.0], [0.0, 0.0]]])
    said = behaviour(HIDDEN, [(truth, truth), (found, truth)], 1e-5)
    assert said.cosine == pytest.approx(2**-0.5)
    assert (said.chosen, said.ok) == (0, True)
    assert behaviour(VECTOR, [(np.full((1, 2), np.nan), truth[0, :1])], 1e-5).cosine == -1


def test_caches_and_single_scores_say_nothing():
    array = np.ones((2, 3, 4, 5))
    assert behaviour(NUMBERS, [(array, array)], 1e-5) is None
    assert behaviour(SCORES, [(np.ones((3, 1)), np.ones((3, 1)))], 1e-5) is None
    assert behaviour(SCORES, [(np.ones((3, 2)), np.ones((2, 2)))], 1e-5) is None


def test_scores_are_ranked_along_their_own_axis():
    """Labels of each place of an image (B,labels,H,W): not columns of the image."""
    scores = np.random.default_rng(0).normal(size=(2, 5, 3, 4))
    agreement = behaviour(Meaning(Kind.SCORES, axis=-3), [(scores, scores)], 1e-5)
    assert (agreement.chosen, agreement.equal, agreement.ranked) == (2 * 3 * 4, 2 * 3 * 4, 2 * 3 * 4 * 5)
    other = scores.copy()
    best = scores[0, :, 1, 2].argmax()
    other[0, best, 1, 2] -= 10
    agreement = behaviour(Meaning(Kind.SCORES, axis=-3), [(other, scores)], 1e-5)
    assert (agreement.chosen, agreement.equal, agreement.ok) == (24, 23, False)


def test_outputs_of_unknown_meaning_are_never_ranked():
    """Masks whose name says logits: another best column is no other choice; the cosine is the tensor's."""
    masks = np.ones((1, 2, 3, 4))
    found = masks.copy()
    found[..., 1] += 1e-9
    meaning = meaning_of("mask_logits")
    assert meaning == UNKNOWN
    agreement = behaviour(meaning, [(found, masks)], 1e-12)
    assert (agreement.chosen, agreement.ranked, agreement.ok) == (0, 0, True)
    assert agreement.cosine == pytest.approx(1)
    masks[0, 0, 0] = -found[0, 0, 0]  # one row that points the other way, of six
    assert behaviour(meaning, [(found, masks)], 1e-12).cosine == pytest.approx(2 / 3)


@pytest.mark.parametrize(
    ("output", "meaning"),
    [
        ("logits", SCORES),
        ("end_logits", SCORES),
        ("logits_per_image", SCORES),
        ("image_embeds", VECTOR),
        ("last_hidden_state", HIDDEN),
        ("decoder_hidden_states.3", HIDDEN),
        ("cross_attentions.0", NUMBERS),
        ("present.1.decoder.key", NUMBERS),
        ("pred_boxes", UNKNOWN),
        ("logits_of_masks", UNKNOWN),
    ],
)
def test_the_name_of_an_output_tells_its_meaning(output, meaning):
    assert meaning_of(output) == meaning


def test_another_choice_is_a_failure_though_the_numbers_are_near():
    check = TensorCheck("logits", 3, 1e-6, 1e-5, behaviour=Behaviour(chosen=2, equal=1))
    case = CaseReport("c", "twin", [TensorCheck("y", 3, 5e-6, 1e-5), check])
    assert not case.ok
    assert case.summary == "logits: 1 of 2 choices equal"


@pytest.mark.parametrize(
    ("model_type", "kind"), [("gpt2", "static"), ("llama", "dynamic"), ("bart", "static")]
)
def test_beams_are_equal_to_both_originals(model_type, kind, bundle_of):
    report = verify(bundle_of(model_type, kind), cases=[BEAMS])
    assert report.ok
    assert report.references == ["twin", "transformers"]
    for case in report.cases:
        tokens = case.checks[1]
        assert (tokens.output, tokens.elements, tokens.error) == ("beam tokens", 8, 0.0)
        assert tokens.behaviour == Behaviour(chosen=8, equal=8)


@pytest.mark.parametrize(
    ("kind", "owner"), [("static", kv_cache.StaticCache), ("dynamic", kv_cache.DynamicCache)]
)
def test_beams_over_caches_that_do_not_follow_them_are_caught(kind, owner, bundle_of, monkeypatch):
    monkeypatch.setattr(owner, "reorder", lambda self, rows: None)
    report = verify(bundle_of("gpt2", kind), reference="twin", cases=[BEAMS])
    assert not report.ok
    assert [check.output for check in report.failed[0].checks if not check.ok][:1] == ["beam scores"]


def test_beams_of_another_model_are_caught(bundle_of, tmp_path):
    folder = shutil.copytree(bundle_of("gpt2", "static"), tmp_path / "bundle")
    tamper(folder, "decoder.layers.1.feed_forward.up.weight", lambda numbers: numbers * 1.05)
    [case] = verify(folder, reference="twin", cases=[BEAMS]).failed
    assert {check.output for check in case.checks if not check.ok} >= {"beam scores"}


class Noisy:
    """A reference with rounding of its own."""

    def __init__(self, twin: Twin, size: float):
        self.twin, self.size, self.random = twin, size, np.random.default_rng(0)

    def decode(self, tokens, source, prompt=None):
        found = self.twin.decode(tokens, source, prompt)
        noise = self.random.normal(size=found["logits"].shape)
        return found | {"logits": found["logits"] + self.size * noise}


def test_beams_through_a_tie_are_no_failure(checkpoint_of, tmp_path):
    """Words that the model cannot tell apart: which of two goes on is a matter of rounding."""
    shutil.copytree(checkpoint_of("gpt2"), tmp_path / "twins")
    weights = load_file(tmp_path / "twins" / "model.safetensors")
    words = weights["transformer.wte.weight"]
    words[1:310:2] = words[0:309:2]
    save_file(weights, tmp_path / "twins" / "model.safetensors", {"format": "pt"})
    export(tmp_path / "twins", tmp_path / "out")
    runner, checkpoint = runner_of(open_bundle(tmp_path / "out")), Checkpoint(tmp_path / "twins")
    twin = Twin(checkpoint, families.resolve(checkpoint, None))
    [case] = greedy_cases(311, 40, None)
    _, check = judge(run_beams, runner, Noisy(twin, 1e-7), case, 1e-5)
    assert check.ok
    assert check.behaviour.ties > 0
    _, check = judge(run_beams, runner, twin, case, 1e-5)
    assert check.ok


def test_reports_show_it(bundle_of, tmp_path):
    files = [tmp_path / f"report{suffix}" for suffix in (".json", ".md", ".html")]
    arguments = ["verify", str(bundle_of("gpt2")), "--reference", "twin", "--case", BEAMS]
    arguments += ["--case", "one token, then steps", "--case", "greedy, three ragged rows"]
    result = CliRunner().invoke(main, arguments + [x for f in files for x in ("--report", str(f))])
    assert result.exit_code == 0
    both = "logits: 8 of 8 choices equal, 80 of 80 best ranks"  # half by our graphs, half by the others
    lines = [both, "tokens: 36 of 36 choices equal"]
    lines.append("beam tokens: 8 of 8 choices equal")
    values = json.loads(files[0].read_text())
    valid(values, SCHEMA)
    assert values["cases"][0]["checks"][0]["behaviour"]["equal"] == 4
    for line in lines:
        assert line in result.output
        assert line in files[1].read_text()
        assert line.split(": ")[1] in files[2].read_text()
