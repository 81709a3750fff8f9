"""The heads of wav2vec 2.0 and its children: CTC, labels of recordings and of vectors, speakers."""

from collections.abc import Mapping

from txexport.checkpoints.weight_map import Rules
from txexport.errors import UnsupportedError
from txexport.families._config import Config
from txexport.spec import EncoderSpec, HeadKind, HeadSpec, Pick, SignalStackSpec, TimeDelaySpec

CTC, LABELS = "automatic-speech-recognition", "audio-classification"
FRAMES, SPEAKER = "audio-frame-classification", "audio-xvector"
CLASSES = {
    CTC: "CTC",
    LABELS: "SequenceClassification",
    FRAMES: "AudioFrameClassification",
    SPEAKER: "XVector",
}
# Embeddings of masked spans, and the weight of a speaker's loss: training alone reads them.
UNUSED = ("masked_spec_embed", "objective.weight")


def tasks(prefix: str, speakers: bool = True) -> Mapping[str, tuple[str, ...]]:
    """The classes of a family by task, such as Wav2Vec2ForCTC; without `speakers`, those of all families."""
    chosen = CLASSES if speakers else {task: CLASSES[task] for task in (CTC, LABELS)}
    return {task: (f"{prefix}For{name}",) for task, name in chosen.items()}


def model(config: Config, task: str, stack: SignalStackSpec) -> EncoderSpec:
    """A stack under the head of a task."""
    if (adapter := stack.length_adapter) is not None:
        _check_head(config, task, adapter.hidden_size != stack.hidden_size)
    summed = task != CTC and config.flag("use_weighted_layer_sum", False)
    return EncoderSpec(encoder=stack, head=_head(config, task, stack.masked), layer_sum=summed)


def _check_head(config: Config, task: str, projected: bool) -> None:
    """Raise UnsupportedError for a head that the original does not put behind an adapter."""
    if task in (LABELS, FRAMES):
        config.expect(add_adapter=False)
    if task == SPEAKER:
        config.expect(use_weighted_layer_sum=False)
        if projected:
            raise UnsupportedError(
                f"{config.path}: output_hidden_size={config.integer('output_hidden_size')} is not supported "
                "for speakers, whose head reads vectors of hidden_size"
            )


def _head(config: Config, task: str, masked: bool) -> HeadSpec:
    if task == CTC:
        return HeadSpec(HeadKind.CTC, tied=False, bias=True, labels=config.integer("vocab_size"))
    if task == SPEAKER:
        delay = _time_delay(config)
        return HeadSpec(HeadKind.SPEAKER, tied=False, bias=True, labels=delay.vector_size, time_delay=delay)
    if task == FRAMES:
        return HeadSpec(HeadKind.TOKENS, tied=False, bias=True, labels=config.labels())
    return HeadSpec(  # the originals project before the mean, which is equal, being linear
        HeadKind.SEQUENCE,
        tied=False,
        bias=True,
        labels=config.labels(),
        pick=Pick.MEAN if masked else Pick.GLOBAL_AVERAGE,
        factored_size=config.integer("classifier_proj_size", 256),
        factored_bias=True,
    )


def _time_delay(config: Config) -> TimeDelaySpec:
    """The layers of a speaker's vector."""
    config = config.with_defaults(
        tdnn_dim=[512, 512, 512, 512, 1500], tdnn_kernel=[5, 3, 3, 1, 1], tdnn_dilation=[1, 2, 3, 1, 1]
    )
    rows = config.rows("tdnn_dim", "tdnn_kernel", "tdnn_dilation", of="layer")
    sizes, kernels, dilations = zip(*rows, strict=True)
    return TimeDelaySpec(sizes, kernels, dilations, config.integer("xvector_output_dim", 512))


def rules(spec: EncoderSpec) -> Rules:
    """The tensor names of the head and of the layers' shares."""
    delay = spec.head.time_delay
    if spec.head.kind == HeadKind.CTC:
        return {"head.*": "lm_head.*"}
    shares: Rules = {"layer_sum.weight": "layer_weights"}
    if delay is None:
        return shares | {"head.narrow.*": "projector.*", "head.*": "classifier.*"}
    layers: Rules = {f"head.layers.{i}.*": f"tdnn.{i}.kernel.*" for i in range(len(delay.sizes))}
    return (
        shares
        | layers
        | {
            "head.narrow.*": "projector.*",
            "head.vector.*": "feature_extractor.*",
            "head.scores.*": "classifier.*",
        }
    )
