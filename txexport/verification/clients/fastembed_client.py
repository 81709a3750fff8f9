"""fastembed: sentence vectors of a bundle, registered as a custom model."""

from pathlib import Path

import numpy as np
from fastembed import TextEmbedding
from fastembed.common.model_description import ModelSource, PoolingType

PACKAGES = ["fastembed", "onnxruntime"]


def encode(
    bundle: Path,
    task: str,
    arrays: dict[str, np.ndarray],
    sentences: list[str],
    size: int,
    pooling: str = "MEAN",
    normalize: bool = True,
) -> dict[str, np.ndarray]:
    """`vectors` (B,`size`) of sentences with that pooling ("MEAN" or "CLS")."""
    TextEmbedding.add_custom_model(
        model="txexport/bundle",
        pooling=PoolingType[pooling],
        normalization=normalize,
        sources=ModelSource(hf="txexport/bundle"),
        dim=size,
        model_file="onnx/model.onnx",
        additional_files=["onnx/model.onnx_data"],
    )
    model = TextEmbedding("txexport/bundle", specific_model_path=str(bundle))
    return {"vectors": np.stack(list(model.embed(sentences)))}
