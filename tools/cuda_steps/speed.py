"""Speed on a device: ours, with bound tensors and as a CUDA graph too, beside transformers; and bandwidth."""

import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime as ort
import torch
from bench.model_checkpoints import make

from txexport.checkpoints import transformers_loading
from txexport.contracts.cache_names import is_past, to_present

BATCH, LENGTH, PROMPT, NEW = 8, 128, 32, 48
TIMES = 5
MODELS = {"bert": "encode", "gpt2": "decode", "qwen2": "decode"}
STEP = "a step"  # of a decoder, by itself
GRAPH = {"enable_cuda_graph": "1"}
ATTENTION = {"eager": "eager", "sdpa": "sdpa", "flash": "flash_attention_2", "compiled": "sdpa"}
NAMES = [f"{name} {dtype}" for name in MODELS for dtype in ("float32", "float16")]


def seconds(run: Callable[[], object], device: str) -> float:
    """The median of TIMES runs after two for warm-up, synchronising with the device before and after."""
    wait = torch.cuda.synchronize if device == "cuda" else lambda: None
    result = []
    for attempt in range(TIMES + 2):
        wait()
        start = time.perf_counter()
        run()
        wait()
        if attempt > 1:
            result.append(time.perf_counter() - start)
    return statistics.median(result)


def limit(device: str, size: int = 2**28) -> dict[str, Any]:
    """Bytes per second of a copy on the device, reads plus writes: the upper bound of any product."""
    size = size if device == "cuda" else 2**24
    source = torch.ones(size, dtype=torch.float32, device=device)
    target = torch.empty_like(source)
    return {"bytes_per_second": 2 * 4 * size / seconds(lambda: target.copy_(source), device)}


def compare(name: str, device: str, layers: int | None) -> dict[str, Any]:
    """Seconds by method, for an encoder's batch or a decoder's new tokens; or the reason of a failure."""
    import txexport

    model, dtype = name.split()
    with tempfile.TemporaryDirectory() as work:
        checkpoint, out = Path(work) / "checkpoint", Path(work) / "out"
        make(model, checkpoint, layers)
        txexport.export(checkpoint, out, dtype=dtype, client="cuda")
        ways = _ours(out, device, MODELS[model]) | _theirs(checkpoint, device, MODELS[model], dtype)
        size = sum(path.stat().st_size for path in (out / "onnx").glob("*_data"))
        result: dict[str, Any] = {"weight_bytes": size, "seconds": {}, "refused": {}}
        for way, run in ways.items():
            try:
                result["seconds"][way] = seconds(run(), device)
            except Exception as error:  # exceptions of any library
                result["refused"][way] = (
                    f"{type(error).__name__}: {(str(error).splitlines() or [''])[0][:160]}"
                )
    return result


def _ids(batch: int, length: int) -> np.ndarray:
    return np.random.default_rng(0).integers(5, 1000, (batch, length))


def _ours(out: Path, device: str, kind: str) -> dict[str, Callable[[], Callable[[], object]]]:
    import txexport

    model = txexport.load(out, device=device)
    [graph] = [out / one.file for one in model.manifest.graphs.values()]
    if kind == "decode":
        rows = _ids(1, PROMPT).tolist()
        step = _step(model)
        return {
            "ours": lambda: lambda: model.generate_ids(rows, max_new_tokens=NEW, eos_token_id=None),
            f"ours, {STEP}": lambda: _bound(graph, step, model.run(**step), device, {}),
            f"ours, {STEP} as a CUDA graph": lambda: _bound(graph, step, model.run(**step), device, GRAPH),
        }
    ids = _ids(BATCH, LENGTH)
    feeds = {"input_ids": ids, "attention_mask": np.ones_like(ids), "token_type_ids": np.zeros_like(ids)}
    return {
        "ours": lambda: lambda: model.run(**feeds),
        "ours, bound": lambda: _bound(graph, feeds, model.run(**feeds), device, {}),
        "ours, CUDA graph": lambda: _bound(graph, feeds, model.run(**feeds), device, GRAPH),
    }


def _step(model: Any) -> dict[str, np.ndarray]:
    """The inputs of one token over an empty cache that has room for a prompt and its answer."""
    [session] = model.sessions.values()
    feeds = {"input_ids": _ids(1, 1), "cache_lengths": np.zeros(1, np.int64)}
    feeds["logits_indices"] = np.zeros((1, 1), np.int64)
    for name in session.inputs.keys() - feeds.keys():
        _, heads, _, size = session.inputs[name].shape
        feeds[name] = np.zeros((1, int(heads), PROMPT + NEW, int(size)), session.dtype(name))
    return feeds


def _bound(
    graph: Path,
    feeds: dict[str, np.ndarray],
    expected: dict[str, np.ndarray],
    device: str,
    options: dict[str, str],
) -> Callable[[], object]:
    """A run whose inputs and outputs stay on the device, caches in place, and whose result is `expected`.

    Raises ValueError where it is not, and where CUDA graphs are not supported.
    """
    if options and device != "cuda":
        raise ValueError(f"{device} has no CUDA graphs")
    provider = f"{device.upper()}ExecutionProvider"
    settings = {"use_tf32": "0"} | options if device == "cuda" else {}
    session = ort.InferenceSession(graph, providers=[(provider, settings)])
    if provider not in session.get_providers():
        raise ValueError(f"ONNX Runtime cannot start {provider} here")
    binding = session.io_binding()
    values = [ort.OrtValue.ortvalue_from_numpy(array, device, 0) for array in feeds.values()]
    inputs = dict(zip(feeds, values, strict=True))
    for name, value in inputs.items():
        binding.bind_ortvalue_input(name, value)
    caches = {to_present(name): value for name, value in inputs.items() if is_past(name)}
    for name, array in expected.items():
        value = caches.get(name)
        if value is None:
            value = ort.OrtValue.ortvalue_from_shape_and_type(array.shape, array.dtype.type, device, 0)
        binding.bind_ortvalue_output(name, value)
        values.append(value)

    def run() -> None:
        session.run_with_iobinding(binding)

    run()
    for name, value in zip(expected, values[len(feeds) :], strict=True):
        if not np.allclose(value.numpy(), expected[name], rtol=0, atol=1e-2):
            raise ValueError(f"{name} is another one than without binding")
    return run


def _theirs(
    checkpoint: Path, device: str, kind: str, dtype: str
) -> dict[str, Callable[[], Callable[[], object]]]:
    return {
        f"transformers, {way}": lambda way=way: _transformers(checkpoint, device, kind, dtype, way)
        for way in ATTENTION
    }


def _transformers(checkpoint: Path, device: str, kind: str, dtype: str, way: str) -> Callable[[], object]:
    model = transformers_loading.model_from_pretrained(
        "AutoModel" if kind == "encode" else "AutoModelForCausalLM",
        checkpoint,
        dtype=getattr(torch, dtype),
        attn_implementation=ATTENTION[way],
    )
    model = model.to(device).eval()
    batch = (BATCH, LENGTH) if kind == "encode" else (1, PROMPT)
    ids = torch.from_numpy(_ids(*batch)).to(device)
    mask = torch.ones_like(ids)
    if way == "compiled":
        model.forward = torch.compile(model.forward, mode="reduce-overhead")

    @torch.inference_mode()
    def run() -> object:
        if kind == "encode":
            return model(input_ids=ids, attention_mask=mask)
        lengths = {"max_new_tokens": NEW, "min_new_tokens": NEW}
        cache = {"cache_implementation": "static"} if way == "compiled" else {}
        return model.generate(ids, attention_mask=mask, do_sample=False, pad_token_id=0, **lengths, **cache)

    return run
