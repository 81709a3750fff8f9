"""The design's layers: allowed imports, twins of components, sizes of functions and files, plain words."""

import graphlib
import re
from importlib import import_module
from pathlib import Path

import pytest
from helpers import plain_words
from helpers.project import ROOT, loaded_after
from helpers.source_facts import SourceFacts, facts_of
from onnxscript import OnnxFunction

pytestmark = pytest.mark.xdist_group("layout")  # whose worker reads each file once

OURS = {"txexport", "txmodels", "txgraphs"}
LIBRARIES = {
    "PIL",
    "click",
    "kenlm",
    "llguidance",
    "numpy",
    "onnx",
    "onnx_ir",
    "onnxruntime",
    "onnxscript",
    "openvino",
    "rich",
    "soundfile",
    "soxr",
    "tokenizers",
    "torch",
    "transformers",
}

# Area -> the other areas and the libraries that its files import, except the errors.
IMPORTED = {
    "txexport/__init__.py": (
        "benchmark dtype_comparison exporter inspection runtime server support verification"
    ),
    "txexport/__main__.py": "cli",
    "txexport/errors.py": "",
    "txexport/pytest_plugin.py": "runtime verification",
    "txexport/support": "numpy rich",
    "txexport/bundle": "checkpoints contracts formats parts spec support",
    "txexport/tasks": "contracts spec",
    "txexport/spec": "",
    "txexport/formats": "numpy",
    "txexport/contracts": "spec",
    "txexport/parts": "numpy contracts spec",
    "txexport/checkpoints": "numpy tokenizers transformers formats spec support",
    "txexport/families": "numpy checkpoints parts spec support tasks",
    "models/txmodels": "torch contracts parts spec",
    "models/txmodels/training": "numpy torch transformers checkpoints families spec",
    "graphs/txgraphs": "numpy onnx onnx_ir onnxscript contracts formats parts spec",
    "txexport/exporter": (
        "numpy onnx onnx_ir txgraphs bundle checkpoints contracts families formats inspection parts "
        "runtime spec support tasks"
    ),
    "txexport/inspection": (
        "onnx rich bundle checkpoints contracts families formats parts runtime spec support"
    ),
    "txexport/runtime": (
        "kenlm llguidance numpy onnxruntime openvino soundfile soxr tokenizers PIL bundle contracts support "
        "tasks"
    ),
    "txexport/dtype_comparison": "numpy rich bundle contracts formats runtime support tasks",
    "txexport/benchmark": "rich bundle dtype_comparison formats runtime support",
    "txexport/verification": (
        "numpy onnx onnx_ir onnxruntime rich torch transformers PIL txmodels bundle checkpoints contracts "
        "dtype_comparison exporter families formats inspection parts runtime spec support tasks"
    ),
    "txexport/server": "numpy runtime support tasks verification",
    "txexport/batch": "numpy runtime tasks",
    "txexport/cli": (
        "click numpy rich batch benchmark bundle checkpoints dtype_comparison exporter families formats "
        "inspection runtime server support tasks verification"
    ),
}


def area_of(path: Path) -> str:
    """The area of a file, as others import it."""
    _root, package, *_ = path.relative_to(ROOT).parts
    return package


def imports(path: Path) -> set[str]:
    """The imports of a file: other areas of txexport, and the other packages by name."""
    facts, found = facts_of(path), set()
    ours = [f"txexport.{name}" for module, name in facts.members if module == "txexport"]
    others = [str(module) for module, _name in facts.members if module != "txexport"]
    for name in (*facts.modules, *ours, *others):
        first = name.split(".")[0]
        if first == "txexport":
            found.add(name.split(".")[1])
        elif first in OURS | LIBRARIES:
            found.add(first)
    return found - {"errors", area_of(path)}


def files(area: str) -> list[Path]:
    path, within = ROOT / area, [ROOT / other for other in IMPORTED if other.startswith(f"{area}/")]
    if path.suffix:
        return [path]
    return sorted(p for p in path.rglob("*.py") if not any(p.is_relative_to(other) for other in within))


@pytest.mark.parametrize("area", IMPORTED)
def test_imports_follow_the_design(area):
    """The table lists exactly the imports that exist."""
    imported = {name: path for path in files(area) for name in imports(path)}
    listed = set(IMPORTED[area].split())
    assert {name: path for name, path in imported.items() if name not in listed} == {}
    assert listed == imported.keys()


def test_contracts_alone_spell_the_names_of_keys_and_values_and_of_graphs_files():
    roots = ("txexport", "models", "graphs", "examples", "tools/train", "tools/bench")
    for path in (path for root in roots for path in (ROOT / root).rglob("*.py")):
        if path.is_relative_to(ROOT / "txexport/contracts"):
            continue
        for text in facts_of(path).texts:
            assert not re.match(r"(past_key_values|present)\.", text), (path, text)
            assert not re.fullmatch(r"\w*model(_merged)?\.onnx", text), (path, text)
            assert text not in {"cache_lengths", "logits_indices", "encoder_hidden_states"}, (path, text)


def test_every_file_is_in_an_area():
    listed = {path for area in IMPORTED for path in files(area)}
    everything = {path for root in ("txexport", "models", "graphs") for path in (ROOT / root).rglob("*.py")}
    assert everything == listed


def modules() -> dict[str, Path]:
    """All of our modules by name."""
    found = {}
    for root in (ROOT, ROOT / "models", ROOT / "graphs"):
        for package in OURS:
            for path in (root / package).rglob("*.py"):
                parts = path.relative_to(root).with_suffix("").parts
                found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def imported(name: str, known: dict[str, Path]) -> set[str]:
    """The modules of ours that a module imports, in functions and for types too."""
    facts = facts_of(known[name])
    parts = {(module, f"{module}.{member}") for module, member in facts.members}
    found = {part if part in known else module for module, part in parts} | {*facts.modules}
    return (found & known.keys()) - {name}


def test_no_import_goes_round():
    """Modules in a cycle cannot be read, tested or moved alone."""
    known = modules()
    assert len(known) > 200
    graphlib.TopologicalSorter({name: imported(name, known) for name in known}).prepare()


def test_import_takes_no_heavy_library_along():
    heavy = {"torch", "transformers", "onnx", "onnx_ir", "onnxscript", "onnxruntime", "numpy", "tokenizers"}
    assert not loaded_after("import txexport") & heavy


def test_runtime_takes_numpy_and_tokenizers_along_and_no_more():
    loaded = loaded_after("import txexport.runtime")
    assert {"tokenizers", "numpy"} <= loaded
    assert not loaded & {"onnxruntime", "openvino"}  # an engine comes with the first bundle
    assert not loaded & {"torch", "transformers", "onnx", "onnx_ir", "onnxscript", "click", "rich", "PIL"}


@pytest.mark.parametrize("command", ["export nowhere out", "verify nowhere", "quantize nowhere --dtype int8"])
def test_a_wrong_path_costs_no_slow_import(command):
    loaded = loaded_after(
        "from click.testing import CliRunner; from txexport.cli.main import main; "
        f"assert CliRunner().invoke(main, {command.split()}).exit_code == 2"
    )
    assert not loaded & {"torch", "transformers", "onnx", "onnx_ir", "onnxscript", "onnxruntime"}


def test_exporter_takes_no_pytorch_along():
    assert not loaded_after("import txexport.exporter") & {"torch", "transformers", "onnxruntime"}


def test_public_names():
    import txexport

    assert txexport.__all__ == [
        "Model",
        "PrefixStore",
        "TracedModel",
        "TxexportError",
        "attest",
        "bench",
        "compare",
        "compare_dtypes",
        "export",
        "export_traced",
        "inspect",
        "load",
        "load_traced",
        "quantize",
        "serve",
        "to_openvino",
        "verify",
        "verify_attestation",
        "verify_here",
    ]
    assert all(callable(getattr(txexport, name)) for name in txexport.__all__)


def twin_files(package: str) -> set[str]:
    """Files of components; training has no twin."""
    files = (path.relative_to(ROOT / package) for path in (ROOT / package).rglob("*.py"))
    components = (file for file in files if not file.name.startswith("_") and file.parts[0] != "training")
    return {file.as_posix() for file in components}


def snake(name: str) -> str:
    return re.sub(r"(?<=[a-z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name).lower()


def components(module) -> set[str]:
    """Names of a twin file's public components, in snake case."""
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


HEADS = (
    "boxes",
    "depth",
    "last_map",
    "masked_lm",
    "masked_queries",
    "masks",
    "none",
    "object_masks",
    "instance_masks",
    "pose",
    "segments",
    "sequence",
    "spans",
    "speaker",
    "tokens",
)
# Specialisations of a factory, which are names in the graph only; the entry points of whole graphs; functions
# whose arguments differ from their twin's, or whose twins are methods of a base class.
SPECIALISED = {
    "inputs/log_mel.py": {"masked_sound_embedding", "every_second"},
    "mask.py": {"filled_behind", "filled_slots"},
    "feature_fusion.py": {"convolution"},
    "stack.py": {
        "biased_masks",
        "embedded",
        "final_normed",
        "fourier_context",
        "masked_attentions",
        "relative_context",
        "rotary_context",
    },
    "attention.py": {"heads_of", "mixed_heads", "shared_cross_attention", "used_slots"},
    "scaled_dot_product_attention.py": {
        "biased_mix",
        "capped_mix",
        "filled_mix",
        "own_mix",
        "plain_mix",
        "scale_of",
        "shared_mix",
    },
    "feedforward.py": {"network"},
    "grouped_linear.py": {"in_groups"},
    "adapted_linear.py": {"with_adapter"},
    "linear.py": {"linear_bias", "linear_plain", "project"},
    "grounded_stack.py": {"by_level", "flat_mask", "placed"},
    "activation.py": {"gelu", "gelu_tanh", "quick_gelu", "relu", "relu_squared", "silu", "tanh"},
    "architectures/dual_encoder.py": {"text_vectors", "signal_vectors", "dual_encoder_models"},
    "architectures/decoder.py": {"decoder_models"},
    "architectures/described_segments.py": {"by_image", "described_segments_models", "each_pair", "square"},
    "architectures/open_vocabulary.py": {"open_vocabulary_models", "turned", "without_padding"},
    "architectures/encoder.py": {"encoder_models"},
    "architectures/grounded.py": {"for_rows", "grounded_models", "text_numbers"},
    "architectures/promptable.py": {
        "of_every_image",
        "promptable_models",
        "relative_points",
        "with_no_point",
        "without_first",
    },
    "group_norm.py": {"scaled_channels"},
    "inputs/resnet.py": {"resnet_maps", "stage_maps"},
    "query_stack.py": {"first_queries", "of_every_row", "seen_places"},
    "mask_decoder.py": {"as_map", "grouped", "grouped_masks", "of_each", "of_each_prompted", "with_learned"},
    "mask_prompt.py": {"of_each_mask", "of_one_channel"},
    "window_attention.py": {"window_parts"},
    "architectures/encoder_decoder.py": {"encoder_decoder_models"},
    "architectures/cross_vision_language.py": {"cross_vision_language_models"},
    "architectures/vision_language.py": {
        "of_every_prompt",
        "vision_language_models",
        "within_tokens",
        "without_padding",
    },
    "architectures/visual_retriever.py": {"visual_retriever_models"},
    "architectures/document.py": {"document_models"},
    "model.py": {"models"},
    **{f"heads/{head}.py": {"outputs", "outputs_of_maps"} for head in HEADS},
}


# Whole models, modules without parameters and base classes, which have no function of their own.
WHOLE = {
    "inputs/resnet.py": {"residual_layers"},
    "stack.py": {"stack"},
    "model.py": {"model"},
    **{f"heads/{head}.py": {"head", "no_head"} for head in HEADS},
    **{
        f"architectures/{one}.py": {f"{one}_model"}
        for one in (
            *("decoder", "dual_encoder", "encoder", "encoder_decoder", "grounded", "open_vocabulary"),
            *("promptable", "vision_language", "cross_vision_language", "visual_retriever", "document"),
            "described_segments",
        )
    },
}
# Single operators of ONNX.
OPERATORS = {"attention.py": {"rotate", "scatter"}, "gate.py": {"scale"}}


@pytest.mark.parametrize("file", sorted(twin_files("models/txmodels")))
def test_every_component_has_its_twin(file):
    torch_half = components(import_module(f"txmodels.{file[:-3].replace('/', '.')}"))
    graph_half = components(import_module(f"txgraphs.{file[:-3].replace('/', '.')}"))
    torch_half -= WHOLE.get(file, set()) | OPERATORS.get(file, set())
    assert torch_half == graph_half - SPECIALISED.get(file, set())
    assert torch_half or file in WHOLE


def test_no_module_of_tests_imports_another():
    """Shared code belongs in a helper: a test can then be moved or run without the others."""
    modules = sorted((ROOT / "tests").rglob("*.py"))
    tests = {path.stem for path in modules if path.stem.startswith("test_")}
    assert len(tests) > 50
    for path in modules:
        facts = facts_of(path)
        assert all(module for module, _name in facts.members), path
        names = [*facts.modules, *(f"{module}.{name}" for module, name in facts.members)]
        assert not tests & {part for name in names for part in name.split(".")}, path


MOST_PARAMETERS = 10
LONGEST_FILE = 320
# Those that remain to be shortened. Nothing may be added.
MORE_PARAMETERS = {
    ("txexport/runtime/tasks/question_answering.py", "answer"),
    ("txexport/verification/verifier.py", "verify"),
}


def sources() -> list[Path]:
    """Every file of the three packages, and of the tools."""
    roots = ("txexport", "models", "graphs", "tools")
    return sorted(path for root in roots for path in (ROOT / root).rglob("*.py"))


def is_graph_leaf(path: Path, decorators: set[str]) -> bool:
    """Tell whether onnxscript compiles the function: its parameters are a graph function's inputs."""
    return path.is_relative_to(ROOT / "graphs/txgraphs") and bool(decorators & {"script", "component"})


def test_no_function_has_more_than_ten_parameters():
    """One with more arguments takes a dataclass of them; see `arguments_from`."""
    functions = [
        (path.relative_to(ROOT).as_posix(), name, parameters)
        for path in sources()
        for name, parameters, decorators in facts_of(path).functions
        if not is_graph_leaf(path, decorators)
    ]
    assert len(functions) > 3000
    wide = {(path, name) for path, name, parameters in functions if parameters > MOST_PARAMETERS}
    assert wide <= MORE_PARAMETERS


def test_files_can_be_read_in_one_sitting():
    assert [path for path in sources() if len(path.read_text().splitlines()) > LONGEST_FILE] == []


# Members of the spec's unions, which only their parts tell apart.
MEMBERS = {
    *("EncoderSpec", "DecoderSpec", "EncoderDecoderSpec", "DualEncoderSpec"),
    *("TextStackSpec", "SignalStackSpec"),
    *("EmbeddingSpec", "PatchSpec", "LogMelSpec", "SpectrogramSpec", "WaveformSpec"),
    *("WaveformStemSpec", "GatedFramesSpec"),
    *("HeadKind", "Pick"),
}
PARTS = re.compile(r"txexport/(parts|spec|families|tasks)/|tx(models|graphs)/(inputs|heads|architectures)/")


def told_apart(path: Path) -> int:
    """The places of a file that name a member of a union, other than in annotations."""
    return sum(count for name, count in facts_of(path).used.items() if name in MEMBERS)


def test_only_parts_tell_the_members_of_unions_apart():
    """A new input, head or architecture needs its own files only: no other code compares the classes."""
    roots = ("txexport", "models/txmodels", "graphs/txgraphs")
    paths = (path.relative_to(ROOT) for root in roots for path in (ROOT / root).rglob("*.py"))
    counts = {path.as_posix(): told_apart(ROOT / path) for path in paths if not PARTS.search(path.as_posix())}
    assert {path: count for path, count in counts.items() if count} == {}


def everything() -> list[SourceFacts]:
    """The facts of the packages, tests and tools."""
    roots = ("txexport", "models", "graphs", "tests", "tools")
    return [facts_of(path) for root in roots for path in (ROOT / root).rglob("*.py")]


def change(name: str, stored: int, count: int) -> str:
    """Say how a number that may only fall differs from the one stored; empty if it does not."""
    if count > stored:
        return f"{name}: {count}, at most {stored}. Use the plain term."
    return f"{name}: lower {stored} to {count}." if count < stored else ""


def test_private_phrases_do_not_come_back():
    """A reader knows the field's terms; each phrase of `helpers/plain_words.py` has one."""
    roots = ("txexport", "models", "graphs", "docs", "tests", "tools", "examples")
    paths = [path for root in roots for ext in ("py", "md") for path in (ROOT / root).rglob(f"*.{ext}")]
    paths = [path for path in [*paths, ROOT / "README.md"] if path.name != "plain_words.py"]
    assert len(paths) > 700
    text = "\n".join(" ".join(path.read_text().split()) for path in paths).lower()
    changes = [
        change(f"{phrase!r} ({plain})", stored, len(re.findall(phrase, text)))
        for phrase, (plain, stored) in plain_words.PHRASES.items()
    ]
    assert not any(changes), "\n".join(filter(None, changes))


def test_docstrings_state_and_do_not_ask():
    """One line in the imperative, or naming the thing: not What, Whether or How."""
    docstrings = [text for facts in everything() for text in facts.docstrings]
    assert len(docstrings) > 5000
    questions = sum(bool(re.match(r"(What|Whether|How)\b", text)) for text in docstrings)
    message = change("QUESTION_DOCSTRINGS", plain_words.QUESTION_DOCSTRINGS, questions)
    assert not message, message


def test_names_say_what_they_hold():
    names = [name for facts in everything() for name in facts.bound]
    assert len(names) > 20000
    habitual = sum(name in plain_words.HABITUAL_NAMES for name in names)
    message = change("HABITUAL_BINDINGS", plain_words.HABITUAL_BINDINGS, habitual)
    assert not message, message
