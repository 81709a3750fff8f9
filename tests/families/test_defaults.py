"""For a key that config.json leaves out, the library's default is used."""

import json

import pytest
import transformers
from helpers.rows import ROWS

from txexport import families
from txexport.checkpoints.checkpoint import Checkpoint
from txexport.checkpoints.weight_resolution import names
from txexport.errors import TxexportError
from txexport.families._config import Config, TensorNames

NAMES = {"architectures", "model_type", "transformers_version", "dtype"}
PARTS = ("encoder", "decoder")
PLAIN = list({(row.model_type, row.task): row for row in reversed(ROWS) if not row.variant}.values())
# A config means the same to each task, but for its head.
FIRST = {row.model_type: row for row in reversed(PLAIN)}


def spec(values: dict, checkpoint: Checkpoint, task: str):
    """A family's spec for a config, or the error that it raises."""
    family = families.module(values["model_type"])
    stored = TensorNames(checkpoint, names(family.NAMING, checkpoint))
    try:
        return family.spec(Config(values, checkpoint.folder / "config.json"), task, stored)
    except TxexportError as error:
        return error


def shortened(values: dict):
    """Each key with the values without it; for a nested config of an encoder, each of its keys too."""
    for key in sorted(set(values) - NAMES):
        yield key, {other: value for other, value in values.items() if other != key}
        if (key.endswith("_config") or key in PARTS) and isinstance(values[key], dict):
            yield from ((f"{key}.{own}", values | {key: less}) for own, less in shortened(values[key]))


@pytest.mark.parametrize(
    "row",
    [
        pytest.param(row, id=row.id, marks=[] if row is FIRST[row.model_type] else [pytest.mark.slow])
        for row in PLAIN
    ],
)
def test_missing_key_means_the_librarys_default(row, checkpoint_of):
    checkpoint = Checkpoint(checkpoint_of(row))
    text = (checkpoint.folder / "config.json").read_text()
    values = json.loads(text, object_hook=lambda one: float(one["__float__"]) if "__float__" in one else one)
    tried = 0
    for key, less in shortened(values):
        try:
            filled = transformers.AutoConfig.for_model(**less).to_dict()
        except Exception:  # values that do not fit each other without it
            continue
        ours = spec(less, checkpoint, row.task)
        theirs = spec(filled | {"architectures": values["architectures"]}, checkpoint, row.task)
        if not isinstance(ours, TxexportError):  # the error for a missing key is right too
            assert ours == theirs or isinstance(theirs, TxexportError), key
            tried += 1
    assert tried > 3
