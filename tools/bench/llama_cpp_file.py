"""A checkpoint as a file of llama.cpp, by llama.cpp's own converter and quantiser.

The environment variable LLAMA_CPP names a folder of its sources (in the source distribution of
llama-cpp-python, `vendor/llama.cpp`).
"""

import os
import sys
from pathlib import Path

FORMATS = {"int8": "LLAMA_FTYPE_MOSTLY_Q8_0", "int4": "LLAMA_FTYPE_MOSTLY_Q4_0"}


def write(checkpoint: Path, path: Path, dtype: str) -> None:
    """Write `checkpoint` to `path` without its vocabulary, in float32 or quantised."""
    sources = os.environ.get("LLAMA_CPP")
    if not sources:
        raise ValueError("LLAMA_CPP names no folder of llama.cpp's sources")
    full = path.with_suffix(".f32.gguf") if dtype in FORMATS else path
    _convert(Path(sources), checkpoint, full)
    if dtype in FORMATS:
        import llama_cpp as api

        settings = api.llama_model_quantize_default_params()
        settings.ftype = getattr(api, FORMATS[dtype])
        if api.llama_model_quantize(bytes(full), bytes(path), settings):
            raise RuntimeError(f"llama.cpp cannot quantise {full.name}")
        full.unlink()


def _convert(sources: Path, checkpoint: Path, path: Path) -> None:
    sys.path[:0] = [str(sources), str(sources / "gguf-py")]
    import gguf
    import torch
    from conversion import ModelType, get_model_architecture, get_model_class
    from conversion.base import ModelBase

    name = get_model_architecture(ModelBase.load_hparams(checkpoint, False), ModelType.TEXT)
    model = get_model_class(name)
    model.set_vocab = _no_vocabulary
    model.no_mtp = True  # the checkpoints have no layers that predict several tokens
    with torch.inference_mode():
        model(checkpoint, gguf.LlamaFileType.ALL_F32, path).write()


def _no_vocabulary(model) -> None:
    """llama.cpp knows no vocabulary of words: it takes the number of tokens alone."""
    model._set_vocab_none()
    model.gguf_writer.add_vocab_size(model.find_hparam(["vocab_size"]))
