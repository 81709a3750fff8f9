"""Checkpoints and bundles, made once a session."""

import gc
import os
from pathlib import Path

import onnxruntime
import pytest
import tiny_checkpoint
import torch
from helpers import published
from helpers.kept_encodings import KeptEncodings
from helpers.kept_originals import KeptOriginals
from helpers.rows import Row
from helpers.sampled import sample

from txexport.exporter import export
from txexport.parts import cases as seeded
from txexport.verification import verify_plan
from txexport.verification.cases import plan
from txexport.verification.processors import tokenizer

# There is a worker a core, and threads would wait for each other; tools/processors.py asks for several.
THREADS = int(os.environ.get("OMP_NUM_THREADS", "1"))
torch.set_num_threads(THREADS)
os.environ.setdefault("RAYON_NUM_THREADS", str(THREADS))  # of tokenizers
os.environ.pop("COLUMNS", None)  # of the terminal of whoever runs the tests: a pipe has no width
make_options = onnxruntime.SessionOptions


def session_options() -> onnxruntime.SessionOptions:
    """ONNX Runtime's options, with as many threads as PyTorch has here."""
    options = make_options()
    options.intra_op_num_threads = THREADS
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")  # other workers want the cores
    return options


onnxruntime.SessionOptions = session_options


def pytest_addoption(parser):
    """Add the option by which `tools/test` stays short."""
    parser.addoption("--sampled", action="store_true", help="of n cases of a test run the root of n")


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection_modifyitems(config, items):
    """Group tests before `-m` and `-k` choose among them, and then take the sample."""
    group(items)
    yield
    if config.getoption("sampled"):
        chosen = sample(items)
        config.hook.pytest_deselected(items=[item for item in items if item not in chosen])
        items[:] = [item for item in items if item in chosen]


def group(items):
    """Group the tests of a module that share its fixtures, so that one worker makes these once."""
    for item in items:
        fixtures = [fixture for each in item._fixtureinfo.name2fixturedefs.values() for fixture in each]
        shared = {fixture.scope for fixture in fixtures if fixture.baseid == item.location[0]} - {"function"}
        if shared and item.get_closest_marker("xdist_group") is None:
            item.add_marker(pytest.mark.xdist_group(item.location[0]))


def pytest_collection_finish():
    """Leave modules and tests, which live as long as the process, out of the collector's passes."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(700, 10, 500)  # a full pass, over every cached original, a fiftieth as often


LENGTHS = {(seeded, "LONGEST"): 160, (plan, "OPERATIONS"): 0, (seeded, "BEAM_TOKENS"): 5}
LONG = {place: getattr(*place) for place in LENGTHS}


@pytest.fixture(autouse=True)
def short_cases(monkeypatch):
    """Short beams; for models without a limit, a longest case beyond every window and bucket."""
    for place, length in LENGTHS.items():
        monkeypatch.setattr(*place, length)


@pytest.fixture
def long_cases(short_cases, monkeypatch):
    """Cases of the default length."""
    for place, length in LONG.items():
        monkeypatch.setattr(*place, length)


@pytest.fixture(scope="session")
def _kept():
    return KeptOriginals()


@pytest.fixture(autouse=True)
def kept_originals(monkeypatch, _kept):
    """Originals whose outputs are cached, since tests change the graphs and not the originals."""
    monkeypatch.setattr(verify_plan, "originals_of", _kept.originals_of)


@pytest.fixture(scope="session")
def _compared():
    return KeptEncodings()


@pytest.fixture(autouse=True)
def kept_encodings(monkeypatch, _compared):
    """Comparisons of equal tokenizers are computed once: rows of a family share theirs."""
    monkeypatch.setattr(tokenizer, "_encoded", _compared.encoded)


def listing(folder: Path) -> dict[str, int]:
    """Each file of a folder with its modification time."""
    return {path.name: path.stat().st_mtime_ns for path in folder.rglob("*") if path.is_file()}


@pytest.fixture(scope="session")
def checkpoint_of(tmp_path_factory):
    """A function from a row, or a model_type, to its checkpoint folder, which no test may change."""
    made: dict[str, Path] = {}
    written: dict[str, dict] = {}

    def get(what: Row | str) -> Path:
        row = what if isinstance(what, Row) else Row(what, tiny_checkpoint.FAMILIES[what][0], "default")
        key = f"{row.model_type} {row.architecture} {sorted(row.config.items())}"
        if key not in made:
            made[key] = tmp_path_factory.mktemp("checkpoint")
            if (write := published.WITHOUT_LIBRARY.get(row.model_type)) is not None:
                write(made[key], row.architecture, **row.config)
            else:
                tiny_checkpoint.save(made[key], row.model_type, row.architecture, **row.config)
            written[key] = listing(made[key])
        return made[key]

    yield get
    assert [name for name, folder in made.items() if listing(folder) != written[name]] == []


@pytest.fixture(scope="session")
def bundle_of(tmp_path_factory, checkpoint_of):
    """A function from a row, or a model_type, a kind of cache, and the only graphs, to its bundle folder.

    A cache named "dynamic" exports the native graphs alone: those for other clients are always the same.
    """
    made: dict[tuple, Path] = {}

    def get(what: Row | str, cache: str | None = None, only: str | None = None) -> Path:
        only = "native" if cache == "dynamic" else only
        key = (what.id if isinstance(what, Row) else what, cache, only)
        if key not in made:
            made[key] = tmp_path_factory.mktemp("bundle") / "out"
            task = what.task if isinstance(what, Row) else None
            export(checkpoint_of(what), made[key], task=task, cache=cache, only=only)
        return made[key]

    return get


@pytest.fixture(scope="session")
def integers_of(tmp_path_factory, checkpoint_of):
    """A function from a model_type to its bundle in int8 and int4, which no test may change."""
    made: dict[str, Path] = {}

    def get(model_type: str) -> Path:
        if model_type not in made:
            made[model_type] = tmp_path_factory.mktemp("integers") / "out"
            export(checkpoint_of(model_type), made[model_type], dtype=["int8", "int4"])
        return made[model_type]

    return get
