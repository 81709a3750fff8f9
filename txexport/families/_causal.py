"""What the families of decoder-only models share: tasks, and the head that a task asks for."""

from collections.abc import Callable
from dataclasses import replace

from txexport.checkpoints.weight_map import Rules
from txexport.errors import UnsupportedError
from txexport.families._config import Config, minimal_cycle
from txexport.spec import BlockSpec, DecoderSpec, EncoderSpec, HeadKind, HeadSpec, Pick, TextStackSpec
from txexport.tasks import TASKS


def tasks(name: str) -> dict[str, tuple[str, ...]]:
    """The tasks of a decoder whose classes in transformers begin with `name`."""
    return {
        "text-generation": (f"{name}ForCausalLM",),
        "text-classification": (f"{name}ForSequenceClassification",),
        "feature-extraction": (f"{name}Model",),
    }


def model(
    config: Config,
    task: str,
    stack: TextStackSpec,
    *,
    tied: bool,
    bias: bool = False,
    softcap: float | None = None,
    scale: float = 1.0,
) -> EncoderSpec | DecoderSpec:
    """`stack` under the head of `task`; `tied` is what config.json means where it does not say.

    `scale` and `softcap` are of a language model's scores.
    """
    config.expect(is_causal=True)
    kind = TASKS[task].head
    if kind == HeadKind.NONE:
        return EncoderSpec(encoder=stack)
    if kind == HeadKind.SEQUENCE:
        if config.values.get("pad_token_id") is None:
            raise UnsupportedError(
                f"{config.path}: no pad_token_id, so the last token of a padded row cannot be told; "
                "put the id of the padding that it was trained with into config.json"
            )
        padding = config.integer("pad_token_id")
        head = HeadSpec(kind, tied=False, labels=config.labels(), pick=Pick.LAST, pad_token_id=padding)
        return EncoderSpec(encoder=stack, head=head)
    tied = config.flag("tie_word_embeddings", tied)
    return DecoderSpec(stack, HeadSpec(kind, tied=tied, bias=bias, softcap=softcap, scale=scale))


def each_layer(stack: TextStackSpec, varied: Callable[[int, BlockSpec], BlockSpec]) -> TextStackSpec:
    """`stack` with the block that `varied` makes of each layer's number and block."""
    return replace(stack, blocks=minimal_cycle(varied(i, block) for i, block in enumerate(stack.layers)))


def interleaved(stack: TextStackSpec) -> TextStackSpec:
    """`stack` with neighbours turned in pairs, and not the halves of a head."""

    def varied(layer: int, block: BlockSpec) -> BlockSpec:
        attention = block.dense
        turns = None if attention.rotary is None else replace(attention.rotary, interleaved=True)
        return replace(block, attention=replace(attention, rotary=turns))

    return each_layer(stack, varied)


def stack_name(spec: EncoderSpec | DecoderSpec) -> str:
    """What the parameters of the stack begin with."""
    return "decoder" if isinstance(spec, DecoderSpec) else "encoder"


def head_rules(spec: EncoderSpec | DecoderSpec, projection: str = "lm_head") -> Rules:
    """Where the head's parameters lie; a language model's in `projection`."""
    return {"head.*": "score.*" if spec.head.kind == HeadKind.SEQUENCE else f"{projection}.*"}


def copies(spec: EncoderSpec | DecoderSpec, projection: str = "lm_head") -> tuple[str, ...]:
    """Where a checkpoint may keep a tied word matrix again."""
    return (f"{projection}.weight",) if isinstance(spec, DecoderSpec) and spec.head.tied else ()


def other_heads(spec: EncoderSpec | DecoderSpec, projection: str = "lm_head") -> tuple[str, ...]:
    """What a checkpoint may hold for other tasks."""
    heads = {HeadKind.CAUSAL_LM: f"{projection}.*", HeadKind.SEQUENCE: "score.*"}
    heads.pop(spec.head.kind, None)
    return (*heads.values(), "classifier.*", "qa_outputs.*") if isinstance(spec, EncoderSpec) else ()
