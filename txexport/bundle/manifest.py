"""The manifest of a bundle, txexport.json."""

import dataclasses
import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from txexport.bundle.form import ExportOptions
from txexport.bundle.limits import LONG, limited
from txexport.bundle.proof import Proof
from txexport.contracts import Port, roles
from txexport.contracts.stage import TOKENS, Stage
from txexport.errors import InputError
from txexport.formats import ACCURACY_LEVEL, DEFAULT, DTYPES, INT8_ACTIVATIONS, STORED, STORED_FAST
from txexport.support.aliases import dtype_named

MANIFEST = "txexport.json"
# The opset of the static cache, and the first ONNX Runtime that computes several tokens over it correctly:
# 1.25 to 1.27 read `is_causal` with `nonpad_kv_seqlen` differently, older ones lack the operators.
WRITES_IN_PLACE, ATTENDS_IN_PLACE = 24, "1.28"
UNROUNDED = DTYPES[DEFAULT].session_options
AGAINST_SATURATION = "session.x64quantprecision"  # of 8-bit products; the engine sets it where they may
FOLDED = "session.disable_quant_qdq"  # integers of any width become float32 numbers at load
FORMAT, OLDEST = 8, 6  # the format that export writes, and the oldest that is read: see CONTRIBUTING.md
OF_TRACED = 9  # of traced graphs
STAGED = 8  # the first format with stages; for older ones they are derived from the architecture


@dataclass(frozen=True)
class GraphFile:
    """One ONNX file of a bundle, and its SHA-256.

    `onnxruntime` is the oldest version that computes it correctly, such as "1.28"; "" in older bundles.
    `captured` is true of a decoder's step that CUDA can capture as a whole (CUDA graphs).
    """

    file: str
    inputs: list[Port]
    outputs: list[Port]
    sha256: str
    onnxruntime: str = ""
    captured: bool = False


@dataclass(frozen=True)
class Graphs:
    """The graphs of one dtype by role: `native` for our runtime, `hub` for other clients.

    `session_options` are the options of an ONNX Runtime session that change the results of the graphs.
    """

    native: dict[str, GraphFile]
    hub: dict[str, GraphFile]
    session_options: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class DataFile:
    """A file of weights that graphs refer to: its length in bytes, and its SHA-256."""

    bytes: int
    sha256: str


@dataclass(frozen=True)
class Source:
    """The checkpoint that a bundle was made from: SHA-256 by file name, and its place.

    `path` is relative to the bundle's folder. It is the checkpoint's name alone if the path would name a
    person's home, or absolute on request and in older bundles. A checkpoint from a model hub is `repository`,
    as "org/name", at the commit `revision`. `adapter` is the path, as `path`, of the adapter that was merged
    into it, or "org/name@commit" on a hub; `sha256` includes its files.
    """

    path: str
    sha256: dict[str, str]
    repository: str | None = None
    revision: str | None = None
    adapter: str | None = None

    @property
    def digest(self) -> str:
        """The first twelve digits of the SHA-256 of these files together, as the checkpoint's identity."""
        return hashlib.sha256(json.dumps(self.sha256, sort_keys=True).encode()).hexdigest()[:12]


@dataclass(frozen=True)
class Manifest:
    """The content of txexport.json.

    `formats` has the graphs by dtype, and in it by role. Native graphs are `model`, `encoder_model` and
    `decoder_model`, or `text_model`, `vision_model` and `similarity_model`. `data` are the files of weights
    by path. `form` are the options of the export. `limits` are the longest sequences, in tokens, of the
    encoder and the decoder, or of the text encoder; None is no limit. `companions` are the files copied or
    derived from the checkpoint, with their SHA-256. `promised` is the longest sequence that config.json
    promises by its kind of rotary scaling, if it is longer than the limit. `stages` are the "native" and the
    "hub" graphs in running order, each as a Stage. `traced` is the class of transformers of a traced graph,
    None for a family's; `spec` is then its type alone. `proof` is the result of the last verification.
    """

    model_type: str
    task: str
    form: ExportOptions
    formats: dict[str, Graphs]
    data: dict[str, DataFile]
    limits: dict[str, int | None]
    spec: dict
    source: Source
    companions: dict[str, str]
    versions: dict[str, str]
    format: int = FORMAT
    promised: dict[str, int] = field(default_factory=dict)
    stages: dict[str, list[Stage]] = field(default_factory=dict)
    traced: str | None = None
    proof: Proof | None = None

    @property
    def dtype(self) -> str:
        """The default dtype."""
        return self.form.dtypes[0]

    @property
    def quantized(self) -> bool:
        """True if the graphs of the default dtype multiply integers."""
        return not DTYPES[self.dtype].exact

    @property
    def session_options(self) -> dict[str, str]:
        """The session options for these graphs; they change the results."""
        if self.dtype == STORED and not self.form.widened:
            return {FOLDED: "1"}
        options = dict(DTYPES[self.dtype].session_options)
        if self.dtype == STORED_FAST:  # products with blocks of integers do not saturate, and fail with it
            options[AGAINST_SATURATION] = "0"
        return options

    def refused_by(self, version: str) -> str | None:
        """The reason why that version of ONNX Runtime must not run our runtime's graphs, or None.

        An older version may refuse them itself, or compute a wrong result silently.
        """
        in_place = self.cache == "static" and self.form.opset >= WRITES_IN_PLACE
        unsaid = ATTENDS_IN_PLACE if in_place else ""
        least = max((graph.onnxruntime or unsaid for graph in self.graphs.values()), key=_parts)
        if not least or _parts(version) >= _parts(least):
            return None
        other = ", or export with --opset 23" if least == ATTENDS_IN_PLACE else ""
        return f"it needs ONNX Runtime {least} or later, and {version} is here; update it{other}"

    @property
    def native(self) -> dict[str, GraphFile]:
        """The graphs of our runtime, by role."""
        return self.formats[self.dtype].native

    @property
    def hub(self) -> dict[str, GraphFile]:
        """The graphs for other clients, by role."""
        return self.formats[self.dtype].hub

    @property
    def graphs(self) -> dict[str, GraphFile]:
        """The graphs that our runtime runs, by role."""
        return self.native or self.hub

    @property
    def running_order(self) -> list[Stage]:
        """The stages of these graphs."""
        return self.stages["native" if self.native else "hub"]

    @property
    def text_stage(self) -> Stage:
        """The first stage that reads token ids."""
        return next(stage for stage in self.running_order if stage.ids_source == TOKENS)

    @property
    def image_token_id(self) -> int | None:
        """The token in whose places images stand; None where tokens are read alone."""
        ids = (stage.facts.image_token_id for stage in self.running_order)
        return next((token for token in ids if token is not None), None)

    def max_length(self, stage: Stage) -> int | None:
        """The longest sequence of a stage, in tokens; None is no limit."""
        return None if stage.facts.limit is None else self.limits[stage.facts.limit]

    @property
    def cache(self) -> str | None:
        """The kind of the cache, "static" or "dynamic"; None if nothing is generated."""
        return self.form.cache

    @property
    def every_graph(self) -> list[GraphFile]:
        """All graphs, native and hub."""
        return [
            graph
            for graphs in self.formats.values()
            for graph in (*graphs.native.values(), *graphs.hub.values())
        ]

    @property
    def for_others(self) -> "Manifest":
        """The manifest reduced to the graphs for other clients, which have LongRoPE's long factors."""
        cache = None if self.cache is None else "dynamic"
        formats = {dtype: dataclasses.replace(graphs, native={}) for dtype, graphs in self.formats.items()}
        form = dataclasses.replace(self.form, cache=cache, only="hub")
        limits = {name: self.promised.get(LONG, limit) for name, limit in self.limits.items()}
        return dataclasses.replace(self, formats=formats, form=form, limits=limits)

    def of_dtype(self, dtype: str | None) -> "Manifest":
        """The manifest reduced to the graphs and weights of one dtype; None is the default one.

        Raises InputError for a dtype that the bundle does not have.
        """
        name = self.dtype if dtype is None else dtype_named(dtype)
        if name not in self.formats:
            raise InputError(f"the bundle has no {name}, only {', '.join(self.formats)}; export with --dtype")
        form = dataclasses.replace(self.form, dtypes=[name])
        graphs = [graph.file for graph in self.formats[name].hub.values()]
        graphs.append(roles.hub_path(roles.MODEL, dtype=DTYPES[name].suffix))  # of graphs without their own
        paths = {roles.data_path(graph) for graph in graphs}
        data = {path: file for path, file in self.data.items() if path in paths}
        return dataclasses.replace(self, formats={name: self.formats[name]}, form=form, data=data)

    @property
    def limited(self) -> str | None:
        """The message if sequences are shorter than config.json promises, with the remedy; else None."""
        return limited(self.limits, self.promised)

    @property
    def sha256(self) -> str:
        """SHA-256 of the manifest without its proof."""
        text = json.dumps(dataclasses.replace(self, proof=None)._values(), sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()

    @property
    def files(self) -> list[str]:
        """Every file of the bundle, as paths below its folder."""
        graphs = [graph.file for graph in self.every_graph]
        return [MANIFEST, *self.data, *graphs, *self.companions, *(self.proof.files if self.proof else ())]

    def write(self, path: Path) -> None:
        """Write this as txexport.json at `path`."""
        path.write_text(json.dumps(self._values(), indent=2) + "\n", encoding="utf-8")

    def _values(self) -> dict:
        """The JSON values to write, without unused options, as in bundles of earlier releases."""
        values = dataclasses.asdict(self)
        optional = [(values["form"], name) for name in ("outputs", "rope_factors", "image_size", "language")]
        for place, name in (*optional, (values, "promised"), (values, "traced")):
            if not place[name]:
                del place[name]
        if self.format < STAGED:
            del values["stages"]
        else:
            listed = self.stages.items()
            values["stages"] = {kind: [one.to_dict() for one in stages] for kind, stages in listed}
        if not values["form"]["widened"]:
            del values["form"]["widened"]
        for graphs in values["formats"].values():
            if not graphs["session_options"]:
                del graphs["session_options"]
            for graph in (*graphs["native"].values(), *graphs["hub"].values()):
                for name in ("onnxruntime", "captured"):
                    if not graph[name]:
                        del graph[name]
        return values


def rounds_activations(session_options: Mapping[str, str]) -> bool:
    """Tell whether a session with these options rounds activations for products with blocks of integers."""
    return session_options.get(ACCURACY_LEVEL) == INT8_ACTIVATIONS


def _parts(version: str) -> tuple[int, ...]:
    """A version's numbers, to compare with another's."""
    return tuple(int(number) for number in re.findall(r"\d+", version)[:2])
