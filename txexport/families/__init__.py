"""Model families, one file each, named after its `model_type`: config.json to spec, and tensor names.

A family module has
TASKS, each task with the architectures that imply it,
NAMING, the variations of its tensor names,
ALIASES, other names that transformers has for values of config.json; they take precedence,
PUBLISHED_WITH_CODE where its checkpoints carry code from before transformers had it,
`published(config)` where that code has a config of its own, which PUBLISHED_BY names,
LIBRARY_NAMES where transformers needs its tensors renamed, split or left out,
`spelt_out(config)` where a version of transformers misreads config.json, or builds a part of it with another
library: the values that all versions read correctly and the reason, or None,
`main_task(config)` where config.json tells for which of several tasks a class was trained,
`variant(config)` where some checkpoints under its name belong to another family,
REFUSED, classes under its name that are other models, with the reason,
WITHOUT_OUTPUTS, outputs of layers that the original has at other places, with the reason,
ORIGINAL_OF, the family whose classes it has in transformers; a config.json without model_type is of that one,
ORIGINALS, classes of transformers that the automatic ones do not know,
ARGUMENTS, arguments that transformers' model is called with, to read what our graphs read,
SHUFFLES, true where the original orders patches by random numbers, RETURNS_SCORES, true where its
output_attentions are scores before the softmax,
`spec(config, task, names)` and `table(spec)`; `names` are a TensorNames of the checkpoint.
A family whose config.json names the families of its parts has `table_of(config, task, names)` instead of
`table`.
"""

import importlib
import pkgutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

from txexport.checkpoints import weight_resolution
from txexport.checkpoints.checkpoint import Checkpoint, read_json
from txexport.checkpoints.colbert import is_colbert
from txexport.checkpoints.weight_resolution import Weight
from txexport.errors import CheckpointError, InputError, SpecError, UnsupportedError
from txexport.families._config import Config, Room, TensorNames
from txexport.families._rope import promised
from txexport.families._unknown import advice
from txexport.parts import parameters
from txexport.spec import AttentionSpec, BlockSpec, HeadKind, ModelSpec
from txexport.support.aliases import task_named
from txexport.tasks import TASKS, tasks_of_method


@dataclass(frozen=True)
class Resolved:
    """A checkpoint resolved to its family, task, spec, and a weight for every parameter.

    `original` is the class of transformers that it was saved from, where no automatic class is registered.
    `promised` is the longest sequence that config.json promises, by its kind of rotary scaling; empty where
    the spec's limit is at least as long. `translated` is config.json by the library's names, where its own
    are those of other code. `spelt_out` is config.json in a form that every version of transformers reads
    correctly, and `note` says what it states.
    """

    model_type: str
    task: str
    spec: ModelSpec
    weights: dict[str, Weight]
    original: str | None = None
    promised: dict[str, int] = field(default_factory=dict)
    translated: Mapping[str, Any] | None = None
    spelt_out: Mapping[str, Any] | None = None
    note: str | None = None


VECTORS = tasks_of_method("embed")[0]
COMPOSED = "txexport"  # the model_type of models that txmodels saved without a family

# Families by what config.json says of published code: a model_type, or a class of configs.
PUBLISHED_BY = {
    "new": "gte",
    "JinaBertConfig": "jina_bert",
    "XLMRobertaFlashConfig": "jina_embeddings_v3",
}
# Family files without a model_type of transformers, and why they have no original in the library.
OWN_CODE = "code of its own, which is never run, and of which transformers has no original"
WITHOUT_ORIGINAL = {
    COMPOSED: ("_composed", "put together by hand, of which transformers has no original"),
    "jina_bert": ("_jina_bert", OWN_CODE),
    "nomic_bert_moe": ("_nomic_bert_moe", OWN_CODE),
}
# Decoders whose original has no key/value cache, by model_type, and the sentence for reports.
WITHOUT_CACHE = {
    "openai-gpt": "OpenAIGPTLMHeadModel keeps no keys and values",
    "recurrent_gemma": "RecurrentGemmaForCausalLM returns none, and keeps its states in its layers",
}

# Files of model types that are not valid Python names.
HYPHENATED = {
    "audio_spectrogram_transformer": "audio-spectrogram-transformer",
    "bert_generation": "bert-generation",
    "blenderbot_small": "blenderbot-small",
    "dab_detr": "dab-detr",
    "data2vec_audio": "data2vec-audio",
    "data2vec_text": "data2vec-text",
    "deberta_v2": "deberta-v2",
    "donut_swin": "donut-swin",
    "encoder_decoder": "encoder-decoder",
    "megatron_bert": "megatron-bert",
    "modernbert_decoder": "modernbert-decoder",
    "openai_gpt": "openai-gpt",
    "roberta_prelayernorm": "roberta-prelayernorm",
    "speech_encoder_decoder": "speech-encoder-decoder",
    "unispeech_sat": "unispeech-sat",
    "grounding_dino": "grounding-dino",
    "vision_encoder_decoder": "vision-encoder-decoder",
    "wav2vec2_bert": "wav2vec2-bert",
    "wav2vec2_conformer": "wav2vec2-conformer",
    "data2vec_vision": "data2vec-vision",
    "table_transformer": "table-transformer",
    "xlm_roberta": "xlm-roberta",
    "xlm_roberta_xl": "xlm-roberta-xl",
}


FILES = [entry.name for entry in pkgutil.iter_modules(__path__) if not entry.name.startswith("_")]
NAMES = sorted(HYPHENATED.get(file, file) for file in FILES if file != "presets")


def names() -> list[str]:
    """Every supported model_type."""
    return [*NAMES]


def without_library() -> list[str]:
    """Every supported family that is in no library; its reference is its PyTorch twin."""
    return [name for name, (_, why) in WITHOUT_ORIGINAL.items() if why == OWN_CODE]


def by_task() -> dict[str, list[str]]:
    """The families that support each task; tasks in the order in which families list them."""
    result: dict[str, list[str]] = {}
    for name in sorted([*names(), *without_library()]):
        for task in module(name).TASKS:
            result.setdefault(task, []).append(name)
    return result


def module(model_type: str) -> ModuleType:
    """The module of the family `model_type`. Raises UnsupportedError, with the nearest, if there is none."""
    if model_type in WITHOUT_ORIGINAL:
        return importlib.import_module(f"{__name__}.{WITHOUT_ORIGINAL[model_type][0]}")
    if model_type not in NAMES:
        raise UnsupportedError(f"model_type '{model_type}' is not supported{advice(model_type, names())}")
    return importlib.import_module(f"{__name__}.{model_type.replace('-', '_')}")


def resolve(checkpoint: Checkpoint, task: str | None = None, model_type: str | None = None) -> Resolved:
    """Resolve `checkpoint` for `task`, or for the task that its architecture implies.

    `model_type` is for a config.json that names neither a model_type nor an architecture of one family.
    Raises UnsupportedError for what txexport has not proved, CheckpointError for what does not fit,
    InputError for a `model_type` that contradicts config.json.
    """
    room, requested = Room.of(checkpoint), task
    task = task_named(task) if task else checkpoint.task
    config = Config(checkpoint.config, checkpoint.config_file, room)
    model_type, translated = _model_type(config, checkpoint, model_type), None
    family = module(model_type)
    if hasattr(family, "variant"):
        model_type = family.variant(config)
        family = module(model_type)
    if _published_by(config) is not None and hasattr(family, "published"):
        config = family.published(config)
        model_type, translated = config.text("model_type"), config.values
        family = module(model_type)
    if requested is None and task == VECTORS and VECTORS not in family.TASKS:
        task = None  # of an adapter, which may be for vectors of another kind
    config = config.renamed(getattr(family, "ALIASES", {}))
    config.check_supported(with_code=getattr(family, "PUBLISHED_WITH_CODE", False))
    sentences = _is_sentence_encoder(checkpoint.folder) or is_colbert(checkpoint)
    if task is None and VECTORS in family.TASKS and sentences:
        task = VECTORS  # a sentence encoder, whatever task it was trained for
    stored = weight_resolution.names(family.NAMING, checkpoint)
    passed_over = getattr(family, "ORIGINALS", ())
    original = next((name for name in config.strings("architectures") if name in passed_over), None)
    first: CheckpointError | None = None
    for one in _tasks(family, model_type, config, task):
        try:
            tensors = TensorNames(checkpoint, stored)
            spec = _spec(family, config, one, tensors)
            of_parts = hasattr(family, "table_of")
            table = family.table_of(config, one, tensors) if of_parts else family.table(spec)
            weights = weight_resolution.resolve(table, parameters(spec), checkpoint)
        except CheckpointError as error:
            first = first or error
        else:
            respelt = family.spelt_out(config) if hasattr(family, "spelt_out") else None
            spelt_out, note = respelt or (None, None)
            return Resolved(
                model_type=model_type,
                task=one,
                spec=spec,
                weights=weights,
                original=original,
                promised=_promised(config, spec),
                translated=translated,
                spelt_out=spelt_out,
                note=note,
            )
    assert first is not None
    raise first


def _model_type(config: Config, checkpoint: Checkpoint, model_type: str | None) -> str:
    """The family of published code, or config.json's, or that of its architectures, or `model_type`."""
    if (published := _published_by(config)) is not None:
        candidates = {published}
    elif config.values.get("model_type") is not None:
        candidates = {config.text("model_type")}
    else:
        apart = [name for name in names() if not hasattr(module(name), "ORIGINAL_OF")]
        names_of = {name: {c for classes in module(name).TASKS.values() for c in classes} for name in apart}
        architectures = set(config.strings("architectures"))
        candidates = {name for name, classes in names_of.items() if classes & architectures}
    if len(candidates) == 1:
        (only,) = candidates
        if model_type not in (None, only):
            raise InputError(f"model_type is '{model_type}', but {config.path} is of a {only}; leave it out")
        return only
    if model_type is None:
        raise CheckpointError(
            f"{config.path}: 'model_type' is missing, and `architectures` does not determine it; set it with "
            f"--model-type, such as {_by_names(checkpoint)}"
        )
    return model_type


def _published_by(config: Config) -> str | None:
    """The family of published code that config.json names, if any: by model_type or config class."""
    code = config.table("auto_map").values.get("AutoConfig")
    candidates = (config.values.get("model_type"), code.rpartition(".")[2] if isinstance(code, str) else None)
    return next(
        (PUBLISHED_BY[name] for name in candidates if isinstance(name, str) and name in PUBLISHED_BY), None
    )


def _by_names(checkpoint: Checkpoint) -> str:
    """Families whose tensor prefix is the checkpoint's, as a phrase; bert as the example where none is.

    Several may have the same prefix, so that this is for advice alone.
    """
    firsts = {f"{name.partition('.')[0]}." for name in checkpoint.tensors}
    alike = [name for name in names() if module(name).NAMING.prefix in firsts]
    return " or ".join(alike) if 0 < len(alike) <= 4 else "bert"


def _is_sentence_encoder(folder: Path) -> bool:
    """Tell whether sentence-transformers' files describe a sentence encoder, and not a cross-encoder."""
    named = folder / "config_sentence_transformers.json"
    crossed = named.is_file() and read_json(named).get("model_type") == "CrossEncoder"
    return (folder / "modules.json").is_file() and not crossed


def _spec(family: ModuleType, config: Config, task: str, names: TensorNames) -> ModelSpec:
    """The spec that config.json describes, no larger than the checkpoint.

    Values that no check foresaw are refused here too: width 0 to a negative power, a list for a number.
    """
    try:
        spec = family.spec(config, task, names)
    except SpecError as error:
        raise config.refused(error) from error
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        raise CheckpointError(f"{config.path} describes no model: {error!r}") from error
    layers = sum(
        stack.num_layers * max((_experts(block) for block in stack.blocks), default=0)
        for stack in spec.stacks.values()
    )
    if layers > 2 * config.room.count:  # two stacks
        raise CheckpointError(
            f"{config.path} describes {layers} layers, but there are tensors for at most {config.room.count}"
        )
    return spec


def _promised(config: Config, spec: ModelSpec) -> dict[str, int]:
    """See `Resolved.promised`; only rotary positions are scaled."""
    (stack, *_) = spec.stacks.values()
    if spec.stacks.keys() == {"vision", "decoder"}:  # of images beside texts
        stack = spec.stacks["decoder"]
    config = config.text_model().with_defaults(max_position_embeddings=stack.limit)
    attention = next((block.attention for block in stack.blocks if block.has_keys), None)
    rotates = isinstance(attention, AttentionSpec) and attention.rotary is not None
    return promised(config, stack.limit) if rotates and stack.limit is not None else {}


def _experts(block: BlockSpec) -> int:
    return 1 if block.experts is None else block.experts.num_experts


LANGUAGE_MODEL = ("ForPreTraining", "LMHeadModel")  # earlier releases had several heads under that name


def _tasks(family: ModuleType, model_type: str, config: Config, task: str | None) -> list[str]:
    """The task requested, or the candidates that the architecture implies; the first that fits is used."""
    known, architectures = ", ".join(family.TASKS), config.strings("architectures")
    for name, why in getattr(family, "REFUSED", {}).items():
        if name in architectures:
            raise UnsupportedError(f"{config.path}: architecture '{name}' is not supported: {why}")
    if task is not None:
        if task not in family.TASKS:
            raise UnsupportedError(f"task '{task}' is not supported for {model_type}; choose one of {known}")
        return [task]
    implied = [t for t, classes in family.TASKS.items() if set(classes) & set(architectures)][:1]
    implied = [family.main_task(config)] if implied and hasattr(family, "main_task") else implied
    if any(name.endswith(LANGUAGE_MODEL) for name in architectures):
        heads = [t for t in family.TASKS if TASKS[t].head in (HeadKind.MASKED_LM, HeadKind.CAUSAL_LM)]
        return list(dict.fromkeys([*implied, *heads]))
    if implied:
        return implied
    if all(name.endswith("Model") for name in architectures):  # no head, or no architecture is named
        return list(dict.fromkeys([next(iter(family.TASKS)), *({VECTORS} & family.TASKS.keys())]))
    raise UnsupportedError(
        f"config.json: architectures {architectures} implies no supported task; choose one of {known}"
    )
