"""sentence-transformers with backend="onnx": sentence vectors, and scores of pairs."""

from pathlib import Path

import numpy as np
from sentence_transformers import CrossEncoder, SentenceTransformer

PACKAGES = ["sentence-transformers", "optimum-onnx", "transformers", "torch", "onnxruntime"]


def encode(
    bundle: Path, task: str, arrays: dict[str, np.ndarray], sentences: list[str]
) -> dict[str, np.ndarray]:
    """`vectors` (B,W) of sentences."""
    model = SentenceTransformer(str(bundle), backend="onnx")
    return {"vectors": model.encode(sentences, show_progress_bar=False)}


def score(
    bundle: Path, task: str, arrays: dict[str, np.ndarray], pairs: list[list[str]]
) -> dict[str, np.ndarray]:
    """`scores` (B,) of pairs of texts."""
    model = CrossEncoder(str(bundle), backend="onnx")
    return {"scores": model.predict([tuple(pair) for pair in pairs], show_progress_bar=False)}
