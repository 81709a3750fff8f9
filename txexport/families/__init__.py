"""One file a family, named after its `model_type`: facts only, from config.json to Spec, and weight names.

A family module has TASKS (task to the architectures that imply it), NAMING (how its tensor names vary),
PUBLISHED_WITH_CODE where its checkpoints carry code from before the library had it,
`spec(config, task, names)` and `table(spec)`; `names` are a Stored of the checkpoint.
"""

import importlib
import pkgutil
from dataclasses import dataclass
from types import ModuleType

from txexport.checkpoint import Checkpoint
from txexport.errors import UnsupportedError
from txexport.families._config import Config, Stored
from txexport.parameters import model as parameters
from txexport.spec import ModelSpec
from txexport.weights import Weight, resolve
from txexport.weights import names as tensor_names


@dataclass(frozen=True)
class Resolved:
    """A checkpoint understood: its family, the task, the spec, and a weight for every parameter."""

    model_type: str
    task: str
    spec: ModelSpec
    weights: dict[str, Weight]


COMPOSED = "txexport"  # the model_type of what is put together by hand, and is nobody's family

# Files of model types that are no Python names.
HYPHENATED = {"openai_gpt": "openai-gpt", "xlm_roberta": "xlm-roberta"}


def names() -> list[str]:
    """Every supported model_type."""
    files = [entry.name for entry in pkgutil.iter_modules(__path__) if not entry.name.startswith("_")]
    return sorted(HYPHENATED.get(file, file) for file in files)


def by_task() -> dict[str, list[str]]:
    """The families that support each task, tasks in the order in which families name them."""
    found: dict[str, list[str]] = {}
    for name in names():
        for task in module(name).TASKS:
            found.setdefault(task, []).append(name)
    return found


def module(model_type: str) -> ModuleType:
    """The family called `model_type`. Raises UnsupportedError with the list when there is none."""
    if model_type == COMPOSED:
        return importlib.import_module(f"{__name__}._composed")
    if model_type not in names():
        raise UnsupportedError(
            f"model_type '{model_type}' is not supported; expected one of {', '.join(names())}"
        )
    return importlib.import_module(f"{__name__}.{model_type.replace('-', '_')}")


def understand(checkpoint: Checkpoint, task: str | None = None) -> Resolved:
    """What `checkpoint` holds, for `task` or the one that its architecture implies.

    Raises UnsupportedError for what txexport has not proved, CheckpointError for what does not fit.
    """
    config = Config(checkpoint.config, checkpoint.folder / "config.json")
    model_type = config.text("model_type")
    family = module(model_type)
    config.refuse_foreign(with_code=getattr(family, "PUBLISHED_WITH_CODE", False))
    if (
        task is None
        and (checkpoint.folder / "modules.json").is_file()
        and "feature-extraction" in family.TASKS
    ):
        task = "feature-extraction"  # a sentence encoder, whatever it was trained as
    task = _task(family, config, task)
    found = tensor_names(family.NAMING, checkpoint)
    spec = family.spec(config, task, Stored(checkpoint, found))
    return Resolved(model_type, task, spec, resolve(family.table(spec), parameters(spec), checkpoint))


def _task(family: ModuleType, config: Config, task: str | None) -> str:
    known = ", ".join(family.TASKS)
    if task is None:
        architectures = config.strings("architectures")
        implied = [t for t, classes in family.TASKS.items() if set(classes) & set(architectures)]
        if not implied:
            raise UnsupportedError(
                f"config.json: architectures {architectures} implies no supported task; choose one of {known}"
            )
        task = implied[0]
    if task not in family.TASKS:
        raise UnsupportedError(
            f"task '{task}' is not supported for {config.text('model_type')}; choose one of {known}"
        )
    return task
