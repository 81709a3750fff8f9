"""Without an extra, the error names the extra to install."""

import re
import subprocess
import sys
import tomllib

import pytest
from helpers.project import ROOT

from txexport.errors import EXTRAS

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
ENCODER = ROOT / "models/pretrained/code-tagger"

WITHOUT = """
import sys

class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in {names}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, Missing())
"""


def answer(missing: set[str], code: str, *arguments: object) -> subprocess.CompletedProcess:
    """Python's output for `code` where the packages `missing` are not installed."""
    command = [sys.executable, "-c", WITHOUT.format(names=missing) + code, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


CAUGHT = "import txexport\ntry:\n    {}\nexcept txexport.TxexportError as error:\n    print(error)"


def by(extra: str) -> str:
    """The two ways to install an extra: from an index of packages, and in a checkout."""
    return f"pip install '.[{extra}]' in a checkout of txexport"


@pytest.mark.parametrize(
    ("missing", "statement", "said"),
    [
        (
            "onnxruntime",
            "txexport.load('out')",
            "running a bundle needs onnxruntime, which is not installed; "
            + by("cpu")
            + ", or gpu in place of cpu",
        ),
        (
            "onnxruntime",
            "import txexport.runtime; txexport.runtime.load('out')",
            "running a bundle needs onnxruntime, which is not installed; "
            + by("cpu")
            + ", or gpu in place of cpu",
        ),
        (
            "openvino",
            "txexport.load('out', engine='openvino')",
            "running a bundle needs openvino, which is not installed; " + by("openvino"),
        ),
        (
            "openvino",
            "txexport.to_openvino('out', 'model')",
            "writing OpenVINO's format needs openvino, which is not installed; " + by("openvino"),
        ),
        (
            "onnx",
            "txexport.export('checkpoint', 'out')",
            "export needs onnx, which is not installed; " + by("export"),
        ),
        (
            "onnx_ir",
            "txexport.export('checkpoint', 'out')",
            "export needs onnx_ir, which is not installed; " + by("export"),
        ),
        (
            "onnxscript",
            "txexport.export('checkpoint', 'out')",
            "export needs onnxscript, which is not installed; " + by("export"),
        ),
        (
            "onnx",
            "txexport.inspect('out')",
            "inspect needs onnx, which is not installed; " + by("export"),
        ),
        (
            "onnx",
            "txexport.verify('out')",
            "verify needs onnx, which is not installed; " + by("verify"),
        ),
        (
            "onnx",
            "from txexport.verification import compare",
            "compare needs onnx, which is not installed; " + by("export"),
        ),
    ],
)
def test_function_says_which_extra_it_lacks(missing, statement, said):
    result = answer({missing}, CAUGHT.format(statement))
    assert (result.stdout, result.stderr) == (f"{said}\n", "")


CHAT = "import txexport.runtime.preprocessing.chat as chat; chat.prompt('out', chat.Conversation([]))"


@pytest.mark.parametrize(
    ("missing", "statement", "said"),
    [
        (
            "jinja2",
            CHAT,
            "a chat template needs jinja2, which is not installed; " + by("chat"),
        ),
        (
            "PIL",
            "import txexport.runtime.preprocessing.opened_images as images; images.opened('image.png')",
            "reading images needs PIL, which is not installed; " + by("image"),
        ),
    ],
)
def test_an_answer_says_which_extra_it_lacks(missing, statement, said):
    result = answer({missing}, CAUGHT.format(statement))
    assert (result.stdout, result.stderr) == (f"{said}\n", "")


def test_a_library_that_is_too_old_is_not_told_as_missing():
    old = "import sys, types\nsys.modules['jinja2'] = types.ModuleType('jinja2')\n"
    said = answer(set(), old + CAUGHT.format(CHAT)).stdout
    assert said.startswith("a chat template needs jinja2, of another version (cannot import name")
    assert said.endswith("; " + by("chat") + "\n")


def test_verify_without_pytorch_says_which_extra_it_lacks(tmp_path):
    code = CAUGHT.format("txexport.export(*sys.argv[1:], absolute_source=True); txexport.verify(sys.argv[2])")
    result = answer({"torch", "transformers"}, code, ENCODER, tmp_path / "out")
    assert result.stdout == "verify needs torch, which is not installed; " + by("verify") + "\n"


def test_missing_library_is_an_import_error():
    code = "import txexport\ntry:\n    txexport.load('out')\nexcept ImportError:\n    print('none')"
    assert answer({"onnxruntime"}, code).stdout == "none\n"


@pytest.mark.parametrize("missing", ["click", "rich"])
def test_command_says_which_extra_it_lacks(missing):
    result = answer({missing}, "from txexport.__main__ import main\nmain()")
    assert result.returncode == 2
    assert result.stderr == (
        f"error: the command txexport needs {missing}, which is not installed; " + by("cli") + "\n"
    )


def test_command_runs_without_what_it_does_not_use():
    result = answer(
        {"onnx", "onnxruntime", "torch"}, "from txexport.__main__ import main\nmain()", "families"
    )
    assert result.returncode == 0
    assert "text-generation" in result.stdout
    result = answer({"onnxruntime"}, "from txexport.__main__ import main\nmain()", "embed", "out", "text")
    assert result.returncode == 2
    assert re.fullmatch(r"error: .*pip install '\.\[cpu\]'.*\n", result.stderr)


def test_an_application_needs_two_libraries():
    assert [re.match(r"[\w-]+", line)[0] for line in PROJECT["dependencies"]] == ["numpy", "tokenizers"]


def test_no_extra_brings_two_of_onnxruntime():
    """They are two distributions of one package: the second one breaks the first."""
    extras = PROJECT["optional-dependencies"]
    assert set(EXTRAS.values()) <= set(extras)
    own = {name for name, lines in extras.items() if any(line.startswith("onnxruntime") for line in lines)}
    assert own == {"cpu", "gpu"}
    chosen = [line for lines in extras.values() for line in lines if line.startswith("txexport[")]
    assert not any({"cpu", "gpu"} & set(re.findall(r"\w+", line)) for line in chosen)


def brought_by(extra: str) -> set[str]:
    """An extra, and those that it includes."""
    own = PROJECT["optional-dependencies"][extra]
    within = [one.removeprefix("txexport[").partition("]")[0].split(",") for one in own if "txexport[" in one]
    return {extra}.union(*(brought_by(name) for names in within for name in names))


def test_the_documentation_is_made_with_its_own_extra(tmp_path):
    """`tools/docs` installs it, and packages left by `tools/demo` are removed."""
    there = brought_by("docs") | {"cpu"}
    code = (
        f"sys.path[:0] = {[str(ROOT / one) for one in ('tools', 'tests')]}; from pathlib import Path; "
        "from documentation.pages import assemble; assemble(Path(sys.argv[1]))"
    )
    missing = {library for library, extra in EXTRAS.items() if extra not in there}
    assert "openvino" in missing
    result = answer(missing, code, tmp_path)
    assert (result.returncode, result.stderr) == (0, "")
    assert (tmp_path / "reference/python.md").is_file()
