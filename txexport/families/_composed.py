"""A model saved by txmodels: config.json holds the spec, tensors have the components' names.

`txmodels.training.checkpoints.save` writes it; no other library has an original of it.
"""

from txexport import tasks
from txexport.checkpoints.weight_map import Naming, Table
from txexport.errors import CheckpointError, SpecError, UnsupportedError
from txexport.families import COMPOSED
from txexport.families._config import Config, TensorNames
from txexport.parts import parameters
from txexport.spec import (
    DecoderSpec,
    EncoderDecoderSpec,
    EncoderSpec,
    ModelSpec,
    TextStackSpec,
    serialization,
)

PLAIN = tuple(task.name for task in tasks.ROWS if tasks.first_of_head(task.head) is task)
TRANSLATION = "text2text-generation"  # an encoder-decoder under a decoder's head
TASKS = {task: (task,) for task in (*PLAIN, TRANSLATION)}

NAMING = Naming()


def task_of(spec: ModelSpec) -> str:
    """The task of a model of that spec. Raises UnsupportedError where none is known."""
    match spec:
        case EncoderSpec(encoder=TextStackSpec(), next_sentence=None, distilled=False) | DecoderSpec():
            return tasks.first_of_head(spec.head.kind).name
        case EncoderDecoderSpec():
            return TRANSLATION
        case _:
            raise UnsupportedError(
                "a model composed of txmodels reads text, and has one head; "
                "save this one with save(..., like=CHECKPOINT)"
            )


def config(spec: ModelSpec) -> dict:
    """The config.json of a model of that spec."""
    return {"model_type": COMPOSED, "architectures": [task_of(spec)], "spec": serialization.to_dict(spec)}


def spec(config: Config, task: str, names: TensorNames) -> ModelSpec:
    """The architecture that config.json holds."""
    try:
        result: ModelSpec = serialization.from_dict(ModelSpec, dict(config.table("spec").values))
    except SpecError as error:
        raise CheckpointError(f"{config.path}: {error}") from None
    if task_of(result) != task:
        raise UnsupportedError(f"{config.path}: this model is for {task_of(result)}, not for {task}")
    return result


def table(spec: ModelSpec) -> Table:
    """Map every parameter to the tensor of the same name."""
    return Table({name: name for name in parameters(spec)})
