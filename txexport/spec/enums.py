"""The kinds of parts that a spec chooses from."""

from enum import StrEnum


class NormKind(StrEnum):
    """Normalisation over the last axis."""

    LAYER = "layer"  # Ba et al. 2016
    RMS = "rms"  # Zhang and Sennrich 2019
    NONE = "none"  # scale and shift alone (Sun et al. 2020, 3.3)


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
        """True where sublayers read normalised inputs."""
        return not (self.after or self == NormPlacement.RES_POST)

    @property
    def after(self) -> bool:
        """True where residual sums are normalised."""
        return self in (NormPlacement.POST, NormPlacement.DOUBLE_POST)


class ClassReadout(StrEnum):
    """The class token's part in each patch: none, its vector added, or a projection of both vectors."""

    IGNORE = "ignore"
    ADD = "add"
    PROJECT = "project"


class Activation(StrEnum):
    """Pointwise non-linearity. `GELU_TANH` is the tanh approximation of Hendrycks and Gimpel 2016."""

    GELU = "gelu"
    GELU_TANH = "gelu_tanh"
    RELU = "relu"
    QUICK_GELU = "quick_gelu"  # x sigmoid(1.702 x)
    SILU = "silu"
    TANH = "tanh"
    RELU_SQUARED = "relu_squared"  # So et al. 2021
    PRELU = "prelu"  # with a learned slope, of feed-forward networks alone; He et al. 2015, 2.1


class PositionKind(StrEnum):
    """Absolute positions in the embedding; those of attention are in its own spec."""

    LEARNED = "learned"  # a table, read at position + offset
    FIXED = "fixed"  # a table of sinusoids
    NONE = "none"


class HeadKind(StrEnum):
    """The output of a head."""

    NONE = "none"  # hidden states
    LAST_MAP = "last_map"  # the last map of a network of convolutions
    MASKED_LM = "masked_lm"  # every token: vocabulary
    CAUSAL_LM = "causal_lm"  # the tokens asked for: vocabulary
    SEQUENCE = "sequence"  # one vector of the sequence: labels
    CHOICES = "choices"  # the same, one label, over several sequences
    TOKENS = "tokens"  # every token: labels
    CTC = "ctc"  # every vector of a sound: the vocabulary and a blank; Graves et al. 2006
    SPEAKER = "speaker"  # a vector of a speaker; Snyder et al. 2018
    BOXES = "boxes"  # every query: labels and a box; Carion et al. 2020
    DEPTH = "depth"  # every pixel: its depth; Ranftl et al. 2021
    SEGMENTS = "segments"  # every pixel: scores of labels; Long et al. 2015
    MASKS = "masks"  # every query: labels and a mask; Cheng et al. 2021
    MASKED_QUERIES = "masked_queries"  # the same, by masked attention; Cheng et al. 2022
    OBJECT_MASKS = "object_masks"  # every query: labels, a box and a mask; Carion et al. 2020, 4.4
    INSTANCE_MASKS = "instance_masks"  # the same, masks of a map's places; Robinson et al. 2025, 3
    POSE = "pose"  # heat maps of points; Tompson et al. 2014
    SPANS = "spans"  # every token: how well a span starts and ends there


class Pick(StrEnum):
    """Pooling: the vector of a sequence that a head reads. Manifests store the values."""

    FIRST = "first"  # Devlin et al. 2019, 3.2
    FIRST_UNMASKED = "first_seen"  # the first token of the attention mask
    LAST = "last"  # the last token whose id is not the padding id; Radford et al. 2018, 3.2
    LAST_UNMASKED = "last_seen"  # the last token of the attention mask, whatever its id
    FIRST_TWO = "first_two"  # the mean of a signal's first two; Gong et al. 2021, 2.3
    MEAN = "mean"  # of the tokens of the attention mask
    MEAN_AFTER_DENSE = "mean_late"  # the same, after each token's dense layer; Boizard et al. 2025
    FIRST_AND_MEAN = "first_and_mean"  # the first, and the mean of the others; Oquab et al. 2023
    GLOBAL_AVERAGE = "mean_behind"  # the mean of a signal, without its first vectors; Zhai et al. 2022
    LAST_EOS = "last_eos"  # the last token with the id eos_token_id; Lewis et al. 2020, 3.1
    FIRST_EOS = "first_eos"  # the first token with the id eos_token_id; Radford et al. 2021, 2.4
    ARGMAX_ID = "argmax_id"  # the token with the highest id, which is the end of text in the first CLIP
    FINAL = "final"  # the last position, padding or not: texts are padded to one length; Zhai et al. 2023


class ConvolutionNorm(StrEnum):
    """The norm of the convolutions over a waveform (Baevski et al. 2020, 2 and 4.2)."""

    GROUP = "group"  # of the first alone: each channel over time
    LAYER = "layer"  # of each: each vector over its channels


class PositionNorm(StrEnum):
    """The norm of the convolutions that give the positions of a waveform's vectors."""

    NONE = "none"
    BATCH = "batch"  # of the input, by statistics of the training data; Boito et al. 2024
    LAYER = "layer"  # of each output, without weights; Baevski et al. 2022


class Architecture(StrEnum):
    """The stacks of a model and their connections."""

    ENCODER = "encoder"
    DOCUMENT = "document"
    DECODER = "decoder"
    ENCODER_DECODER = "encoder-decoder"
    DUAL_ENCODER = "dual-encoder"
    PROMPTABLE = "promptable"
    OPEN_VOCABULARY = "open-vocabulary"
    GROUNDED = "grounded"
    DESCRIBED_SEGMENTS = "described-segments"
    VISION_LANGUAGE = "vision-language"
    CROSS_VISION_LANGUAGE = "cross-vision-language"
    VISUAL_RETRIEVER = "visual-retriever"


class Mutual(StrEnum):
    """The tokens of a decoder that attend to all others of their group, later ones too."""

    IMAGE = "image"  # those of each image; Gemma Team 2025, 2.1
    PREFIX = "prefix"  # those of a row's prompt; Beyer et al. 2024, 3.2


class Cache(StrEnum):
    """The layout of a decoder's past keys and values. A choice of the export, not of the model."""

    STATIC = "static"  # written in place into buffers of fixed capacity
    DYNAMIC = "dynamic"  # grown by concatenation
