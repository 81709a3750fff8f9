"""The roles of a model's graphs, and the names of their files."""

from collections.abc import Iterable

from txexport.spec import Cache

MODEL = "model"  # the only graph: an encoder, or a decoder
ENCODER = "encoder_model"
DECODER = "decoder_model"
TEXT = "text_model"
VISION = "vision_model"
AUDIO = "audio_model"
SIMILARITY = "similarity_model"
IMAGE_ENCODER = "vision_encoder"
AUDIO_ENCODER = "audio_encoder"
MASK_DECODER = "prompt_encoder_mask_decoder"
EMBED_TOKENS = "embed_tokens"  # of a decoder that reads images too, for other clients
# onnxruntime-genai's: tokens with the vectors of images among them, and images if its inputs have other names
EMBEDDING, GENAI_VISION = "embedding", "vision"
ALIGNMENT = "alignment_model"  # the weights by which tokens get times in a sound

# Other tools write the decoder of an encoder-decoder twice, without and with a past, or merge the two.
DECODER_WITH_PAST = "decoder_with_past_model"
DECODER_MERGED = "decoder_model_merged"

SHARED = "model_shared"  # a decoder without an encoder, over buffers that the client shares with it

# Graphs that read the user's input
READERS = frozenset({MODEL, ENCODER, TEXT, VISION, AUDIO, IMAGE_ENCODER, AUDIO_ENCODER})

SUFFIX = ".onnx"
FOLDER = "onnx"  # of a bundle, in which clients of model hubs expect graphs
DATA = "_data"  # suffix of the file of a graph's weights

# Values of export's `client`: clients that need another layout or one more graph, and CUDA for our graphs
WEB, TRITON, OPENVINO, GENAI, CUDA = CLIENTS = ("web", "triton", "openvino", "genai", "cuda")

# Names without `decoder` and `encoder`: other tools would take such a file for one of their own.
NATIVE = {
    MODEL: "model",
    ENCODER: "source",
    DECODER: "target",
    TEXT: "text",
    VISION: "vision",
    AUDIO: "audio",
    SIMILARITY: "similarity",
    ALIGNMENT: "alignment",
    IMAGE_ENCODER: "image",
    AUDIO_ENCODER: "sound",
    MASK_DECODER: "masks",
}


def media_encoder(graphs: Iterable[str]) -> str:
    """The role of the graph of images or of sounds in prompts, which is among `graphs`."""
    return AUDIO_ENCODER if AUDIO_ENCODER in graphs else IMAGE_ENCODER


def file(role: str, dtype: str = "") -> str:
    """The name of a graph's file, as other clients expect it; `dtype` is a suffix such as `_int8`."""
    return f"{role}{dtype}{SUFFIX}"


def of_client(graphs: Iterable[str], client: str | None) -> list[str]:
    """The ecosystem's graphs that a client opens, if they are laid out for one."""
    if client in (WEB, TRITON, OPENVINO):
        graphs = [role for role in graphs if role not in (EMBEDDING, GENAI_VISION)]
    merged = DECODER_MERGED in graphs and EMBED_TOKENS not in graphs  # where it has no others beside it
    steps = {WEB: {DECODER, DECODER_WITH_PAST}, TRITON: {DECODER_MERGED}, OPENVINO: {DECODER_MERGED}}
    left = steps.get(client or "", set()) if merged else set()
    return [role for role in graphs if role not in left]


def hub_path(role: str, client: str | None = None, dtype: str = "") -> str:
    """The path in a bundle of a graph for other clients; `dtype` as in `file`."""
    if client == TRITON:  # a folder for each model, with one for each version
        return f"{role}{dtype}/1/{file(MODEL)}"
    return file(role, dtype) if client == OPENVINO else f"{FOLDER}/{file(role, dtype)}"


def native_path(role: str, cache: Cache | None, dtype: str = "") -> str:
    """The path in a bundle of a graph of our own contract with a `cache`; `dtype` as in `file`."""
    return f"{FOLDER}/{NATIVE[role]}_{cache or 'native'}{dtype}{SUFFIX}"


def data_path(graph: str) -> str:
    """The path in a bundle of the weights of a graph that has a file of its own for them."""
    return f"{graph}{DATA}"
