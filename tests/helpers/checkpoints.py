"""Popular checkpoints by name: tiny ones with the published config.json, and the docs' table of them.

tests/data/checkpoints.json has, for each, the values that determine its computation; sizes are the tests'.
"""

import json
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import tiny_checkpoint
import transformers
from safetensors.numpy import load_file, save_file

from helpers import published as code
from helpers.project import ROOT
from txexport import families
from txexport.checkpoints import colbert
from txexport.families._config import Config

MODULES = [
    {"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.models.Transformer"},
    {"idx": 1, "name": "1", "path": "1_Pooling", "type": "sentence_transformers.models.Pooling"},
]
FILE = ROOT / "tests/data/checkpoints.json"


@dataclass(frozen=True)
class Published:
    """One checkpoint: its config.json without sizes; `reason` tells why it is not exported, None where it is.

    `vectors` tells that it has sentence-transformers' files. `library` is the class of transformers that
    computes the same where `architecture` is one of the checkpoint's own code. `parts` are values of tables
    within config.json that the library cannot build.
    """

    name: str
    model_type: str
    architecture: str
    config: dict = field(default_factory=dict)
    reason: str | None = None
    vectors: bool = False
    library: str | None = None
    parts: dict[str, dict] = field(default_factory=dict)

    @property
    def like(self) -> str:
        """A key that is equal for checkpoints that differ in sizes alone."""
        return json.dumps([self.model_type, self.architecture, self.config, self.vectors, self.parts])

    @property
    def task(self) -> str:
        """The default task of its export: the one that its architecture implies, or the first."""
        if self.vectors:
            return "feature-extraction"
        tasks, name = families.module(self.family).TASKS, self.library or self.architecture
        return next((task for task in tasks if name in tasks[task]), next(iter(tasks)))

    @property
    def code(self) -> str:
        """Its model_type, the variant of one, or its config's class where `PUBLISHED_BY` has that."""
        named = self.config.get("auto_map", {}).get("AutoConfig", "").rpartition(".")[2]
        if named in families.PUBLISHED_BY:
            return named
        family = families.module(self.model_type) if self.model_type in families.names() else None
        variant = getattr(family, "variant", lambda _: self.model_type)
        return variant(Config(self.config, FILE))

    @property
    def family(self) -> str:
        """The family that reads it: that of `library`, where there is one."""
        if self.library is not None:
            return next(name for name in families.names() if self.library in _classes(name))
        return families.PUBLISHED_BY.get(self.code, self.code)


def _classes(model_type: str) -> set[str]:
    return {name for classes in families.module(model_type).TASKS.values() for name in classes}


def published() -> list[Published]:
    """Every checkpoint of the file; those of an unsupported `model_type` share its reason."""
    values = json.loads(FILE.read_text(encoding="utf-8"))
    reasons = values["not_taken"]
    return [
        Published(**{"reason": reasons.get(one["model_type"])} | one)
        for one in sorted(values["checkpoints"], key=lambda one: one["name"].lower())
    ]


def save(one: Published, folder: Path) -> None:
    """Write a tiny checkpoint with the config.json of `one`; without a family, one with a single tensor."""
    folder.mkdir()
    file, written = folder / "config.json", {}
    if one.code in code.WRITERS:
        code.WRITERS[one.code](folder, one.architecture, **one.config)
        written = json.loads(file.read_text(encoding="utf-8"))
    elif one.model_type in tiny_checkpoint.FAMILIES:
        architecture = one.architecture if one.architecture in dir(transformers) else None
        values = {key: value for key, value in one.config.items() if key != "auto_map"}
        tiny_checkpoint.save(folder, one.model_type, architecture, **values)
        written = json.loads(file.read_text(encoding="utf-8"))
    else:
        save_file({"weight": np.ones(1, np.float32)}, folder / "model.safetensors")
    if {"rope_theta", "rope_scaling"} & set(one.config):  # the names before the library renamed them
        written.pop("rope_parameters", None)
    for table, values in one.parts.items():
        written[table] |= values
    own = {key: value for key, value in one.config.items() if not isinstance(written.get(key), dict)}
    named = {"model_type": one.model_type, "architectures": [one.architecture]}
    file.write_text(json.dumps(written | own | named), encoding="utf-8")
    if one.architecture == colbert.ARCHITECTURE:
        weights = folder / "model.safetensors"
        save_file(load_file(weights) | {colbert.LINEAR: np.ones((7, 48), np.float32)}, weights)
        (folder / colbert.METADATA).write_text("{}", encoding="utf-8")
    if one.vectors:
        (folder / "1_Pooling").mkdir()
        (folder / "1_Pooling/config.json").write_text('{"pooling_mode_mean_tokens": true}', encoding="utf-8")
        (folder / "modules.json").write_text(json.dumps(MODULES), encoding="utf-8")


def checkpoints_table() -> str:
    """The table in docs/: a row per checkpoint, with its default task, or the reason for not exporting it."""
    every = published()
    taken = sum(one.reason is None for one in every)
    lines = [
        f"Of {len(every)} checkpoints, {taken} are exported.",
        "",
        "| checkpoint | family | exported for |",
        "|---|---|---|",
    ]
    for one in every:
        made = one.task if one.reason is None else f"not exported: {one.reason}"
        lines.append(f"| {one.name} | `{one.family}` | {made} |")
    return "\n".join(lines) + "\n"
