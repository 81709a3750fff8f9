"""A proof says how much it compared of what: one that shrinks, whatever library changes, is red or tells."""

import inspect

import numpy as np
import pytest
import transformers
from helpers.reports import SCHEMA, valid

import txexport
from txexport import families
from txexport.checkpoints import transformers_loading
from txexport.verification import Report, counts, reports, verify, verify_plan
from txexport.verification.cases import runs
from txexport.verification.references import selection
from txexport.verification.references.transformers_reference import Transformers
from txexport.verification.reports.facts import facts_line

# What quick cases compare with either original, by kind: a smaller number is a smaller proof.
PINNED = {
    "gpt2": {
        "logits": 39_808,
        "caches": 24_576,
        "hidden states": 18_432,
        "attentions": 45_996,
        "tokens": 52,
    },
    "t5": {
        "logits": 51_004,
        "caches": 57_360,
        "hidden states": 98_976,
        "attentions": 510_531,
        "tokens": 52,
    },
    "bert": {"hidden states": 26_304, "attentions": 24_042, "vectors": 672},
}


OF_A_DECODER = ["present.1.key", "hidden_states.1", "attentions.0", "logits"]
OF_AN_ENCODER_DECODER = ["present.0.encoder.value", "present.1.decoder.key", "cross_attentions.1"]
OF_AN_ENCODER = ["pooler_output", "attentions.1", "hidden_states.0"]


@pytest.fixture
def fresh(monkeypatch):
    """Originals that are made and asked anew, since a test changes what they say."""
    monkeypatch.setattr(verify_plan, "originals_of", selection.originals_of)


@pytest.fixture(scope="module")
def of_every_layer(checkpoint_of, tmp_path_factory):
    """A function from a model_type to its bundle with outputs of every layer, and the report of it."""
    made = {}

    def get(model_type):
        if model_type not in made:
            out = tmp_path_factory.mktemp("counted") / "out"
            outputs = ["hidden_states", "attentions"]
            txexport.export(checkpoint_of(model_type), out, only="native", outputs=outputs)
            made[model_type] = out, verify(out, cases="quick")
        return made[model_type]

    return get


@pytest.mark.parametrize("model_type", PINNED)
def test_counts_of_a_decoder_an_encoder_decoder_and_an_encoder(model_type, of_every_layer):
    _, report = of_every_layer(model_type)
    assert report.ok, facts_line(report)
    assert report.numbers["twin"] == report.numbers["transformers"] == PINNED[model_type]
    assert [*report.numbers] == ["checkpoint", "twin", "transformers"]


def test_the_verdict_and_every_form_of_the_report_say_the_counts(of_every_layer, tmp_path):
    _, report = of_every_layer("gpt2")
    assert "79,616 of logits, 49,152 of caches, 36,864 of hidden states" in facts_line(report)
    values = report.to_dict()
    valid(values, SCHEMA)
    assert values["numbers"]["transformers"]["caches"] == 24_576
    assert Report.from_dict(values).numbers == report.numbers
    total = sum(sum(of.values()) for of in report.numbers.values())
    assert facts_line(report).startswith(f"gpt2, text-generation: {total:,} numbers compared")
    for suffix in (".md", ".html", ".xml"):
        reports.write(report, tmp_path / f"report{suffix}")
        assert "24,576" in (tmp_path / f"report{suffix}").read_text(encoding="utf-8"), suffix


@pytest.mark.parametrize("model_type", ["gpt2", "t5"])
def test_a_cache_under_a_name_that_nobody_knows_is_red(model_type, of_every_layer, fresh, monkeypatch):
    """As transformers 5.24 called it, which took caches out of the proof without a word."""
    out, _ = of_every_layer(model_type)
    monkeypatch.setattr(transformers_loading, "CACHE_NAMES", ("nobody's",))
    report = verify(out, reference="transformers", cases=["one token, then steps"])
    assert not report.ok
    assert "parameter nobody's" in facts_line(report) or "returns no keys and values" in facts_line(report)


@pytest.mark.parametrize(
    ("model_type", "case", "lost"),
    [
        *(("gpt2", "one token, then steps", lost) for lost in OF_A_DECODER),
        *(("t5", "one token, then steps", lost) for lost in OF_AN_ENCODER_DECODER),
        *(("bert", "one token", lost) for lost in OF_AN_ENCODER),
    ],
)
def test_an_original_that_gives_less_is_red(model_type, case, lost, of_every_layer, fresh, monkeypatch):
    out, _ = of_every_layer(model_type)
    for name in ("encode", "decode"):
        whole = getattr(Transformers, name)

        def less(self, *given, whole=whole):
            return {output: array for output, array in whole(self, *given).items() if output != lost}

        monkeypatch.setattr(Transformers, name, less)
    report = verify(out, reference="transformers", cases=[case])
    assert not report.ok
    assert lost in facts_line(report)


def test_outputs_that_a_case_leaves_out_are_red(of_every_layer, monkeypatch):
    out, _ = of_every_layer("gpt2")
    by_graph = runs.by_graph

    def without_caches(runner, pairs):
        return [one for one in by_graph(runner, pairs) if counts.kind(one.output) != counts.CACHES]

    monkeypatch.setattr(runs, "by_graph", without_caches)
    report = verify(out, reference="twin", cases=["one token, then steps"])
    assert not report.ok
    assert "present.0.key, present.0.value" in facts_line(report)
    assert "was compared with nothing of twin" in facts_line(report)


def test_an_original_without_caches_is_said(bundle_of, tmp_path):
    report = verify(bundle_of("openai-gpt", "dynamic"), cases="quick")
    assert report.ok
    assert "caches" in report.numbers["twin"]
    assert "caches" not in report.numbers["transformers"]
    why = families.WITHOUT_CACHE["openai-gpt"]
    assert f"no caches of transformers: {why}" in facts_line(report)
    assert [case.skipped for case in report.cases if case.name == counts.CACHES] == [why]
    valid(report.to_dict(), SCHEMA)
    reports.write(report, tmp_path / "report.md")
    assert f"Not compared: caches of `transformers`: `{why}`" in (tmp_path / "report.md").read_text()


def test_whose_original_keeps_no_cache_is_so():
    assert transformers_loading.cache_parameter(transformers.OpenAIGPTLMHeadModel.forward) is None
    assert transformers_loading.cache_parameter(transformers.GPT2LMHeadModel.forward) is not None


@pytest.mark.parametrize("name", ["cache", "past_key_values"])
def test_either_spelling_of_a_cache_is_found(name):
    names = [inspect.Parameter(one, inspect.Parameter.KEYWORD_ONLY) for one in ("input_ids", name)]

    def forward(**given):
        return given

    forward.__signature__ = inspect.Signature(names)
    assert transformers_loading.cache_parameter(forward) == name
    kept = np.zeros(1)
    assert transformers_loading.cache_of({"logits": None, name: kept}) is kept
    with pytest.raises(AssertionError, match="returns no keys and values, but logits"):
        transformers_loading.cache_of({"logits": None})


@pytest.mark.parametrize(
    ("output", "kind"),
    [
        ("logits", "logits"),
        ("start_logits", "logits"),
        ("present.3.encoder.key", "caches"),
        ("present.0.value", "caches"),
        ("last_hidden_state", "hidden states"),
        ("decoder_hidden_states.0", "hidden states"),
        ("cross_attentions.2", "attentions"),
        ("pooler_output", "vectors"),
        ("text_embeds", "vectors"),
        ("beam scores", "tokens"),
        ("y", "other outputs"),
    ],
)
def test_kinds(output, kind):
    assert counts.kind(output) == kind
    assert kind in counts.KINDS
