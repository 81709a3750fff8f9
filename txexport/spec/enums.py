"""The kinds of parts that a spec chooses from."""

from enum import StrEnum


class NormKind(StrEnum):
    """Normalisation over the last axis."""

    LAYER = "layer"  # Ba et al. 2016
    RMS = "rms"  # Zhang and Sennrich 2019


class NormPlacement(StrEnum):
    """The place of a block's norms: post-norm, pre-norm, or one of the variants below.

    Parallel sublayers read the block's input, each through its own norm, and both outputs are added to it.
    A sandwich norm normalises before and after each sublayer, within the residual; a res-post-norm only
    after it. A double post-norm adds the block's input and normalises twice after attention.
    """

    POST = "post"  # Vaswani et al. 2017
    PRE = "pre"  # Radford et al. 2019
    PARALLEL = "parallel"  # Black et al. 2022
    SANDWICH = "sandwich"  # Gemma Team 2024
    RES_POST = "res-post"  # Liu et al. 2022, 3.2
    DOUBLE_POST = "double-post"  # Mohr et al. 2024

    @property
    def before(self) -> bool:
        """True if each sublayer reads a normalised input."""
        return not (self.after or self == NormPlacement.RES_POST)

    @property
    def after(self) -> bool:
        """True if the residual sums are normalised."""
        return self in (NormPlacement.POST, NormPlacement.DOUBLE_POST)


class Activation(StrEnum):
    """Pointwise non-linearity. `GELU_TANH` is the tanh approximation of Hendrycks and Gimpel 2016."""

    GELU = "gelu"
    GELU_TANH = "gelu_tanh"
    RELU = "relu"
    QUICK_GELU = "quick_gelu"  # x sigmoid(1.702 x)
    SILU = "silu"
    TANH = "tanh"
    RELU_SQUARED = "relu_squared"  # So et al. 2021


class PositionKind(StrEnum):
    """The position embedding that is added to the word embedding; attention has positions of its own."""

    LEARNED = "learned"  # a table, read at position + offset
    FIXED = "fixed"  # a table of sinusoids
    NONE = "none"


class HeadKind(StrEnum):
    """The head on top of the stack."""

    NONE = "none"  # no head: hidden states
    MASKED_LM = "masked_lm"  # vocabulary scores of every token
    CAUSAL_LM = "causal_lm"  # vocabulary scores of the tokens at `logits_indices`
    SEQUENCE = "sequence"  # label scores of one vector of the sequence
    CHOICES = "choices"  # one score of each of several sequences
    TOKENS = "tokens"  # label scores of every token
    SPANS = "spans"  # scores of every token as the start and the end of a span


class Pick(StrEnum):
    """The vector of a sequence that a head reads."""

    FIRST = "first"  # Devlin et al. 2019, 3.2
    FIRST_SEEN = "first_seen"  # the first token that the mask shows
    LAST = "last"  # the last token that is no padding; Radford et al. 2018, 3.2
    LAST_SEEN = "last_seen"  # the last token that the mask shows, whatever its id
    FIRST_TWO = "first_two"  # the mean of a signal's first two; Gong et al. 2021, 2.3
    MEAN = "mean"  # the mean of the tokens that are no padding
    MEAN_LATE = "mean_late"  # the mean after the dense layer of each token; Boizard et al. 2025
    FIRST_AND_MEAN = "first_and_mean"  # the first vector and the mean of the others; Oquab et al. 2023
    MEAN_BEHIND = "mean_behind"  # the mean of an image's patches, without prefix tokens; Zhai et al. 2022
    LAST_EOS = "last_eos"  # the last eos token; Lewis et al. 2020, 3.1
    FIRST_EOS = "first_eos"  # the first eos token; Radford et al. 2021, 2.4
    ARGMAX_ID = "argmax_id"  # the token of the highest id, which is the eos token of early CLIP models
    FINAL = "final"  # the last position, also if it is padding; texts have one length; Zhai et al. 2023


class Architecture(StrEnum):
    """The stacks of a model and their connections."""

    ENCODER = "encoder"
    DECODER = "decoder"
    ENCODER_DECODER = "encoder-decoder"
    DUAL_ENCODER = "dual-encoder"


class Cache(StrEnum):
    """The kind of a decoder's key-value cache: a choice of the export, not of the model."""

    STATIC = "static"  # written in place into buffers of fixed capacity
    DYNAMIC = "dynamic"  # grown by concatenation
