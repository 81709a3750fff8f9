"""Tasks and heads shared by the families of decoder-only models."""

from collections.abc import Callable
from dataclasses import replace

from txexport.checkpoints.weight_map import Rules, Take
from txexport.errors import UnsupportedError
from txexport.families._config import Config, minimal_cycle
from txexport.spec import (
    Activation,
    BlockSpec,
    DecoderSpec,
    EncoderSpec,
    HeadKind,
    HeadSpec,
    Pick,
    StatefulSpec,
    TextStackSpec,
)
from txexport.tasks import TASKS

# Tensor names of each head of labels; older families name that for tokens differently.
LABELLED: dict[HeadKind, str | Take] = {
    HeadKind.SEQUENCE: "score.*",
    HeadKind.TOKENS: Take("score.*", fallback="classifier.*"),
    HeadKind.SPANS: "qa_outputs.*",
}


def tasks(name: str, *, tokens: bool = True, spans: bool = True) -> dict[str, tuple[str, ...]]:
    """The tasks of a decoder whose classes in transformers begin with `name`.

    `tokens` and `spans` tell whether there is a class for token classification and for question answering.
    """
    labelled = {"token-classification": (f"{name}ForTokenClassification",)} if tokens else {}
    answered = {"question-answering": (f"{name}ForQuestionAnswering",)} if spans else {}
    return {
        "text-generation": (f"{name}ForCausalLM",),
        "text-classification": (f"{name}ForSequenceClassification",),
        **labelled,
        **answered,
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
    factored_size: int | None = None,
) -> EncoderSpec | DecoderSpec:
    """`stack` under the head of `task`; `tied` is the default of tie_word_embeddings.

    `scale` and `softcap` apply to the logits of a language model; `factored_size` is the width of the word
    embedding where it differs from the hidden size.
    """
    config.expect(is_causal=True)
    kind = TASKS[task].head
    if kind == HeadKind.NONE:
        return EncoderSpec(encoder=stack)
    if kind in LABELLED:
        return EncoderSpec(encoder=stack, head=_labels(config, kind))
    tied = config.flag("tie_word_embeddings", tied)
    head = HeadSpec(kind, tied=tied, bias=bias, softcap=softcap, scale=scale, factored_size=factored_size)
    return DecoderSpec(stack, head)


def _labels(config: Config, kind: HeadKind) -> HeadSpec:
    """A head of labels. Without a pad_token_id, the original reads one sequence and takes its last token."""
    if kind == HeadKind.SPANS:
        return HeadSpec(kind, tied=False, bias=True, labels=2)
    if kind == HeadKind.TOKENS:
        bias = config.flag("token_classification_bias", True)
        return HeadSpec(kind, tied=False, bias=bias, labels=config.labels())
    if config.values.get("pad_token_id") is None:
        return HeadSpec(kind, tied=False, labels=config.labels(), pick=Pick.LAST_UNMASKED)
    padding = config.integer("pad_token_id")
    return HeadSpec(kind, tied=False, labels=config.labels(), pick=Pick.LAST, pad_token_id=padding)


def each_layer(stack: TextStackSpec, varied: Callable[[int, BlockSpec], BlockSpec]) -> TextStackSpec:
    """`stack` with each block replaced by `varied(number, block)`."""
    return replace(stack, blocks=minimal_cycle(varied(i, block) for i, block in enumerate(stack.layers)))


def beside_attention(
    config: Config, stack: TextStackSpec, attends: list[bool], other: Callable[[], StatefulSpec]
) -> TextStackSpec:
    """`stack` with a layer with states in place of attention, but in the layers that attend.

    Raises UnsupportedError where no layer attends.
    """
    if all(attends):
        return stack
    if not any(attends):
        raise UnsupportedError(
            f"{config.path}: no layer has attention, expected one or more: the original takes the length of "
            "a cache from its keys"
        )
    mixer = other()

    def varied(number: int, block: BlockSpec) -> BlockSpec:
        return block if attends[number] else replace(block, attention=mixer)

    return each_layer(stack, varied)


def expect_silu(config: Config, where: str) -> None:
    """Raise UnsupportedError unless hidden_act is SiLU, the only activation of `where`."""
    if config.activation("hidden_act", "silu") != Activation.SILU:
        raise UnsupportedError(f"{config.path}: hidden_act is not silu, which {where} needs")


def interleaved(stack: TextStackSpec) -> TextStackSpec:
    """`stack` with interleaved RoPE: adjacent dimensions form a pair, not the halves of a head."""

    def varied(layer: int, block: BlockSpec) -> BlockSpec:
        attention = block.dense
        turns = None if attention.rotary is None else replace(attention.rotary, interleaved=True)
        return replace(block, attention=replace(attention, rotary=turns))

    return each_layer(stack, varied)


def stack_name(spec: EncoderSpec | DecoderSpec) -> str:
    """The prefix of the stack's parameters."""
    return "decoder" if isinstance(spec, DecoderSpec) else "encoder"


def head_rules(spec: EncoderSpec | DecoderSpec, projection: str = "lm_head") -> Rules:
    """Tensor names of the head; a language model's is called `projection`."""
    return {"head.*": LABELLED.get(spec.head.kind, f"{projection}.*")}


def copies(spec: EncoderSpec | DecoderSpec, projection: str = "lm_head") -> tuple[str, ...]:
    """Names under which a checkpoint may store a tied word embedding again."""
    return (f"{projection}.weight",) if isinstance(spec, DecoderSpec) and spec.head.tied else ()


def other_heads(spec: EncoderSpec | DecoderSpec, projection: str = "lm_head") -> tuple[str, ...]:
    """Tensors of other tasks' heads that a checkpoint may hold."""
    if isinstance(spec, DecoderSpec):
        return ()
    used = {
        HeadKind.SEQUENCE: {"score.*"},
        HeadKind.TOKENS: {"score.*", "classifier.*"},
        HeadKind.SPANS: {"qa_outputs.*"},
    }.get(spec.head.kind, set())
    return tuple({f"{projection}.*", "score.*", "classifier.*", "qa_outputs.*"} - used)
