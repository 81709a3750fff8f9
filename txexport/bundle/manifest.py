"""The manifest of a bundle, txexport.json."""

import dataclasses
import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from txexport.bundle.limits import LONG, limited
from txexport.bundle.proof import Proof
from txexport.contracts import Port, roles
from txexport.contracts.stage import TOKENS, Stage
from txexport.errors import InputError
from txexport.formats import ACCURACY_LEVEL, DEFAULT, DTYPES, INT8_ACTIVATIONS, STORED

MANIFEST = "txexport.json"
# The opset of the static cache, and the ONNX Runtime that computes several tokens over a filled one rightly:
# 1.25 to 1.27 give `is_causal` with `nonpad_kv_seqlen` another meaning, older ones lack the operators.
WRITES_IN_PLACE, ATTENDS_IN_PLACE = 24, "1.28"
UNROUNDED = DTYPES[DEFAULT].session_options
FOLDED = "session.disable_quant_qdq"  # integers become float32 numbers at load, of any width
FORMAT, OLDEST = 8, 6  # what export writes, and from which on every one is read: see CONTRIBUTING.md
STAGED = 8  # the first format with stages; for older ones they are derived from the architecture


@dataclass(frozen=True)
class GraphFile:
    """One ONNX file of a bundle, and its SHA-256.

    `onnxruntime` is the oldest version that computes it rightly, as "1.28", or "" in bundles of before.
    """

    file: str
    inputs: list[Port]
    outputs: list[Port]
    sha256: str
    onnxruntime: str = ""


@dataclass(frozen=True)
class Calibration:
    """The texts that integers were calibrated by: how many, of how many tokens, and their SHA-256 as JSON.

    `searched` are matrices that fell back to the scale search, by the first name of each.
    """

    texts: int
    tokens: int
    sha256: str
    searched: list[str]


@dataclass(frozen=True)
class ExportOptions:
    """The options that a bundle was exported with; the field `form` of txexport.json.

    `cache` and `opset` are those of our own graphs, which are flat where `inline`; of graphs for other
    clients the opset is at most export's HUB_OPSET, but over a shared buffer. `only` is "native" for our
    graphs alone, "hub" for the others alone, None for both. In a `single_file`, weights lie within the graph.
    `client` is the one that the others are laid out for, where it needs another layout than a hub's.
    `dtypes` are those in which the bundle is written, by name: the first is what one gets who asks for none;
    `keep` are patterns of names of parameters that stay float32 in all of them; `calibrated` says by what
    texts integers were calibrated, by dtype. `outputs` are those of every layer that graphs give too. With
    `centred`, int8 activations are quantised around the row's mid-range; in bundles of format 6 they are not.
    With `widened`, a checkpoint's own 8-bit integers become float32 at load; in early bundles they do not.
    `rope_factors` are the LongRoPE factors, "short" or "long", and `image_size` the height and width of
    images; None if export was called without.
    """

    cache: str | None
    opset: int
    inline: bool = False
    only: str | None = None
    single_file: bool = False
    client: str | None = None
    dtypes: list[str] = field(default_factory=lambda: [DEFAULT])
    keep: list[str] = field(default_factory=list)
    calibrated: dict[str, Calibration] = field(default_factory=dict)
    outputs: list[str] = field(default_factory=list)
    centred: bool = False
    widened: bool = False
    rope_factors: str | None = None
    image_size: list[int] | None = None


@dataclass(frozen=True)
class Graphs:
    """The graphs of one dtype by role: `native` are our runtime's, `hub` those for other clients.

    `session_options` are those of an ONNX Runtime session that decide which numbers the graphs give.
    """

    native: dict[str, GraphFile]
    hub: dict[str, GraphFile]
    session_options: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class DataFile:
    """A file of weights, into which graphs point: its length in bytes, and its SHA-256."""

    bytes: int
    sha256: str


@dataclass(frozen=True)
class Source:
    """The checkpoint that a bundle was made from: SHA-256 by file name, and where it was.

    `path` leads there from the bundle's own folder, is the checkpoint's name alone where that would tell
    whose machine it was, or absolute where that was asked for, and in bundles of before this was so. One that
    came from a model hub is the `repository` there, as "org/name", at the commit `revision`. `adapter` leads
    to the one that was merged into it, as `path` does, or is "org/name@commit" of one on a hub; `sha256` has
    its files too.
    """

    path: str
    sha256: dict[str, str]
    repository: str | None = None
    revision: str | None = None
    adapter: str | None = None

    @property
    def digest(self) -> str:
        """SHA-256 of all these files together, in twelve digits: what a checkpoint is told by."""
        return hashlib.sha256(json.dumps(self.sha256, sort_keys=True).encode()).hexdigest()[:12]


@dataclass(frozen=True)
class Manifest:
    """The content of txexport.json.

    Graphs are by dtype, and then by role. Those of `native` are our runtime's: `model`, `encoder_model` and
    `decoder_model`, or `text_model`, `vision_model` and `similarity_model`; those of `hub` are for other
    clients. `data` are the files of weights by path. `form` is how all that is written. `limits` are the
    longest sequences, in tokens, of encoder and decoder, or of the stack of text beside one of images; None
    is no limit. `companions` are the files copied from the checkpoint, or made of it, with their SHA-256.
    `promised` is the longest sequence that config.json promises by its kind of rotary scaling, where that is
    longer than the limit. `stages` are the "native" and the "hub" graphs in running order, as a Stage each.
    `proof` is what verify last found, None before.
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
    proof: Proof | None = None

    @property
    def dtype(self) -> str:
        """That of the graphs, unless another one is asked for."""
        return self.form.dtypes[0]

    @property
    def quantized(self) -> bool:
        """True if those graphs multiply integers."""
        return not DTYPES[self.dtype].exact

    @property
    def session_options(self) -> dict[str, str]:
        """The options that every session over those graphs has, since they decide which numbers come out."""
        if self.dtype == STORED and not self.form.widened:
            return {FOLDED: "1"}
        return dict(DTYPES[self.dtype].session_options)

    def refused_by(self, version: str) -> str | None:
        """Why that version of ONNX Runtime must not run the graphs that ours runs, or None.

        An older one may refuse them by itself, or compute something else without a word.
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
        """The first of these that reads texts."""
        return next(stage for stage in self.running_order if stage.ids_source == TOKENS)

    def max_length(self, stage: Stage) -> int | None:
        """The longest sequence of a stage, in tokens; None is no limit."""
        return None if stage.facts.limit is None else self.limits[stage.facts.limit]

    @property
    def cache(self) -> str | None:
        """The kind of their cache, "static" or "dynamic"; None where nothing is generated."""
        return self.form.cache

    @property
    def every_graph(self) -> list[GraphFile]:
        """All graphs, for whomever they are."""
        return [
            graph
            for graphs in self.formats.values()
            for graph in (*graphs.native.values(), *graphs.hub.values())
        ]

    @property
    def for_others(self) -> "Manifest":
        """The same as if it held the graphs for other clients alone, which follow LongRoPE to its end."""
        cache = None if self.cache is None else "dynamic"
        formats = {dtype: dataclasses.replace(graphs, native={}) for dtype, graphs in self.formats.items()}
        form = dataclasses.replace(self.form, cache=cache, only="hub")
        limits = {name: self.promised.get(LONG, limit) for name, limit in self.limits.items()}
        return dataclasses.replace(self, formats=formats, form=form, limits=limits)

    def of_dtype(self, dtype: str | None) -> "Manifest":
        """The same as if it held the graphs and weights of that dtype alone; None is its first.

        Raises InputError for one that it has not.
        """
        name = self.dtype if dtype is None else dtype
        if name not in self.formats:
            raise InputError(f"the bundle has no {name}, only {', '.join(self.formats)}; export with --dtype")
        form = dataclasses.replace(self.form, dtypes=[name])
        graphs = [graph.file for graph in self.formats[name].hub.values()]
        graphs = graphs or [roles.hub_path(roles.MODEL, dtype=DTYPES[name].suffix)]
        own = {roles.data_path(graph) for graph in graphs}
        data = {path: file for path, file in self.data.items() if path in own}
        return dataclasses.replace(self, formats={name: self.formats[name]}, form=form, data=data)

    @property
    def limited(self) -> str | None:
        """Where sequences end before what config.json promises, and what to do; None where they do not."""
        return limited(self.limits, self.promised)

    @property
    def sha256(self) -> str:
        """SHA-256 of what this says, but for the proof."""
        text = json.dumps(dataclasses.replace(self, proof=None)._values(), sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()

    @property
    def files(self) -> list[str]:
        """Every file of the bundle, as paths below its folder."""
        graphs = [graph.file for graph in self.every_graph]
        return [MANIFEST, *self.data, *graphs, *self.companions]

    def write(self, path: Path) -> None:
        """Write this as txexport.json at `path`."""
        path.write_text(json.dumps(self._values(), indent=2) + "\n", encoding="utf-8")

    def _values(self) -> dict:
        """The JSON values to write, without options that were not used, as in bundles of earlier releases."""
        values = dataclasses.asdict(self)
        asked = [(values["form"], name) for name in ("outputs", "rope_factors", "image_size")]
        for place, name in (*asked, (values, "promised")):
            if not place[name]:
                del place[name]
        if self.format < STAGED:
            del values["stages"]
        else:
            values["stages"] = {
                kind: [one.to_dict() for one in stages] for kind, stages in self.stages.items()
            }
        if not values["form"]["widened"]:
            del values["form"]["widened"]
        for graphs in values["formats"].values():
            if not graphs["session_options"]:
                del graphs["session_options"]
            for graph in (*graphs["native"].values(), *graphs["hub"].values()):
                if not graph["onnxruntime"]:
                    del graph["onnxruntime"]
        return values


def rounds_activations(session_options: Mapping[str, str]) -> bool:
    """Tell whether a session with these options rounds what it multiplies blocks of integers with."""
    return session_options.get(ACCURACY_LEVEL) == INT8_ACTIVATIONS


def _parts(version: str) -> tuple[int, ...]:
    """A version's numbers, to compare with another's."""
    return tuple(int(number) for number in re.findall(r"\d+", version)[:2])
