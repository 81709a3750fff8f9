"""The graphs that a model is made of, by what each is for, and their files."""

from collections.abc import Iterable

from txexport.spec import Cache

MODEL = "model"  # alone: an encoder, or a decoder
ENCODER = "encoder_model"
DECODER = "decoder_model"
TEXT = "text_model"
VISION = "vision_model"
SIMILARITY = "similarity_model"

# Other tools write a decoder behind an encoder twice, without a cache and with one, or both in one graph.
DECODER_WITH_PAST = "decoder_with_past_model"
DECODER_MERGED = "decoder_model_merged"

SHARED = "model_shared"  # a decoder alone, over buffers that a client shares with it

READERS = frozenset({MODEL, ENCODER, TEXT, VISION})  # which are given what a person has

SUFFIX = ".onnx"
FOLDER = "onnx"  # of a bundle, where hubs' clients look for graphs
DATA = "_data"  # what a graph's name ends in for the file of its weights

# Clients that graphs may be laid out for, since they need another layout than a hub's, or take one more graph
WEB, TRITON, OPENVINO, GENAI = CLIENTS = ("web", "triton", "openvino", "genai")

# Other tools take any file with `decoder` or `encoder` in its name for one of their own.
NATIVE = {
    MODEL: "model",
    ENCODER: "source",
    DECODER: "target",
    TEXT: "text",
    VISION: "vision",
    SIMILARITY: "similarity",
}


def file(role: str, dtype: str = "") -> str:
    """The name of a graph's file, as other clients look for it; `dtype` is the suffix of its numbers."""
    return f"{role}{dtype}{SUFFIX}"


def of_client(graphs: Iterable[str], client: str | None) -> list[str]:
    """Those of the ecosystem's graphs that a client opens, where they are laid out for one."""
    merged = DECODER_MERGED in graphs
    steps = {WEB: {DECODER, DECODER_WITH_PAST}, TRITON: {DECODER_MERGED}, OPENVINO: {DECODER_MERGED}}
    left = steps.get(client or "", set()) if merged else set()
    return [role for role in graphs if role not in left]


def hub_path(role: str, client: str | None = None, dtype: str = "") -> str:
    """Where the graph of a role for other clients lies in a bundle; `dtype` as of `file`."""
    if client == TRITON:  # a folder a model, and in it one a version
        return f"{role}{dtype}/1/{file(MODEL)}"
    return file(role, dtype) if client == OPENVINO else f"{FOLDER}/{file(role, dtype)}"


def native_path(role: str, cache: Cache | None, dtype: str = "") -> str:
    """Where the graph of a role of our own contract with a `cache` lies in a bundle; `dtype` as of `file`."""
    return f"{FOLDER}/{NATIVE[role]}_{cache or 'native'}{dtype}{SUFFIX}"


def data_path(graph: str) -> str:
    """Where a bundle has the weights of a graph that has a file of its own."""
    return f"{graph}{DATA}"
