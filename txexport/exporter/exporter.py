"""`export`: from a checkpoint to a bundle, streaming the weights, without PyTorch."""

import warnings
from collections.abc import Iterable, Sequence
from dataclasses import KW_ONLY, dataclass
from pathlib import Path

from txgraphs import OPSET

from txexport import families
from txexport.bundle.form import ExportOptions
from txexport.bundle.manifest import Manifest
from txexport.bundle.source import as_asked, merged
from txexport.checkpoints.checkpoint import Checkpoint
from txexport.checkpoints.hub import opened
from txexport.contracts import of_cache, roles
from txexport.contracts.cache_names import is_state
from txexport.errors import InputError, UnsupportedError, crashes
from txexport.exporter.bundle_plan import BundlePlan
from txexport.exporter.bundle_writing import Item, write_bundle
from txexport.exporter.genai import check_genai
from txexport.exporter.in_memory import PreTrainedModel, PreTrainedTokenizer, recorded, saved
from txexport.exporter.options import check_options, resolved_options
from txexport.exporter.parameter_formats import routes
from txexport.formats import DEFAULT, DTYPES, STORED
from txexport.parts import check_outputs, for_others, signatures
from txexport.parts.stacks import transforms
from txexport.spec import Architecture
from txexport.support.aliases import dtype_named
from txexport.support.arguments import arguments_from
from txexport.support.progress import Progress, counting
from txexport.tasks import row_of

# Why some models have no graphs for other clients.
WITHOUT_OTHERS = {
    Architecture.CROSS_VISION_LANGUAGE: "none of which runs a decoder that attends to images",
    Architecture.ENCODER_DECODER: "which read vectors in place of an encoder's tokens",
}
OTHERWISE = "which do not tell tokens of an image from others, as it needs"


@dataclass(frozen=True)
class ExportArguments:
    """The arguments of `export`, which describes them."""

    source: str | Path | PreTrainedModel
    out: str | Path
    _: KW_ONLY
    tokenizer: PreTrainedTokenizer | None = None
    adapter: str | Path | None = None
    task: str | None = None
    model_type: str | None = None
    cache: str | None = None
    opset: int = OPSET
    inline: bool = False
    only: str | None = None
    single_file: bool = False
    client: str | None = None
    dtype: str | Sequence[str] | None = None
    keep: str | Sequence[str] = ()
    outputs: str | Sequence[str] = ()
    rope_factors: str | None = None
    image_size: int | Sequence[int] | None = None
    language: str | None = None
    texts: str | Path | Sequence[Item] | None = None
    absolute_source: bool = False
    force: bool = False
    progress: Progress | None = None

    @property
    def pixels(self) -> list[int] | None:
        """The height and width of images."""
        if self.image_size is None:
            return None
        return [self.image_size, self.image_size] if isinstance(self.image_size, int) else [*self.image_size]

    def options(self, default_dtype: str) -> ExportOptions:
        """The options that the manifest records."""
        return ExportOptions(
            cache=self.cache,
            opset=self.opset,
            inline=self.inline,
            only=self.only,
            single_file=self.single_file,
            client=self.client,
            dtypes=list(map(dtype_named, _split(default_dtype if self.dtype is None else self.dtype))),
            keep=[self.keep] if isinstance(self.keep, str) else list(self.keep),
            outputs=_split(self.outputs),
            centred=True,
            widened=True,
            rope_factors=self.rope_factors,
            image_size=self.pixels,
            language=self.language,
        )


@arguments_from(ExportArguments)
@crashes()
def export(arguments: ExportArguments) -> Manifest:
    """Write the checkpoint `source` as a bundle to the folder `out`, and return its manifest.

    `source` is a folder, a GGUF file, a model on a hub ("org/name" or "org/name@revision"), or a transformers
    model in memory, with its `tokenizer`; a model in memory is saved to a temporary folder beside `out`.
    `adapter` is a LoRA adapter of PEFT, a folder or a name on a hub, and is merged into the weights. `task`
    defaults to the task of the adapter's head, or of the architecture in config.json. `model_type` is needed
    for an old config.json without one.

    A bundle has graphs for txexport's runtime (native) and graphs for other clients (hub), which share the
    weights. `only` is "native" or "hub" to write one kind. `cache`, for models that decode, is "static"
    (default) or "dynamic". `opset` is 17 to 24; newer operators are lowered to the older ones. `inline`
    writes native graphs without functions. Hub graphs are inlined, of opset 21 or an older `opset`.
    `single_file` embeds the weights in each graph, up to 2 GB. `client` chooses the layout for one client:
    "web" (browsers; each graph has its own weights), "openvino" (graphs at the root), "triton" (a model
    repository) or "genai" (an additional graph of `opset` with onnxruntime-genai's shared buffer).
    `single_file` and these imply "hub". "cuda" implies "native": graphs that CUDA graphs can capture, and
    whose float16 computes in float16; numbers of other dtypes stay float32.

    `dtype` is a name in `formats.DTYPES`, or several in a list or separated by commas; each has its own
    graphs and weights, and the first is the default when the bundle is loaded. None is "stored" for a
    quantised checkpoint, which keeps its integers, and "float32" otherwise. Parameters that match a pattern
    in `keep`, for example "*.layers.0.*", stay float32 in every dtype. `texts` calibrate the int4 dtypes
    (GPTQ, run in ONNX Runtime): a list of texts the model will read, or a file with one text a line; a tab
    separates two texts, or source and target of an encoder-decoder.

    `outputs` adds outputs of every layer: "attentions", "hidden_states" or both, with the names and shapes
    of transformers' `output_attentions` and `output_hidden_states`. Attention is then computed without the
    fused operator, which is slower. `rope_factors` selects the LongRoPE factors: "short" (default), valid up
    to original_max_position_embeddings, or "long", valid up to max_position_embeddings and equal to the
    original for longer sequences only. `image_size` is the side of images in pixels, or (height, width), if
    it differs from config.json: position embeddings are interpolated at export, as transformers does with
    interpolate_pos_encoding=True, and images are resized to it. `language`, for MMS, is the language whose
    adapter and vocabulary the bundle has, such as "fra" for adapter.fra.safetensors, as transformers loads
    them with target_lang="fra"; by default the adapter is the one among the weights, and the vocabulary that
    of target_lang in tokenizer_config.json.

    txexport.json records the path of the checkpoint relative to `out`, or its absolute path with
    `absolute_source`. `force` replaces an existing bundle. `progress` is called with the bytes done and the
    bytes in total; True shows a progress bar. `out` is written completely or not at all. Raises
    CheckpointError, UnsupportedError, BundleError, InputError, OSError for texts that cannot be read.
    """
    out = Path(arguments.out)
    with saved(arguments.source, arguments.tokenizer, out, arguments.force) as folder:
        checkpoint = merged(opened(folder, arguments.language), arguments.adapter)
        checkpoint = as_asked(checkpoint, arguments.rope_factors, arguments.pixels, arguments.language)
        resolved = families.resolve(checkpoint, arguments.task, arguments.model_type)
        if resolved.note is not None:
            warnings.warn(resolved.note, stacklevel=4)
        place = recorded(arguments.source, checkpoint, out, arguments.absolute_source)
        options = _checked_options(arguments, checkpoint, resolved)
        items = None if arguments.texts is None else samples(arguments.texts, resolved, options.dtypes)
        plan = BundlePlan(checkpoint, resolved, options)
        progress = counting(arguments.progress)
        return write_bundle(checkpoint, resolved, plan, out, place, arguments.force, progress, items)


def _checked_options(
    arguments: ExportArguments, checkpoint: Checkpoint, resolved: families.Resolved
) -> ExportOptions:
    """The options for this checkpoint. Raises InputError or UnsupportedError for those that do not apply."""
    requested = arguments.options(default_dtype=STORED if checkpoint.quantised else DEFAULT)
    check_options(requested, checkpoint)
    options = resolved_options(row_of(resolved.task, resolved.spec.architecture), requested)
    check_outputs(resolved.spec, options.outputs)
    for name, reason in getattr(families.module(resolved.model_type), "WITHOUT_OUTPUTS", {}).items():
        if name in options.outputs:
            raise UnsupportedError(f"outputs {name}: {reason}; leave them out")
    if options.only == "hub" and not for_others(resolved.spec, options.client):
        reason = WITHOUT_OTHERS.get(resolved.spec.architecture, OTHERWISE)
        layout = "--single-file" if options.single_file else "--only hub"
        option = layout if options.client is None else f"--for {options.client}"
        raise UnsupportedError(
            f"there are no graphs of {resolved.model_type} for other clients, {reason}; leave out {option}"
        )
    if options.client == roles.GENAI:
        check_genai(resolved.spec, resolved.task)
    _check_computed(options, resolved)
    return options


def _check_computed(options: ExportOptions, resolved: families.Resolved) -> None:
    """Raise InputError or UnsupportedError for what a dtype in which graphs compute cannot have."""
    computed = [name for name in options.dtypes if not options.dtype(name).single]
    if not computed:
        return
    why, every = None, signatures(resolved.spec, of_cache(options.cache)).values()
    if any(is_state(port.name) for one in every for port in one.inputs):
        why = "its states stay float32"
    elif any(map(transforms, resolved.spec.stacks.values())):
        why = "its sums over all tokens exceed float16"
    elif any(map(routes, resolved.weights)):
        why = "a rounding error selects other experts"
    if why is not None:
        raise UnsupportedError(
            f"graphs for CUDA compute in {computed[0]}, and {resolved.model_type} cannot: {why}; export "
            "float32, or bfloat16, which is stored narrow and computes in float32"
        )
    if options.keep:
        raise InputError(f"graphs for CUDA compute in {computed[0]} alone; leave out --keep")


def _split(names: str | Sequence[str]) -> list[str]:
    """Names as a list; a string has commas between them, as on the command line."""
    return names.split(",") if isinstance(names, str) else list(names)


def samples(
    texts: str | Path | Sequence[Item], resolved: families.Resolved, dtypes: Iterable[str]
) -> list[Item]:
    """The calibration texts. Raises InputError where no dtype, or not this model, can be calibrated."""
    from txexport.exporter.calibration import check_reads  # imports ONNX Runtime
    from txexport.runtime.preprocessing.text_file import items_of

    if not any(DTYPES[name].calibrates for name in dtypes):
        *able, last = (name for name, dtype in DTYPES.items() if dtype.calibrates)
        raise InputError(
            f"texts calibrate {', '.join(able)} and {last} only, not {', '.join(dtypes)}; leave them out"
        )
    check_reads(resolved.spec, resolved.task)
    return items_of(texts)
