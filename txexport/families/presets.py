"""Specs of published architectures, without a checkpoint.

Sizes are those of the paper cited; where it leaves a value open, the released model's. A preset equals the
spec of a config.json with these values; the Transformer of 2017 has no family. An unknown size raises
InputError.
"""

import math
from collections.abc import Mapping
from typing import TypeVar

from txexport.errors import InputError
from txexport.families._rope import plain_frequencies
from txexport.spec import (
    Activation,
    AttentionSpec,
    BlockSpec,
    DecoderSpec,
    EmbeddingSpec,
    EncoderDecoderSpec,
    EncoderSpec,
    FeedForwardSpec,
    HeadKind,
    HeadSpec,
    NormKind,
    NormPlacement,
    NormSpec,
    PatchSpec,
    PositionKind,
    PositionSpec,
    RelativeSpec,
    RotarySpec,
    SignalStackSpec,
    TextStackSpec,
)

T = TypeVar("T")

SINUSOIDS = 1024  # rows of the table; sinusoids have no maximum

# Layers, width, heads.
GPT2 = {"small": (12, 768, 12), "medium": (24, 1024, 16), "large": (36, 1280, 20), "xl": (48, 1600, 25)}
# Layers, width, heads, key/value heads, feed-forward, epsilon, vocabulary, longest sequence, rotary base.
LLAMA = {
    "7b": (32, 4096, 32, 32, 11_008, 1e-6, 32_000, 2048, 1e4),
    "13b": (40, 5120, 40, 40, 13_824, 1e-6, 32_000, 2048, 1e4),
    "33b": (60, 6656, 52, 52, 17_920, 1e-6, 32_000, 2048, 1e4),
    "65b": (80, 8192, 64, 64, 22_016, 1e-5, 32_000, 2048, 1e4),
    "8b": (32, 4096, 32, 8, 14_336, 1e-5, 128_256, 8192, 5e5),
}
# Layers, width, heads, patch size.
VIT = {"base": (12, 768, 12, 16), "large": (24, 1024, 16, 16), "huge": (32, 1280, 16, 14)}
# Layers, width, heads, head size, feed-forward.
T5 = {
    "small": (6, 512, 8, 64, 2048),
    "base": (12, 768, 12, 64, 3072),
    "large": (24, 1024, 16, 64, 4096),
    "3b": (24, 1024, 32, 128, 16384),
    "11b": (24, 1024, 128, 128, 65536),
}


def transformer_base() -> EncoderDecoderSpec:
    """The Transformer, base model: 65M parameters (Vaswani et al. 2017, Table 3, first line).

    With the 37,000 tokens of English-German (5.1). The paper's description gives 63.1M.
    """
    return _transformer(width=512, heads=8)


def transformer_big() -> EncoderDecoderSpec:
    """The Transformer, big model: 213M parameters (Vaswani et al. 2017, Table 3, last line).

    The paper's description gives 214.2M, with 37,000 tokens.
    """
    return _transformer(width=1024, heads=16)


def _transformer(width: int, heads: int) -> EncoderDecoderSpec:
    """6 layers a side, attention without biases, one shared, scaled word embedding (3.1 to 3.5)."""
    position = PositionSpec(PositionKind.FIXED, SINUSOIDS)
    embedding = EmbeddingSpec(37_000, width, position, scale=math.sqrt(width))
    feed_forward, norm = FeedForwardSpec(width, 4 * width, Activation.RELU), NormSpec(width, 1e-6)

    def attention(causal: bool) -> AttentionSpec:
        return AttentionSpec(width, heads, heads, width // heads, causal, bias=False, output_bias=False)

    encoder = BlockSpec(attention(False), feed_forward, norm, NormPlacement.POST)
    decoder = BlockSpec(attention(True), feed_forward, norm, NormPlacement.POST, attention(False))
    return EncoderDecoderSpec(
        encoder=TextStackSpec(embedding, (encoder,), 6),
        decoder=TextStackSpec(embedding, (decoder,), 6),
        head=HeadSpec(HeadKind.CAUSAL_LM),
        shared_embedding=True,
    )


def bert_base(masked_lm: bool = False) -> EncoderSpec:
    """BERT base: 110M parameters (Devlin et al. 2019, 3); with a pooler, or with a masked LM head."""
    return _bert(12, 768, 12, masked_lm)


def bert_large(masked_lm: bool = False) -> EncoderSpec:
    """BERT large: 340M parameters (Devlin et al. 2019, 3); with a pooler, or with a masked LM head."""
    return _bert(24, 1024, 16, masked_lm)


def _bert(layers: int, width: int, heads: int, masked_lm: bool) -> EncoderSpec:
    """With the 30,522 tokens of the uncased release."""
    norm = NormSpec(width, 1e-12)
    position = PositionSpec(PositionKind.LEARNED, 512)
    block = BlockSpec(
        AttentionSpec(width, heads, heads, width // heads, causal=False),
        FeedForwardSpec(width, 4 * width, Activation.GELU),
        norm,
        NormPlacement.POST,
    )
    stack = TextStackSpec(
        EmbeddingSpec(30_522, width, position, type_vocab_size=2, norm=norm), (block,), layers
    )
    if not masked_lm:
        return EncoderSpec(encoder=stack, pooler=True)
    head = HeadSpec(HeadKind.MASKED_LM, bias=True, activation=Activation.GELU, norm=norm)
    return EncoderSpec(encoder=stack, head=head)


def gpt1() -> DecoderSpec:
    """GPT: 117M parameters (Radford et al. 2018, 4.1; counted in Radford et al. 2019, Table 2)."""
    return _gpt(12, 768, 12, EmbeddingSpec(40_478, 768, _learned(512)), NormPlacement.POST)


def gpt2(size: str) -> DecoderSpec:
    """GPT-2 "small", "medium", "large" or "xl" (Radford et al. 2019, Table 2).

    The table says 117M, 345M, 762M and 1,542M parameters; its authors corrected that to 124M, 355M, 774M and
    1,558M with the release.
    """
    layers, width, heads = _sized("gpt2", GPT2, size)
    return _gpt(layers, width, heads, EmbeddingSpec(50_257, width, _learned(1024)), NormPlacement.PRE)


def _learned(size: int) -> PositionSpec:
    return PositionSpec(PositionKind.LEARNED, size)


def _gpt(
    layers: int, width: int, heads: int, embedding: EmbeddingSpec, placement: NormPlacement
) -> DecoderSpec:
    norm = NormSpec(width, 1e-5)
    block = BlockSpec(
        AttentionSpec(width, heads, heads, width // heads, causal=True),
        FeedForwardSpec(width, 4 * width, Activation.GELU_TANH),
        norm,
        placement,
    )
    final = norm if placement == NormPlacement.PRE else None
    stack = TextStackSpec(embedding, (block,), layers, final_norm=final)
    return DecoderSpec(stack, HeadSpec(HeadKind.CAUSAL_LM))


def llama(size: str) -> DecoderSpec:
    """LLaMA 1 "7b", "13b", "33b" or "65b", or LLaMA 3 "8b".

    6.7B, 13.0B, 32.5B and 65.2B parameters (Touvron et al. 2023, Table 2); 8B (Llama Team 2024, Table 3).
    """
    return _llama(*_sized("llama", LLAMA, size))


def mistral_7b() -> DecoderSpec:
    """Mistral 7B, with a sliding window of 4,096 (Jiang et al. 2023, Table 1)."""
    return _llama(32, 4096, 32, 8, 14_336, 1e-5, 32_000, 8192, 1e4, window=4096)


def _llama(
    layers: int,
    width: int,
    heads: int,
    kv_heads: int,
    inner: int,
    eps: float,
    vocab_size: int,
    longest: int,
    theta: float,
    window: int | None = None,
) -> DecoderSpec:
    norm, head_dim = NormSpec(width, eps, NormKind.RMS), width // heads
    attention = AttentionSpec(
        hidden_size=width,
        num_heads=heads,
        num_kv_heads=kv_heads,
        head_dim=head_dim,
        causal=True,
        bias=False,
        output_bias=False,
        rotary=RotarySpec(plain_frequencies(theta, head_dim)),
        window=window,
    )
    feed_forward = FeedForwardSpec(width, inner, Activation.SILU, bias=False, gated=True)
    embedding = EmbeddingSpec(vocab_size, width, PositionSpec(PositionKind.NONE, longest))
    block = BlockSpec(attention, feed_forward, norm, NormPlacement.PRE)
    stack = TextStackSpec(embedding, (block,), layers, final_norm=norm)
    return DecoderSpec(stack, HeadSpec(HeadKind.CAUSAL_LM, tied=False))


def t5(size: str) -> EncoderDecoderSpec:
    """T5 "small", "base", "large", "3b" or "11b" (Raffel et al. 2020, 3.7).

    60M, 220M, 770M, 2.8B and 11B parameters. The paper's description gives 738M for "large"; an untied head
    would make it 771M.
    """
    layers, width, heads, head_dim, inner = _sized("t5", T5, size)
    norm = NormSpec(width, 1e-6, NormKind.RMS)
    embedding = EmbeddingSpec(32_128, width, PositionSpec(PositionKind.NONE))

    def attention(causal: bool, biased: bool) -> AttentionSpec:
        return AttentionSpec(
            hidden_size=width,
            num_heads=heads,
            num_kv_heads=heads,
            head_dim=head_dim,
            causal=causal,
            bias=False,
            output_bias=False,
            scale=1.0,
            has_position_bias=biased,
        )

    def stack(decodes: bool) -> TextStackSpec:
        cross = attention(causal=False, biased=False) if decodes else None
        feed_forward = FeedForwardSpec(width, inner, Activation.RELU, bias=False)
        self_attention = attention(causal=decodes, biased=True)
        block = BlockSpec(self_attention, feed_forward, norm, NormPlacement.PRE, cross)
        relative = RelativeSpec(32, 128, bidirectional=not decodes)
        return TextStackSpec(embedding, (block,), layers, final_norm=norm, relative=relative)

    head = HeadSpec(HeadKind.CAUSAL_LM, scale=1 / math.sqrt(width))
    return EncoderDecoderSpec(encoder=stack(False), decoder=stack(True), head=head, shared_embedding=True)


def vit(size: str) -> EncoderSpec:
    """ViT "base", "large" or "huge", classifying images of 224 x 224 pixels into 1,000 classes.

    86M, 307M and 632M parameters (Dosovitskiy et al. 2021, Table 1), with patches of 16 x 16, and 14 x 14 for
    "huge". The paper's description gives 304M for "large".
    """
    layers, width, heads, patch = _sized("vit", VIT, size)
    norm = NormSpec(width, 1e-12)
    attention = AttentionSpec(
        hidden_size=width,
        num_heads=heads,
        num_kv_heads=heads,
        head_dim=width // heads,
        causal=False,
        unmasked=True,
    )
    block = BlockSpec(attention, FeedForwardSpec(width, 4 * width, Activation.GELU), norm, NormPlacement.PRE)
    stack = SignalStackSpec(PatchSpec(width, (224, 224), patch), (block,), layers, final_norm=norm)
    return EncoderSpec(encoder=stack, head=HeadSpec(HeadKind.SEQUENCE, tied=False, bias=True, labels=1000))


def _sized(name: str, sizes: Mapping[str, T], size: str) -> T:
    if size not in sizes:
        raise InputError(f"{name} '{size}' is not known; expected {', '.join(sizes)}")
    return sizes[size]
