"""Runtimes on models of sounds, for `workers.py`: each converts a checkpoint and returns a function of cases.

Kinds of cases: "frames", logits of waveforms by a CTC model, and "transcribe", `new` tokens for spectrograms.
Sounds are noise, and the features of Whisper are given: the time is the model's alone.
"""

import json
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
from model_checkpoints import WHISPER_PROMPT, WHISPER_TOKENS

Case = dict
Run = Callable[[Case], list[int]]
FLOAT32 = "float32"
CTC = "Wav2Vec2ForCTC"
RATE, MELS = 16_000, 80
PROMPT = [WHISPER_TOKENS[name] for name in WHISPER_PROMPT]


def sounds(case: Case) -> list[np.ndarray]:
    """The sounds of a case: waveforms (source,) or spectrograms (80,source), the same for every runtime."""
    rng, source = np.random.default_rng(0), case["source"]
    lengths = [source] * case["batch"]
    if case["ragged"]:
        lengths = [source, *rng.integers(source // 5, source, case["batch"] - 1).tolist()]
    shapes = [(MELS, length) if case["kind"] == "transcribe" else (length,) for length in lengths]
    return [rng.standard_normal(shape).astype(np.float32) for shape in shapes]


def padded(rows: list[np.ndarray]) -> np.ndarray:
    """Waveforms as a batch (B,samples), zeros after the shorter ones."""
    batch = np.zeros((len(rows), max(map(len, rows))), np.float32)
    for row, samples in zip(batch, rows, strict=True):
        row[: len(samples)] = samples
    return batch


def likeliest(logits: np.ndarray) -> list[int]:
    """The likeliest token of every vector of the first row of logits (B,S,V)."""
    return logits[0].argmax(axis=-1).tolist()


def txexport(checkpoint: Path, folder: Path, threads: int, dtype: str = FLOAT32) -> Run:
    """A bundle, on ONNX Runtime."""
    import txexport

    if not folder.exists():
        txexport.export(checkpoint, folder, dtype=dtype)
    return _as_bundle(txexport.load(folder, device="cpu", threads=threads, dtype=dtype))


def txexport_openvino(checkpoint: Path, folder: Path, threads: int, dtype: str = FLOAT32) -> Run:
    """The same bundle, on OpenVINO."""
    import txexport

    if not folder.exists():
        txexport.export(checkpoint, folder)
    return _as_bundle(txexport.load(folder, engine="openvino", precision=dtype, threads=threads))


def _as_bundle(model) -> Run:
    """Cases for a bundle, on any engine; ragged sounds run one at a time, as in `transcribe`."""
    from txexport.runtime.generation.scheduler import CACHE_TOKENS, finished
    from txexport.runtime.tasks import speech_recognition

    def run(case: Case) -> list[int]:
        rows = sounds(case)
        if case["kind"] == "frames":
            batches = [row[None] for row in rows] if case["ragged"] else [np.stack(rows)]
            first, *_ = [model.run(input_values=batch)["logits"] for batch in batches]
            return likeliest(first)
        options = {"max_new_tokens": case["new"], "num_beams": case["beams"]}
        request = speech_recognition.request(model.bundle, rows, language="en", **options)
        return finished(replace(request, read=None), CACHE_TOKENS, None)[0].tokens

    return run


def transformers(checkpoint: Path, folder: Path, threads: int) -> Run:
    """PyTorch with transformers."""
    import torch

    from txexport.checkpoints import transformers_loading

    torch.set_num_threads(threads)
    model = transformers_loading.model_from_pretrained(_architecture(checkpoint), checkpoint)
    return _as_transformers(model.eval())


def exporter(checkpoint: Path, folder: Path, threads: int) -> Run:
    """The graph of transformers' own exporter, fused for ONNX Runtime; it has no loop over its decoders."""
    import onnxruntime
    import torch
    from transformers.exporters.exporter_onnx import OnnxConfig, OnnxExporter

    from txexport.checkpoints import transformers_loading

    if _architecture(checkpoint) != CTC:
        raise ValueError("it exports graphs of a decoder, and does not generate with them")
    if not folder.exists():
        model = transformers_loading.model_from_pretrained(CTC, checkpoint).eval()
        sample = {"input_values": torch.randn(2, RATE)}
        exported = OnnxExporter().export(model, sample, config=OnnxConfig(dynamic=True, ort_fusions="cpu"))
        exported.save_pretrained(folder)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    [path] = folder.glob("*.onnx")
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    return lambda case: likeliest(session.run(["logits"], {"input_values": padded(sounds(case))})[0])


def optimum(checkpoint: Path, folder: Path, threads: int, dtype: str = FLOAT32) -> Run:
    """optimum-onnx: its own export, on ONNX Runtime; int8 of matrix products with its quantizer."""
    import onnxruntime
    from optimum import onnxruntime as models

    ctc = _architecture(checkpoint) == CTC
    model_class = models.ORTModelForCTC if ctc else models.ORTModelForSpeechSeq2Seq
    if not folder.exists():
        model_class.from_pretrained(checkpoint, export=True).save_pretrained(folder)
        for path in list(folder.glob("*.onnx")) if dtype == "int8" else []:
            how = models.AutoQuantizationConfig.avx512_vnni(is_static=False, per_channel=True)
            how.operators_to_quantize = ["MatMul"]  # ONNX Runtime has no ConvInteger of signed weights
            quantizer = models.ORTQuantizer.from_pretrained(folder, file_name=path.name)
            quantizer.quantize(how, folder, file_suffix="")
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    return _as_transformers(model_class.from_pretrained(folder, session_options=options))


def openvino(checkpoint: Path, folder: Path, threads: int, dtype: str = FLOAT32) -> Run:
    """OpenVINO, by optimum-intel: weights in int8 by default settings, or products in bfloat16."""
    from optimum.intel import openvino as models

    ctc = _architecture(checkpoint) == CTC
    model_class = models.OVModelForCTC if ctc else models.OVModelForSpeechSeq2Seq
    if not folder.exists():
        weights = {"bits": 8} if dtype == "int8" else None
        how = {"compile": False, "load_in_8bit": False, "quantization_config": weights}
        model_class.from_pretrained(checkpoint, export=True, **how).save_pretrained(folder)
    precision = "bf16" if dtype == "bfloat16" else "f32"
    settings = {"INFERENCE_PRECISION_HINT": precision, "INFERENCE_NUM_THREADS": str(threads)}
    return _as_transformers(model_class.from_pretrained(folder, ov_config=settings))


def _architecture(checkpoint: Path) -> str:
    [architecture] = json.loads((checkpoint / "config.json").read_text())["architectures"]
    return architecture


def _as_transformers(model) -> Run:
    """Cases for a model with the interface of transformers; it pads waveforms to the longest."""
    import torch

    @torch.inference_mode()
    def run(case: Case) -> list[int]:
        rows = sounds(case)
        if case["kind"] == "frames":
            return likeliest(model(input_values=torch.from_numpy(padded(rows))).logits.numpy())
        options = {"max_new_tokens": case["new"], "num_beams": case["beams"], "do_sample": False}
        features = torch.from_numpy(np.stack(rows))
        tokens = model.generate(features, language="en", task="transcribe", **options)
        return tokens[0, -case["new"] :].tolist()

    return run


def ctranslate2(checkpoint: Path, folder: Path, threads: int, dtype: str = FLOAT32) -> Run:
    """CTranslate2: its own format and kernels; faster-whisper runs on it."""
    import ctranslate2 as library

    if not folder.exists():
        library.converters.TransformersConverter(str(checkpoint)).convert(str(folder), quantization=dtype)
    how = {"device": "cpu", "compute_type": dtype, "intra_threads": threads, "inter_threads": 1}

    def frames(case: Case) -> list[int]:
        batch = library.StorageView.from_array(padded(sounds(case))[:, None])
        return likeliest(np.array(recogniser.encode(batch, to_cpu=True)))

    def transcribe(case: Case) -> list[int]:
        features = library.StorageView.from_array(np.stack(sounds(case)))
        prompts, length = [PROMPT] * case["batch"], 2 * case["new"]  # half of it is for new tokens
        results = whisper.generate(features, prompts, beam_size=case["beams"], max_length=length)
        return results[0].sequences_ids[0]

    if _architecture(checkpoint) == CTC:
        recogniser = library.models.Wav2Vec2(str(folder), **how)
        return frames
    whisper = library.models.Whisper(str(folder), **how)
    return transcribe


def whisper_cpp(checkpoint: Path, folder: Path, threads: int, dtype: str) -> Run:
    """whisper.cpp, by its Python binding: weights in float16 or Q8_0, keys and values in float16."""
    import _pywhispercpp as api

    if _architecture(checkpoint) == CTC:
        raise ValueError("it has no wav2vec2")
    if not folder.exists():
        from ggml_file import write_ggml

        write_ggml(checkpoint, folder, dtype)
    settings = api.whisper_context_default_params()
    settings.use_gpu = False
    context = api.whisper_init_from_file_with_params(str(folder), settings)

    def run(case: Case) -> list[int]:
        [features] = sounds(case)
        greedy, beams = api.WHISPER_SAMPLING_GREEDY, api.WHISPER_SAMPLING_BEAM_SEARCH
        params = api.whisper_full_default_params(greedy if case["beams"] == 1 else beams)
        if case["beams"] > 1:
            params.beam_search = {"beam_size": case["beams"], "patience": -1.0}
        params.n_threads, params.max_tokens, params.language = threads, case["new"] - 1, "en"
        params.single_segment = params.no_timestamps = params.no_context = True
        params.suppress_blank = params.print_progress = params.print_realtime = False
        params.temperature_inc = 0.0
        params.entropy_thold, params.logprob_thold, params.no_speech_thold = -9.0, -99.0, 9.0
        api.whisper_set_mel(context, features, features.shape[1], MELS)
        if api.whisper_full(context, params, np.zeros(0, np.float32), 0):
            raise RuntimeError("whisper_full failed")
        return [
            api.whisper_full_get_token_id(context, 0, i) for i in range(api.whisper_full_n_tokens(context, 0))
        ]

    return run


ALL = (txexport, transformers, exporter, ctranslate2, optimum, openvino, txexport_openvino, whisper_cpp)
RUNTIMES = {run.__name__: run for run in ALL}
os.environ.setdefault("GGML_NO_BACKTRACE", "1")
