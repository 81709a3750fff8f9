"""optimum-onnx: validate_models_outputs, called as `optimum-cli export onnx` calls it after an export.

Its dummy inputs are not seeded; here torch, NumPy and random are seeded before each entry, so that a run
can be repeated. The tool reports a difference as a warning and exits with 0; here it counts as an alarm.
Three things are adapted in a copy of the files: axes get the names that its configuration knows, outputs
that it does not list (pooler_output) are left out, and position_ids are counted in the graph where it draws
none.
"""

import copy
import json
import logging
import random
import shutil
import tempfile
import warnings
from importlib.metadata import version
from pathlib import Path

import numpy as np
import onnx
import torch
import transformers
from optimum.exporters.onnx.convert import validate_models_outputs
from optimum.exporters.onnx.utils import _get_submodels_and_onnx_configs
from optimum.exporters.tasks import TasksManager
from worker import UnjudgedError, serve

TASKS = {
    "ForSequenceClassification": "text-classification",
    "ForTokenClassification": "token-classification",
    "ForMaskedLM": "fill-mask",
    "ForCausalLM": "text-generation-with-past",
    "LMHeadModel": "text-generation-with-past",
    "WhisperForConditionalGeneration": "automatic-speech-recognition-with-past",
    "ForConditionalGeneration": "text2text-generation-with-past",
    "MarianMTModel": "text2text-generation-with-past",
    "ForImageClassification": "image-classification",
    "CLIPModel": "zero-shot-image-classification",
    "ForCTC": "automatic-speech-recognition",
}
MERGED = "decoder_model_merged.onnx"
MODELS: dict[str, tuple] = {}


def judge(folder: Path) -> str | None:
    """Validate every graph of an export."""
    record = json.loads((folder / "entry.json").read_text(encoding="utf-8"))
    submodels, atol = _original(record["source"], folder / "checkpoint")
    with tempfile.TemporaryDirectory() as temporary:
        export = Path(shutil.copytree(folder / "export", temporary, dirs_exist_ok=True))
        files = [f"{name}.onnx" for name in submodels]
        outputs = [list(config.outputs) for _, config in submodels.values()]
        if (export / MERGED).is_file():  # it validates the merged decoder in place of the two
            submodels, files = _merged(submodels), [files[0], MERGED, MERGED]
        missing = [name for name in files if not (export / name).is_file()]
        if missing:
            raise UnjudgedError(f"no {', '.join(missing)}")
        for name, (_, config) in zip(files, submodels.values(), strict=True):
            _adapt(export / name, config)
            if unknown := _unknown(export / name, config):
                raise UnjudgedError(f"its inputs have no {', '.join(unknown)}")
        seed()
        validate_models_outputs(
            models_and_onnx_configs=submodels,
            onnx_named_outputs=outputs,
            output_dir=export,
            onnx_files_subpaths=files,
            use_subprocess=False,
            atol=atol,
        )
    return None


def _unknown(file: Path, config) -> list[str]:
    """Inputs of a graph that a configuration does not draw."""
    names = [one.name for one in onnx.load(file, load_external_data=False).graph.input]
    drawn = config.generate_dummy_inputs_for_validation(config.generate_dummy_inputs(framework="pt"), names)
    return [name for name in names if name not in drawn and not name.startswith("past_key_values")]


def seed() -> None:
    """Seed what its dummy inputs are drawn with."""
    random.seed(0)
    np.random.seed(0)
    torch.manual_seed(0)


def _task(architecture: str) -> str:
    return next((task for end, task in TASKS.items() if architecture.endswith(end)), "feature-extraction")


def _original(source: str, checkpoint: Path) -> tuple:
    """The submodels with their configurations for the export, and the tolerance; loaded once."""
    if source not in MODELS:
        config = json.loads((checkpoint / "config.json").read_text(encoding="utf-8"))
        task, model_type = _task(config["architectures"][0]), config["model_type"]
        if model_type not in TasksManager.get_supported_model_type_for_task(task, "onnx"):
            raise UnjudgedError(f"optimum does not export {model_type} for {task}")
        model = TasksManager.get_model_from_task(
            task, str(checkpoint), framework="pt", library_name="transformers", torch_dtype=torch.float32
        ).eval()
        first, submodels = _get_submodels_and_onnx_configs(
            model=model,
            task=task,
            monolith=False,
            custom_onnx_configs={},
            custom_architecture=False,
            float_dtype="fp32",
            fn_get_submodels=None,
            preprocessors=None,
            _variant="default",
            library_name="transformers",
            model_kwargs=None,
        )
        atol = first.ATOL_FOR_VALIDATION
        if isinstance(atol, dict):
            atol = atol[task.replace("-with-past", "")]
        MODELS[source] = submodels, atol
    return MODELS[source]


def _merged(submodels: dict) -> dict:
    """The submodels as after its merging of decoders: both are in one file, by use_cache_branch."""
    result = {name: (model, copy.deepcopy(config)) for name, (model, config) in submodels.items()}
    for (_, config), branch in zip(list(result.values())[1:], (False, True), strict=True):
        config.is_merged, config.use_cache_branch = True, branch
        if not branch:
            config.use_past_in_inputs = True
    return result


def _adapt(file: Path, config) -> None:
    """Give a graph the axis names of a configuration, and only its outputs."""
    model = onnx.load(file)
    listed = [one for one in model.graph.output if one.name in config.outputs]
    del model.graph.output[:]
    model.graph.output.extend(listed)
    for values, axes in ((model.graph.input, config.inputs), (model.graph.output, config.outputs)):
        for one in values:
            for place, dim in enumerate(one.type.tensor_type.shape.dim):
                if dim.dim_param and axes.get(one.name, {}).get(place):
                    dim.dim_param = axes[one.name][place]
    if "position_ids" not in config.inputs and any(one.name == "position_ids" for one in model.graph.input):
        _count_positions(model)
    onnx.save(model, file)


def _count_positions(model: onnx.ModelProto) -> None:
    """Replace position_ids by the places of the tokens, which a model takes that is not told positions."""
    inputs = [one for one in model.graph.input if one.name != "position_ids"]
    past = next(one.name for one in inputs if one.name.startswith("past_key_values"))
    del model.graph.input[:]
    model.graph.input.extend(inputs)
    constants = {"place.0": np.array(0), "place.1": np.array(1)}
    model.graph.initializer.extend(onnx.numpy_helper.from_array(one, name) for name, one in constants.items())
    nodes = [
        onnx.helper.make_node("Mul", ["input_ids", "place.0"], ["place.zeros"]),
        onnx.helper.make_node("Add", ["place.zeros", "place.1"], ["place.ones"]),
        onnx.helper.make_node("CumSum", ["place.ones", "place.1"], ["place.counted"]),
        onnx.helper.make_node("Sub", ["place.counted", "place.1"], ["place.new"]),
        onnx.helper.make_node("Shape", [past], ["place.past"], start=2, end=3),
        onnx.helper.make_node("Add", ["place.new", "place.past"], ["position_ids"]),
        *model.graph.node,
    ]
    del model.graph.node[:]
    model.graph.node.extend(nodes)


if __name__ == "__main__":
    warnings.filterwarnings("ignore")
    logging.disable(logging.WARNING)
    transformers.logging.set_verbosity_error()
    names = ("optimum-onnx", "transformers", "torch", "onnxruntime")
    serve(judge, {name: version(name).partition("+")[0] for name in names})
