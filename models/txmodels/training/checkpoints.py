"""Checkpoints in and out: what a model is trained from, and what its training leaves."""

import json
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import save_file

from txexport import families
from txexport.checkpoints import transformers_loading
from txexport.checkpoints.checkpoint import Checkpoint
from txexport.checkpoints.stored import FLOATS
from txexport.errors import CheckpointError, UnsupportedError
from txexport.families import Resolved, _composed
from txexport.spec import Cache
from txmodels.architectures import DualEncoderModel as DualEncoder
from txmodels.model import Transformer as Model
from txmodels.model import model as model_of

WEIGHTS = "model.safetensors"


def build(
    checkpoint: Checkpoint,
    resolved: Resolved,
    cache: Cache = Cache.DYNAMIC,
    outputs: Collection[str] = (),
) -> Model | DualEncoder:
    """The components that `resolved` asks for, filled from the checkpoint, float32, on the CPU.

    They give `outputs` of every layer too. Parameters that the checkpoint does not keep, such as sinusoids,
    are not to be trained.
    """
    spec = resolved.spec
    model: Model | DualEncoder = model_of(spec, cache, outputs)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            weight = resolved.weights[name]
            parameter.copy_(torch.from_numpy(np.concatenate(list(weight.rows(checkpoint)))))
            parameter.requires_grad_(parameter.requires_grad and bool(weight.tensors))
    return model


def load(folder: str | Path, task: str | None = None) -> Model | DualEncoder:
    """The checkpoint in `folder` as components, to be trained on.

    `task` is the one that its architecture implies. The components have no dropout, whatever config.json says
    of training. Raises UnsupportedError and CheckpointError as `txexport.export` does.
    """
    checkpoint = Checkpoint(folder)
    return build(checkpoint, families.resolve(checkpoint, task))


def create(
    folder: str | Path,
    config: Mapping[str, Any],
    architecture: str,
    seed: int = 0,
    start: str | Path | None = None,
) -> None:
    """Write an untrained checkpoint to `folder`, with the names and first numbers that transformers gives it.

    `config` is config.json's values, `architecture` a class of transformers, "BertForPreTraining". With
    `start`, a checkpoint, what its layers share with `architecture` starts from there: fine-tuning.
    """
    import transformers

    torch.manual_seed(seed)
    if start is None:
        model = getattr(transformers, architecture)(transformers.AutoConfig.for_model(**config))
    else:
        model = transformers_loading.model_from_pretrained(architecture, start, dtype=torch.float32, **config)
    model.save_pretrained(folder)


def save(
    model: Model | DualEncoder,
    folder: str | Path,
    like: str | Path | None = None,
    task: str | None = None,
    dtype: torch.dtype = torch.float32,
    settings: Mapping[str, Any] | None = None,
) -> None:
    """Write `model` as a checkpoint that `txexport export` reads.

    With `like`, a checkpoint of the same architecture, it has that one's config.json and tensor names, which
    transformers reads too; `task` is the one that it implies. Without, it is of the model_type "txexport":
    config.json holds the spec, and tensors have the components' names; such a model reads text, under one
    head. `settings` are further values of config.json, as where a decoder starts ("decoder_start_token_id")
    and ends ("eos_token_id"). Raises CheckpointError where `like` is of another architecture, and
    UnsupportedError where it is quantised, or a model needs it and there is none.
    """
    folder = Path(folder)
    own = {name: parameter.detach() for name, parameter in model.named_parameters()}
    if like is None:
        if not isinstance(model, Model):
            raise UnsupportedError("two towers are saved like a checkpoint of CLIP; give `like`")
        config = _composed.config(model.spec)
        tensors = own
    else:
        checkpoint = Checkpoint(like)
        if checkpoint.quantised:
            raise UnsupportedError(
                f"{like} is quantised; give `like` as the float checkpoint that it was made of"
            )
        config, tensors = checkpoint.config, _renamed(own, model, checkpoint, task)
    folder.mkdir(parents=True, exist_ok=True)
    config = config | dict(settings or {}) | {"dtype": str(dtype).removeprefix("torch.")}
    (folder / "config.json").write_text(json.dumps(config, indent=2) + "\n")
    packed = {name: tensor.to(dtype).contiguous() for name, tensor in tensors.items()}
    save_file(packed, folder / WEIGHTS, metadata={"format": "pt"})


def _renamed(
    own: Mapping[str, torch.Tensor], model: Model | DualEncoder, checkpoint: Checkpoint, task: str | None
) -> dict[str, torch.Tensor]:
    """The tensors of `checkpoint`, those that its task reads with the numbers of parameters `own`."""
    resolved = families.resolve(checkpoint, task)
    if model.spec != resolved.spec:
        raise CheckpointError(f"{checkpoint.folder} is of another architecture than the model to be saved")
    floats = [name for name, tensor in checkpoint.tensors.items() if tensor.dtype in FLOATS]
    stored = {name: checkpoint.read(name).copy() for name in floats}
    for parameter, weight in resolved.weights.items():
        for name in weight.tensors:
            if parameter in own:  # else it is another's, shared
                weight.take.paste(weight.take.own(stored[name]), own[parameter].numpy())
    return {name: torch.from_numpy(array) for name, array in stored.items()}
