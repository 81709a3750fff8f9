"""What a reader of DESIGN relies on: who imports whom, and that no component lacks its twin."""

import ast
import re
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest
from onnxscript import OnnxFunction

ROOT = Path(__file__).parent.parent
OURS = {"txexport", "txmodels", "txgraphs"}
LIBRARIES = {
    "PIL",
    "click",
    "numpy",
    "onnx",
    "onnx_ir",
    "onnxruntime",
    "onnxscript",
    "openvino",
    "rich",
    "tokenizers",
    "torch",
    "transformers",
}

# Area -> what its files may import of ours and of the libraries, beyond spec and errors.
ALLOWED = {
    "txexport/__init__.py": "exporter inspection parity runtime",
    "txexport/kinds.py": "",
    "txexport/spec.py": "",
    "txexport/spec_block.py": "",
    "txexport/spec_head.py": "",
    "txexport/spec_input.py": "",
    "txexport/spec_json.py": "",
    "txexport/spec_sparse.py": "",
    "txexport/errors.py": "",
    "txexport/arguments.py": "numpy paths",
    "txexport/printable.py": "",
    "txexport/parameters.py": "",
    "txexport/paths.py": "",
    "txexport/swap.py": "",
    "txexport/bundle.py": "arguments paths swap",
    "txexport/staging.py": "bundle swap",
    "txexport/checkpoint.py": "numpy paths",
    "txexport/weights.py": "numpy checkpoint parameters",
    "txexport/families": "numpy checkpoint families parameters weights",
    "models/txmodels": "torch txmodels",
    "models/txmodels/training": "numpy torch transformers txmodels checkpoint families original",
    "graphs/txgraphs": "onnxscript onnx_ir txgraphs parameters",
    "txexport/weight_file.py": "numpy onnx_ir bundle checkpoint weights",
    "txexport/exporter.py": (
        "numpy onnx onnx_ir txgraphs arguments bundle checkpoint families staging tokenizer_file weight_file "
        "weights"
    ),
    "txexport/original.py": "transformers",
    "txexport/tokenizer_file.py": "tokenizers checkpoint original",
    "txexport/runtime": "numpy onnxruntime tokenizers PIL arguments bundle paths runtime",
    "txexport/parity": (
        "numpy onnx onnx_ir onnxruntime openvino torch transformers rich txmodels "
        "arguments bundle checkpoint costs exporter families original parameters parity paths printable "
        "runtime tokenizer_file weight_file"
    ),
    "txexport/pytest_plugin.py": "parity runtime",
    "txexport/similarity.py": "numpy rich",
    "txexport/answer_table.py": "rich",
    "txexport/cli_compare.py": "click rich cli_options parity printable",
    "txexport/cli_generate.py": "click cli_options runtime",
    "txexport/cli_options.py": "click rich answer_table parity runtime",
    "txexport/cli_tasks.py": "click rich cli_options similarity",
    "txexport/counts.py": "parameters",
    "txexport/costs.py": "counts parameters",
    "txexport/outline.py": "",
    "txexport/operators.py": "onnx bundle",
    "txexport/inspection.py": "arguments bundle checkpoint costs counts families operators outline",
    "txexport/inspection_table.py": "rich bundle inspection operators",
    "txexport/presets.py": "families",
}


def imports(path: Path) -> set[str]:
    """What a file imports: parts of txexport, and the other packages by name."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        names = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = [node.module]
            if node.module == "txexport":
                names = [f"txexport.{alias.name}" for alias in node.names]
        for name in names:
            first = name.split(".")[0]
            if first == "txexport":
                found.add(name.split(".")[1])
            elif first in OURS | LIBRARIES:
                found.add(first)
    specs = {"spec", "spec_block", "spec_head", "spec_input", "spec_json", "spec_sparse"}
    return found - specs - {"kinds", "errors"}


def files(area: str) -> list[Path]:
    path, within = ROOT / area, [ROOT / other for other in ALLOWED if other.startswith(f"{area}/")]
    if path.suffix:
        return [path]
    return sorted(p for p in path.rglob("*.py") if not any(p.is_relative_to(other) for other in within))


@pytest.mark.parametrize("area", ALLOWED)
def test_imports_follow_the_design(area):
    assert files(area)
    for path in files(area):
        assert imports(path) <= set(ALLOWED[area].split()), path


def test_every_file_is_in_an_area():
    listed = {path for area in ALLOWED for path in files(area)}
    everything = {path for root in ("txexport", "models", "graphs") for path in (ROOT / root).rglob("*.py")}
    assert everything - listed == {ROOT / "txexport/cli.py", ROOT / "txexport/__main__.py"}


def loaded_after(statement: str) -> set[str]:
    code = f"import sys; {statement}; print(*{{name.split('.')[0] for name in sys.modules}})"
    return set(
        subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True
        ).stdout.split()
    )


def test_import_takes_no_heavy_library_along():
    heavy = {"torch", "transformers", "onnx", "onnx_ir", "onnxscript", "onnxruntime", "numpy", "tokenizers"}
    assert not loaded_after("import txexport") & heavy


def test_runtime_takes_numpy_onnxruntime_and_tokenizers_along_and_no_more():
    loaded = loaded_after("import txexport.runtime")
    assert {"onnxruntime", "tokenizers", "numpy"} <= loaded
    assert not loaded & {"torch", "transformers", "onnx", "onnx_ir", "onnxscript", "click", "rich", "PIL"}


def test_exporter_takes_no_pytorch_along():
    assert not loaded_after("import txexport.exporter") & {"torch", "transformers", "onnxruntime"}


def test_public_names():
    import txexport

    assert txexport.__all__ == [
        "Model",
        "TxexportError",
        "compare",
        "export",
        "inspect",
        "load",
        "verify",
    ]
    assert all(callable(getattr(txexport, name)) for name in txexport.__all__)


def twin_files(package: str) -> set[str]:
    """Components; what trains them has no twin."""
    return {path.name for path in (ROOT / package).glob("*.py") if not path.name.startswith("_")}


def snake(name: str) -> str:
    return re.sub(r"(?<=[a-z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name).lower()


def components(module) -> set[str]:
    """Names of a twin file's public components, as its graph half writes them."""
    found = set()
    for name, value in vars(module).items():
        public = not name.startswith("_") and getattr(value, "__module__", "") == module.__name__
        if isinstance(value, OnnxFunction):
            public = not name.startswith("_") and value.function.__module__ == module.__name__
        if public and (isinstance(value, OnnxFunction) or callable(value)):
            found.add(snake(name))
    return found


def test_every_file_has_its_twin():
    assert twin_files("models/txmodels") == twin_files("graphs/txgraphs") != set()


# A factory's specialisations, which are names in the graph only; and the entry points of whole graphs.
SPECIALISED = {
    "attention.py": {"biased_mix", "capped_mix"},
    "linear.py": {"linear_bias", "linear_plain"},
    "activation.py": {"gelu", "gelu_tanh", "quick_gelu", "relu", "silu", "tanh"},
    "towers.py": {"text_vectors", "image_vectors", "similarity_model"},
    "model.py": {"models", "encoder_model", "decoder_model", "tower_models"},
}


# Whole models, which the graphs' entry points put together.
WHOLE = {"model.py": {"model"}, "towers.py": {"towers"}}


@pytest.mark.parametrize("file", sorted(twin_files("models/txmodels")))
def test_every_component_has_its_twin(file):
    torch_half = components(import_module(f"txmodels.{file[:-3]}"))
    graph_half = components(import_module(f"txgraphs.{file[:-3]}"))
    torch_half -= WHOLE.get(file, set())
    assert torch_half == graph_half - SPECIALISED.get(file, set())
    assert torch_half or file in WHOLE
