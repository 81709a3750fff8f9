"""Arguments of methods and functions: of wrong types, out of range, huge, or missing."""

import inspect
import math
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import Any

import numpy as np

import txexport
from fuzzing.case import PIXELS, SOUND, TEXTS, Case
from txexport.runtime.generation.options import RULES

OPTIONS = list(RULES)
SKIPPED = ("self", "progress", "logits_processor", "options")  # progress is the caller's own code
MESSAGES = [{"role": "user", "content": "the cat"}]

# Each method: its bundle, and valid arguments.
OCR = {"words": ["the", "cat"], "boxes": [[0, 0, 90, 80], [10, 2, 500, 1000]], "size": [1000, 1000]}
METHODS: dict[str, tuple[str, dict[str, Any]]] = {
    "generate": ("decoder", {"prompts": TEXTS, "max_new_tokens": 3}),
    "generate_ids": ("decoder", {"input_ids": [[5, 6, 7], [8]], "max_new_tokens": 3}),
    "generate_with_scores": ("decoder", {"input_ids": [[5, 6, 7], [8]], "max_new_tokens": 3}),
    "stream": ("decoder", {"prompt": TEXTS[0], "max_new_tokens": 3}),
    "stream_many": ("decoder", {"prompts": TEXTS, "max_new_tokens": 3}),
    "chat": ("decoder", {"messages": MESSAGES, "max_new_tokens": 3}),
    "stream_chat": ("decoder", {"messages": MESSAGES, "max_new_tokens": 3}),
    "score": ("decoder", {"texts": TEXTS}),
    "transcribe": ("speech", {"sounds": SOUND, "max_new_tokens": 3}),
    "stream_transcript": ("letters", {"sound": SOUND[:900], "chunk_length_s": 0.02}),
    "image_to_text": ("captions", {"images": PIXELS, "max_new_tokens": 3}),
    "ask_image": ("seen", {"images": PIXELS, "question": "who sat?", "max_new_tokens": 3}),
    "embed": ("sentences", {"texts": TEXTS}),
    "embed_tokens": ("tokens", {"texts": TEXTS, "is_query": True}),
    "classify": ("classifier", {"texts": TEXTS}),
    "zero_shot": ("classifier", {"texts": TEXTS, "candidate_labels": ["cat", "dog"]}),
    "rerank": ("reranker", {"queries": TEXTS, "documents": ["a cat", "a dog"]}),
    "tag": ("tagger", {"texts": TEXTS}),
    "answer": ("reader", {"question": "who sat", "context": TEXTS[0]}),
    "fill_mask": ("pretrained", {"texts": "the [MASK] sat"}),
    "next_sentence": ("pretrained", {"first": TEXTS[0], "second": TEXTS[1]}),
    "choose": ("chooser", {"question": "who", "choices": TEXTS}),
    "classify_audio": ("noises", {"sounds": SOUND}),
    "diarize": ("turns", {"sounds": SOUND, "threshold": 0.4}),
    "embed_speaker": ("speakers", {"sounds": SOUND}),
    "embed_audio": ("heard", {"sounds": SOUND}),
    "match_audio": ("heard", {"sounds": SOUND, "texts": TEXTS, "template": "a {}"}),
    "classify_image": ("images", {"images": PIXELS}),
    "embed_image": ("towers", {"images": PIXELS}),
    "detect": ("objects", {"images": PIXELS, "threshold": 0.1}),
    "depth": ("depths", {"images": PIXELS}),
    "pose": ("poses", {"images": PIXELS, "boxes": [[1, 2, 9, 9]], "threshold": 0.1}),
    "segment": ("segments", {"images": PIXELS}),
    "masks": ("masks", {"images": PIXELS, "prompts": {"points": [[3, 4]], "box": [1, 2, 9, 9]}}),
    "all_masks": ("masks", {"images": PIXELS, "points_per_side": 2, "min_score": 0.1, "crop_layers": 1}),
    "match": ("towers", {"images": PIXELS, "texts": TEXTS}),
    "embed_words": ("ocr_words", {"pages": OCR, "stride": 2, "batch_tokens": 99}),
    "tag_words": ("ocr_tags", {"pages": OCR, "stride": 2, "batch_tokens": 99}),
    "classify_page": ("ocr_labels", {"pages": OCR, "top_k": 1, "truncate": True}),
    "answer_page": ("ocr_answers", {"question": "a", "pages": OCR, "top_k": 2, "doc_stride": 2}),
    "embed_pages": ("pages", {"images": PIXELS, "batch_size": 2, "batch_tokens": 99}),
    "embed_queries": ("pages", {"texts": TEXTS, "batch_tokens": 99}),
    "rank_pages": ("pages", {"queries": TEXTS, "images": [PIXELS], "top_k": 1}),
    "find": ("patches", {"images": PIXELS, "texts": ["a"], "threshold": 0.2, "template": "{}"}),
}
# Options of text generation apply to sounds too.
OF_SOUNDS = {
    name: ("speech", {"prompts": SOUND, "max_new_tokens": 3}) for name in ("generate", "stream_many")
}
# And to prompts with images.
PARTS = [{"type": "image", "image": PIXELS}, {"type": "text", "text": "the cat"}]
OF_IMAGES = {
    "generate": ("seen", {"prompts": ["<image> the", "dog"], "images": [PIXELS, None], "max_new_tokens": 3}),
    "stream": ("seen", {"prompt": "the <image>", "images": PIXELS, "max_new_tokens": 3}),
    "chat": ("seen", {"messages": [{"role": "user", "content": PARTS}], "max_new_tokens": 3}),
}
# Segments of texts in place of labels.
OF_TEXTS = {"segment": ("described", {"images": PIXELS, "texts": ["a"], "mask_threshold": 0.4})}
NUMBERS = (
    *(None, -1, 0, 1, 2, 3, 10**6, 10**7, 2**31 - 1, 2**31, 2**63 - 1, 2**63, 2**70, -(2**70), True, False),
    *(0.5, 1e308, -1e308, 1e-320, math.nan, math.inf, -math.inf, 1j, np.int64(-1), np.float32(0.1)),
)
TEXTUAL = (
    "",
    " ",
    "x",
    "\0",
    "\ud800",
    "the " * 20_000,
    "{}",
    "{",
    "mean",
    "../canary",
    b"x",
    "one\ntwo",
    Path("x"),
)
LISTS = (
    *(
        [],
        [[]],
        [None],
        [5],
        [-1],
        [[-1]],
        [[10**9]],
        [[2**70]],
        [[0.5]],
        ["x", 5],
        [["a", "b"]],
        [("a", "b", "c")],
    ),
    *(
        [["a"], "b"],
        ["the"] * 300,
        [[5] * 300],
        (),
        ("a", "b"),
        {},
        {"a": 1},
        {5: 1},
        {(5,): math.nan},
        {"a", "b"},
    ),
    *([{}], [{"role": 5}], [{"role": "user", "content": None}], [[[5, 1.0]]], [[5], math.nan]),
)
ARRAYS = (
    *(np.array(3), np.zeros((2, 3)), np.array([-1]), np.array([[-1, 2**62]]), np.zeros(0), np.array(["a"])),
    *(np.array([None]), np.full(100, np.nan), np.zeros((4, 4, 3), np.uint8), np.zeros((0, 4, 3), np.uint8)),
    *(np.zeros((4, 4), np.uint8), np.zeros((1, 70_000, 3), np.uint8), np.ones(10**6, np.float32)),
)
LOGITS_PROCESSORS: dict[str, Callable] = {
    "None": lambda rows, scores: None,
    "a text": lambda rows, scores: "x",
    "NaN": lambda rows, scores: scores * math.nan,
    "-inf": lambda rows, scores: np.full_like(scores, -math.inf),
    "another shape": lambda rows, scores: scores[:, :-1],
    "a list": lambda rows, scores: scores.tolist(),
    "integers": lambda rows, scores: np.zeros(scores.shape, np.int8),
    "0 rows": lambda rows, scores: scores[:0],
    "objects": lambda rows, scores: scores.astype(object),
}


def hostile(random: Random) -> Any:
    """A random invalid argument."""
    others = (object(), lambda: 0, iter(["the cat"]), int)
    return random.choice(random.choice((NUMBERS, NUMBERS, TEXTUAL, LISTS, LISTS, ARRAYS, others)))


def of_models(case: Case) -> None:
    """A method of a loaded model."""
    method = case.random.choice(("generate", *METHODS))
    bundle, base = METHODS[method]
    if method in OF_SOUNDS and case.random.random() < 0.3:
        bundle, base = OF_SOUNDS[method]
    if method in OF_TEXTS and case.random.random() < 0.3:
        bundle, base = OF_TEXTS[method]
    if method in OF_IMAGES and case.random.random() < 0.3:
        bundle, base = OF_IMAGES[method]
    call = getattr(case.model(bundle), method)
    parameters = inspect.signature(call).parameters
    names = [name for name in parameters if name not in SKIPPED]
    if "options" in parameters:
        names += case.random.sample(OPTIONS, 8)
    arguments = base | _changed(case.random, names)
    if "logits_processor" in parameters and case.random.random() < 0.15:
        arguments["logits_processor"] = LOGITS_PROCESSORS[
            returned := case.random.choice(list(LOGITS_PROCESSORS))
        ]
        case.note(f"logits_processor returns {returned}")
    case.note(f"{bundle} {method}({_shown(arguments, base)})")
    case.attempt(lambda: _consumed(call(**arguments)))


def of_graphs(case: Case) -> None:
    """Arrays for a graph, through Model.run."""
    name = case.random.choice(("decoder", "sentences", "translator", "images", "towers", "speech"))
    model = case.model(name)
    role = case.random.choice(list(model.sessions))
    inputs = {port: _array(case.random, kind) for port, kind in model.sessions[role].inputs.items()}
    for port in case.random.sample(list(inputs), min(len(inputs), case.random.choice((1, 1, 2)))):
        inputs[port], note = _changed_array(case.random, inputs[port])
        case.note(f"{name} {role}: {port} {note}")
    case.attempt(lambda: model.run(role, **inputs) and None)  # NaN in, NaN out


def of_functions(case: Case) -> None:
    """load, export, inspect and compare."""
    checkpoint, bundle = case.seeds / "families/bert", case.seeds / "bundles/sentences"
    calls: dict[Callable, dict[str, Any]] = {
        txexport.load: {"folder": bundle, "device": "cpu", "threads": 1},
        txexport.export: {"source": checkpoint, "out": case.work / "out"},
        txexport.inspect: {"path": case.random.choice((checkpoint, bundle))},
        txexport.compare: dict.fromkeys("ab", bundle / "onnx/model.onnx"),
    }
    call = case.random.choice(list(calls))
    names = [name for name in inspect.signature(call).parameters if name not in SKIPPED]
    arguments = calls[call] | _changed(case.random, names)
    case.note(f"{call.__name__}({_shown(arguments, calls[call])})")
    case.attempt(lambda: call(**arguments) and None)


def _changed(random: Random, names: list[str]) -> dict[str, Any]:
    """`arguments` with hostile values for one to three names."""
    return {
        name: hostile(random) for name in random.sample(names, min(len(names), random.choice((1, 1, 2, 3))))
    }


def _consumed(answer: Any) -> Any:
    """All pieces of a stream, or the result itself."""
    return list(answer) if isinstance(answer, Iterator) else answer


def _shown(arguments: dict[str, Any], base: dict[str, Any]) -> str:
    changed = {name: value for name, value in arguments.items() if base.get(name, arguments) is not value}
    return ", ".join(
        f"{name}={repr(value)[:60]}" for name, value in changed.items() if name != "logits_processor"
    )


def _array(random: Random, port: Any) -> np.ndarray:
    """An input of the graph's declared type, symbolic dimensions of 1 to 3."""
    sizes = {dim: random.randint(1, 3) for dim in port.shape if isinstance(dim, str)}
    shape = [sizes.get(dim, dim) for dim in port.shape]
    return np.zeros(shape, np.int64 if port.dtype == "int64" else np.float32)


def _changed_array(random: Random, array: np.ndarray) -> tuple[Any, str]:
    kind = random.randrange(5)
    if kind == 0:
        value = random.choice((-1, -2, 10**6, 2**62, -(2**62), 40, 310, 311))
        return np.full_like(array, value), f"full of {value}"
    if kind == 1:
        dtype = random.choice(("f2", "f8", "i1", "i4", "u8", "O", "U1", "?", "c8"))
        return array.astype(dtype), f"of type {dtype}"
    if kind == 2:
        shape = random.choice(((), (0,), (1, 0), (0, 3), (1, 1, 1), (1, 5000), (5, 1), (1, 45), (2, 3, 4, 5)))
        return np.zeros(shape, array.dtype), f"of shape {shape}"
    if kind == 3:
        value = random.choice((math.nan, math.inf, 1e38))
        return np.full(array.shape, value, np.float32), f"full of {value}"
    value = random.choice((None, "x", 5, [[1]], [[1], [2, 3]], {}, b"x", object))
    return value, repr(value)
