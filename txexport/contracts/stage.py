"""Stages: the graphs of a model in running order, the source of each input, and the facts to run them by."""

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from txexport.contracts import cache_names, names
from txexport.contracts.contract import Port

ONCE: Literal["once"] = "once"
STEP: Literal["step"] = "step"
AFTER: Literal["after"] = "after"

# Sources of inputs. Any other is "ROLE.NAME": an output or an input of the stage ROLE, which runs before.
TOKENS = "tokens"  # the caller's token ids
GENERATED = "generated"  # ids that the model generates itself, from its start token on
ATTENTION_MASK = "attention_mask"  # 1 for a token, 0 for padding
TOKEN_TYPES = "token_types"
BOXES = "boxes"  # of tokens on a page
GLOBAL_TOKENS = "global_tokens"  # 1 for a token that attends globally
POSITIONS = "positions"
SCORED = "scored"  # the indices of the tokens whose logits are computed
CACHE = "cache"  # what earlier steps left, and the lengths of keys and values
NEW = "new"  # the number of tokens in each row of a step
IMAGE, SOUND = "image", "sound"
IMAGE_PLACES = "image_places"  # which tokens of a prompt attend to which images
PROMPTS = "prompts"  # points and their labels, with the corners of boxes or beside boxes
MEDIA = frozenset({IMAGE, SOUND})

OF_INPUT = {
    names.INPUT_IDS: TOKENS,
    names.ATTENTION_MASK: ATTENTION_MASK,
    names.TOKEN_TYPE_IDS: TOKEN_TYPES,
    names.BBOX: BOXES,
    names.GLOBAL_ATTENTION_MASK: GLOBAL_TOKENS,
    names.POSITION_IDS: POSITIONS,
    names.LOGITS_INDICES: SCORED,
    names.CACHE_LENGTHS: CACHE,
    names.PREFIX_LENGTHS: CACHE,
    names.NEW_LENGTHS: NEW,
    names.USE_CACHE_BRANCH: CACHE,
    names.PIXEL_VALUES: IMAGE,
    names.PIXEL_MASK: IMAGE,
    names.PIXEL_ATTENTION_MASK: IMAGE,
    names.SPATIAL_SHAPES: IMAGE,
    names.IMAGE_GRIDS: IMAGE,
    names.GRIDS: IMAGE,
    names.TILE_GRID: IMAGE,
    names.ASPECT_RATIO_IDS: IMAGE,
    names.ASPECT_RATIO_MASK: IMAGE,
    names.IMAGE_SPANS: IMAGE_PLACES,
    names.FLATTENED_PATCHES: IMAGE,
    names.INPUT_FEATURES: SOUND,
    names.FEATURE_ATTENTION_MASK: SOUND,
    names.INPUT_VALUES: SOUND,
    names.INPUT_POINTS: PROMPTS,
    names.INPUT_LABELS: PROMPTS,
    names.INPUT_BOXES: PROMPTS,
    names.INPUT_MASKS: PROMPTS,
    names.HAS_MASKS: PROMPTS,
}
SOURCES = frozenset({*OF_INPUT.values(), GENERATED})


@dataclass(frozen=True)
class GraphFacts:
    """The properties of a graph that the runtime needs.

    `vocab_size` is the number of token ids that it reads, 0 for none. `limit` names the entry of the
    manifest's `limits` that bounds its sequences; texts are padded to that length if `pads_to_limit`.
    With `equal_lengths`, texts of a batch have as many tokens each, since padding would change their vectors.
    `pad_token_id` is the id that has no position of its own. Every text must contain `eos_token_id`, whose
    vector the head reads. `prefix_tokens` are the hidden states before the patches of an image. `vector` is
    the output that is the embedding of a sequence, if the graph pools it itself and not by BERT's pooler.
    With `sigmoid_scores`, each pair of a text and an image, or of an object and a label, has a probability of
    its own. Heights and widths of images are multiples of `image_stride`, unless that is 0, with a remainder
    of up to `image_rest` pixels, which are not read. A sound has `least_samples` or more, samples or frames,
    and a vector for every `vector_stride` of them; one in the layers for every `layer_stride`, unless that is
    0, which means the same number. Vectors of images, or of sounds, stand in the places of tokens
    `image_token_id`; with `mutual_images`, all those of an image are read in one step, and with
    `mutual_prompts` all tokens of a prompt. Squares of `merged_patches` a side become one vector each, unless
    that is 0: images are of any size then, and each of `patch_heads` heads has a score for each pair of an
    image's patches. In pixels, such a square has a side of `vector_side`, unless that is 0. Tiles of an
    image, of `tile_side` vectors a side unless that is 0, are one map; with `most_tiles`, a map of more is
    reduced, and only an image that is alone in a prompt is cut. `page_patches` vectors of a page's image
    follow those of its tokens.
    """

    vocab_size: int = 0
    limit: str | None = None
    pads_to_limit: bool = False
    equal_lengths: bool = False
    pad_token_id: int | None = None
    eos_token_id: int | None = None
    prefix_tokens: int = 0
    vector: str | None = None
    sigmoid_scores: bool = False
    image_stride: int = 0
    image_rest: int = 0
    least_samples: int = 0
    vector_stride: int = 0
    layer_stride: int = 0
    filter_width: int = 0
    image_token_id: int | None = None
    mutual_images: bool = False
    mutual_prompts: bool = False
    merged_patches: int = 0
    tile_side: int = 0
    most_tiles: int = 0
    patch_heads: int = 0
    vector_side: int = 0
    page_patches: int = 0


@dataclass(frozen=True)
class Stage:
    """A graph of a model, in the order in which they run.

    It runs `once` for each prompt or input, at every `step` of generation, or `after` it over all tokens,
    which is optional. `inputs` has the source of each
    input: one of SOURCES, or "ROLE.NAME" for an output or an input of an earlier stage. A client may run it
    `instead_of` other stages, which it includes.
    """

    role: str
    when: Literal["once", "step", "after"]
    inputs: dict[str, str]
    facts: GraphFacts = GraphFacts()
    instead_of: list[str] = field(default_factory=list)

    @property
    def ids_source(self) -> str | None:
        """The source of its token ids; None if it reads none."""
        return self.inputs.get(names.INPUT_IDS)

    def reads(self, *sources: str) -> bool:
        """Return whether an input has one of these sources."""
        return not {*self.inputs.values()}.isdisjoint(sources)

    def to_dict(self) -> dict[str, Any]:
        """The stage as JSON values, without facts that have their default."""
        values = asdict(self)
        default = asdict(GraphFacts())
        values["facts"] = {name: value for name, value in values["facts"].items() if value != default[name]}
        return {name: value for name, value in values.items() if value or name == "inputs"}


def sources_of(ports: Iterable[Port], earlier: Mapping[str, str] | None = None) -> dict[str, str]:
    """The source of each input of a graph; `earlier` has those that are not as OF_INPUT and the cache's."""
    others = earlier or {}
    return {port.name: others.get(port.name) or _source(port.name) for port in ports}


def _source(name: str) -> str:
    return CACHE if cache_names.is_past(name) else OF_INPUT[name]
