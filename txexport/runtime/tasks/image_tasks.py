"""Tasks of image models; I images, T texts, W width."""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

import numpy as np

from txexport.contracts import roles
from txexport.contracts.names import (
    IMAGE_EMBEDS,
    LAST_HIDDEN_STATE,
    LOGITS,
    PIXEL_MASK,
    PIXEL_VALUES,
    POOLER_OUTPUT,
)
from txexport.errors import InputError, shown
from txexport.runtime.batches import BATCH_TOKENS
from txexport.runtime.loaded_bundle import LoadedBundle, check_task
from txexport.runtime.preprocessing.images import Prepared
from txexport.runtime.preprocessing.opened_images import Source, several
from txexport.runtime.session import finite
from txexport.runtime.tasks.feature_extraction import own_vector
from txexport.runtime.tasks.labels import Label, labelled
from txexport.runtime.tasks.matching import matcher
from txexport.runtime.vectors.pooling import unit
from txexport.support.arguments import check_count, check_flag
from txexport.support.progress import Progress, counting

BATCH_IMAGES = 8


def classify_image(
    bundle: LoadedBundle,
    images: "Source | Sequence[Source]",
    *,
    top_k: int | None = 5,
    batch_size: int = BATCH_IMAGES,
    progress: Progress | None = None,
) -> list[Label] | list[list[Label]]:
    """The `top_k` likeliest labels of an image, likeliest first; all of them for None.

    Scores are as those of `classify`.
    """
    check_task(bundle, "classify_image")
    sources, width = as_sources(images), bundle.sessions[roles.MODEL].width(LOGITS)
    batches = [outputs[LOGITS] for outputs in _run(bundle, roles.MODEL, sources, batch_size, progress)]
    labels = labelled(
        bundle.files.config, np.concatenate([np.empty((0, width), np.float32), *batches]), top_k
    )
    return labels if several(images) else labels[0]


def embed_image(
    bundle: LoadedBundle,
    images: "Source | Sequence[Source]",
    *,
    pooling: str | None = None,
    normalize: bool = False,
    batch_size: int = BATCH_IMAGES,
    progress: Progress | None = None,
) -> np.ndarray:
    """Vectors of images (len(images), W) float32, or (W) for one image.

    For a model with an image encoder and a text encoder, these are the L2-normalised vectors that `match`
    compares with those of `embed`. For an image encoder, `pooling` chooses the vector of the first token
    ("cls", the default), the mean of the patches ("mean") or the output of the checkpoint's pooler ("pooler",
    the default for one encoder of CLIP, and for networks of convolutions, which have no first token);
    `normalize` L2-normalises them. Raises InputError for another pooling.
    """
    check_task(bundle, "embed_image")
    check_flag("normalize", normalize)
    sources, towers = as_sources(images), roles.VISION in bundle.sessions
    role = roles.VISION if towers else roles.MODEL
    ways = {} if towers else _ways(bundle)
    if pooling is not None and (not isinstance(pooling, str) or pooling not in ways):
        raise InputError(f"pooling is {shown(pooling)}, expected {' or '.join(ways) or 'none'}")
    output = IMAGE_EMBEDS if towers else own_vector(bundle)
    pooling = pooling or ("cls" if output is None else "pooler")
    way = (lambda outputs: outputs[IMAGE_EMBEDS]) if towers else ways[pooling]
    read = output if pooling == "pooler" or _gives_map(bundle) else None
    width = bundle.sessions[role].width(read or LAST_HIDDEN_STATE)
    batches = [way(outputs) for outputs in _run(bundle, role, sources, batch_size, progress)]
    vectors = np.concatenate([np.empty((0, width), np.float32), *batches])
    vectors = unit(vectors) if normalize else vectors
    return vectors if several(images) else vectors[0]


def _gives_map(bundle: LoadedBundle) -> bool:
    """True where hidden states are a map (B,W,R,C), as those of a network of convolutions are."""
    hidden = bundle.sessions[roles.MODEL].outputs.get(LAST_HIDDEN_STATE)
    return hidden is not None and len(hidden.shape) == 4


def _ways(bundle: LoadedBundle) -> dict[str, Callable[[Mapping[str, np.ndarray]], np.ndarray]]:
    """Poolings by name: functions of an encoder's outputs that return a vector (W) an image."""
    prefix = bundle.stage(roles.MODEL).facts.prefix_tokens
    ways: dict[str, Callable[[Mapping[str, np.ndarray]], np.ndarray]] = {
        "cls": lambda outputs: outputs[LAST_HIDDEN_STATE][:, 0],
        "mean": lambda outputs: outputs[LAST_HIDDEN_STATE][:, prefix:].mean(axis=1),
    }
    if _gives_map(bundle):
        ways = {"mean": lambda outputs: outputs[LAST_HIDDEN_STATE].mean(axis=(2, 3))}
    pooled = own_vector(bundle) or POOLER_OUTPUT
    if pooled in bundle.sessions[roles.MODEL].outputs:
        ways["pooler"] = lambda outputs: outputs[pooled]
    return ways


def match(
    bundle: LoadedBundle,
    images: "Source | Sequence[Source]",
    texts: Sequence[str],
    *,
    template: str = "{}",
    truncate: bool = False,
    batch_size: int = BATCH_IMAGES,
    batch_tokens: int = BATCH_TOKENS,
    progress: Progress | None = None,
) -> list[Label] | list[list[Label]]:
    """The probability that each of `texts` describes an image, the highest first.

    Probabilities sum to 1 over the texts (Radford et al. 2021, 3.1), or are independent for each text where
    the model was trained so (Zhai et al. 2023, 3.2). The model reads `template` with a text in place of {},
    as in "a photo of {}.". Raises InputError for no texts, and for a template without {}.
    """
    check_task(bundle, "match")
    matched = matcher(bundle, texts, template, truncate, batch_tokens)
    results: list[list[Label]] = []
    for outputs in _run(bundle, roles.VISION, as_sources(images), batch_size, progress):
        results += matched(outputs[IMAGE_EMBEDS])
    return results if several(images) else results[0]


def _run(
    bundle: LoadedBundle, role: str, sources: Sequence, batch_size: int, progress: Progress | None
) -> Iterator[Mapping[str, np.ndarray]]:
    """Yield the outputs of the graph `role` for each batch of images."""
    check_count("batch_size", batch_size)
    tell = counting(progress)
    for first in range(0, len(sources), batch_size):
        batch = sources[first : first + batch_size]
        yield finite(bundle.sessions[role].run(bundle.files.images.inputs(batch)))
        tell(first + len(batch), len(sources))


def each_output(
    bundle: LoadedBundle,
    sources: Sequence,
    role: str = roles.MODEL,
    beside: Mapping[str, np.ndarray] | None = None,
    infinite: Collection[str] = (),
) -> Iterator[tuple[Prepared, Mapping[str, np.ndarray]]]:
    """Each image, and its row of the outputs; those of one size that follow one another run together.

    `beside` are inputs (1,...) that each image is read with; outputs `infinite` may hold infinities.
    """
    rows = [bundle.files.images.prepared(source) for source in sources]
    facts, start = bundle.stage(role).facts, 0
    stride, rest = facts.image_stride, facts.image_rest
    for height, width in {row.values.shape[1:] for row in rows} if stride else ():
        if min(height, width) < stride or height % stride > rest or width % stride > rest:
            more = f" or up to {rest} pixels more" if rest else ""
            raise InputError(
                f"the image processor makes images of {width} x {height}, expected multiples of {stride}"
                f"{more}; export the checkpoint with --image-size of such a size"
            )
    while start < len(rows):
        shape, end = rows[start].values.shape, start + 1
        while end < len(rows) and rows[end].values.shape == shape:
            end += 1
        pixels = np.stack([row.values for row in rows[start:end]])  # (B, 3, H, W)
        inputs = _inputs(bundle, role, pixels)
        for name, value in (beside or {}).items():
            inputs[name] = np.repeat(value, len(pixels), axis=0)
        outputs = bundle.sessions[role].run(inputs)
        finite({name: value for name, value in outputs.items() if name not in infinite})
        for row in range(start, end):
            yield rows[row], {name: value[row - start] for name, value in outputs.items()}
        start = end


def _inputs(bundle: LoadedBundle, role: str, pixels: np.ndarray) -> dict[str, np.ndarray]:
    """A graph's inputs for pixels (B,3,H,W) without padding: a mask of one pixel says so for all of them."""
    masked = PIXEL_MASK in bundle.sessions[role].inputs
    return {PIXEL_VALUES: pixels} | ({PIXEL_MASK: np.ones((len(pixels), 1, 1), np.int64)} if masked else {})


def as_sources(images: "Source | Sequence[Source]") -> Sequence:
    """One image or several as a list."""
    return images if several(images) else [images]  # type: ignore[return-value]
