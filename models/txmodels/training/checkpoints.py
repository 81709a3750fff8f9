"""Read a checkpoint to train from, and save a trained model."""

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
from txexport.checkpoints.weight_map import normalised
from txexport.errors import CheckpointError, UnsupportedError
from txexport.families import Resolved, _composed
from txexport.spec import Cache
from txmodels.architectures import DualEncoderModel
from txmodels.model import Transformer
from txmodels.model import model as model_of

WEIGHTS = "model.safetensors"


def build(
    checkpoint: Checkpoint,
    resolved: Resolved,
    cache: Cache = Cache.DYNAMIC,
    outputs: Collection[str] = (),
) -> Transformer | DualEncoderModel:
    """Build the components that `resolved` describes, with the checkpoint's weights, float32, on the CPU.

    They also return the `outputs` of every layer. Parameters that the checkpoint does not store, such as
    sinusoids, are not to be trained.
    """
    spec = resolved.spec
    model: Transformer | DualEncoderModel = model_of(spec, cache, outputs)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            weight = resolved.weights[name]
            parameter.copy_(torch.from_numpy(np.concatenate(list(weight.rows(checkpoint)))))
            parameter.requires_grad_(parameter.requires_grad and bool(weight.tensors))
    return model


def load(folder: str | Path, task: str | None = None) -> Transformer | DualEncoderModel:
    """Load the checkpoint in `folder` as components to be trained further.

    `task` defaults to the one that its architecture implies. The components have no dropout, whatever
    config.json says. Raises UnsupportedError and CheckpointError as `txexport.export` does.
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
    """Write an untrained checkpoint to `folder`, with the tensor names and initial weights of transformers.

    `config` holds the values of config.json; `architecture` is a class of transformers, "BertForPreTraining".
    With `start`, a checkpoint, the layers shared with `architecture` are initialised from it: fine-tuning.
    """
    import transformers

    torch.manual_seed(seed)
    if start is None:
        model = getattr(transformers, architecture)(transformers.AutoConfig.for_model(**config))
    else:
        model = transformers_loading.model_from_pretrained(architecture, start, dtype=torch.float32, **config)
    model.save_pretrained(folder)


def save(
    model: Transformer | DualEncoderModel,
    folder: str | Path,
    like: str | Path | None = None,
    task: str | None = None,
    dtype: torch.dtype = torch.float32,
    settings: Mapping[str, Any] | None = None,
) -> None:
    """Write `model` as a checkpoint that `txexport export` reads.

    With `like`, a checkpoint of the same architecture, its config.json and tensor names are used, so that
    transformers reads the result too; `task` defaults to the one it implies. Without `like`, the model_type
    is "txexport": config.json holds the spec and tensors have the components' names; such a model reads text
    and has one head. `settings` are further values of config.json, such as "decoder_start_token_id" and
    "eos_token_id". Raises CheckpointError where `like` is of another architecture, and UnsupportedError where
    `like` is quantised, or is needed and missing.
    """
    folder = Path(folder)
    parameters = {name: parameter.detach() for name, parameter in model.named_parameters()}
    if like is None:
        if not isinstance(model, Transformer):
            raise UnsupportedError("two towers are saved like a checkpoint of CLIP; give `like`")
        config = _composed.config(model.spec)
        tensors = parameters
    else:
        checkpoint = Checkpoint(like)
        if checkpoint.quantised:
            raise UnsupportedError(
                f"{like} is quantised; give `like` as the float checkpoint that it was made of"
            )
        config, tensors = checkpoint.config, _renamed(parameters, model, checkpoint, task)
    folder.mkdir(parents=True, exist_ok=True)
    config = config | dict(settings or {}) | {"dtype": str(dtype).removeprefix("torch.")}
    (folder / "config.json").write_text(json.dumps(config, indent=2) + "\n")
    packed = {name: tensor.to(dtype).contiguous() for name, tensor in tensors.items()}
    save_file(packed, folder / WEIGHTS, metadata={"format": "pt"})


def _renamed(
    own: Mapping[str, torch.Tensor],
    model: Transformer | DualEncoderModel,
    checkpoint: Checkpoint,
    task: str | None,
) -> dict[str, torch.Tensor]:
    """The tensors of `checkpoint`, with those that its task reads replaced by the parameters `own`."""
    resolved = families.resolve(checkpoint, task)
    if model.spec != resolved.spec:
        raise CheckpointError(f"{checkpoint.folder} is of another architecture than the model to be saved")
    floats = [name for name, tensor in checkpoint.tensors.items() if tensor.dtype in FLOATS]
    stored = {name: checkpoint.read(name).copy() for name in floats}
    for parameter, weight in resolved.weights.items():
        if parameter not in own:  # shared with another parameter
            continue
        numbers = own[parameter].numpy()
        if weight.norms:
            _store_normalised(stored[weight.tensors[0]], stored[weight.norms], numbers)
            continue
        if weight.joined:
            numbers = _store_apart([stored[name] for name in weight.joined], numbers)
        for name in weight.tensors:
            weight.take.paste(weight.take.own(stored[name]), numbers)
    return {name: torch.from_numpy(array) for name, array in stored.items()}


def _store_apart(last: list[np.ndarray], weight: np.ndarray) -> np.ndarray:
    """Store the last rows of a weight as its last tensors; return the others, which are the first one's."""
    ends = np.cumsum([len(one) for one in reversed(last)])[::-1]
    for one, end in zip(last, ends, strict=True):
        one[...] = weight[len(weight) - end :][: len(one)]
    return weight[: len(weight) - ends[0]]


def _store_normalised(direction: np.ndarray, norms: np.ndarray, weight: np.ndarray) -> None:
    """Store a weight (...,K) as its direction and norms, unless those stored are of that weight."""
    if not np.array_equal(normalised(direction, norms), weight):
        direction[...] = weight
        slices = tuple(range(weight.ndim - 1))
        norms[...] = np.sqrt(np.square(weight).sum(axis=slices)).reshape(norms.shape)
