"""What txexport.json says of a bundle."""

import dataclasses
import hashlib
import json
from dataclasses import dataclass
from pathlib import Path

from txexport.arguments import check_fields
from txexport.contracts import ECOSYSTEM, Port, roles
from txexport.errors import BundleError, SpecError
from txexport.paths import stays_inside
from txexport.spec import DualEncoderSpec, ModelSpec
from txexport.spec.serialization import from_dict

MANIFEST = "txexport.json"
FORMAT = 5


@dataclass(frozen=True)
class GraphFile:
    """One ONNX file of a bundle, and its SHA-256."""

    file: str
    inputs: list[Port]
    outputs: list[Port]
    sha256: str


@dataclass(frozen=True)
class Form:
    """How a bundle is written: what export was asked for.

    `cache` and `opset` are those of our own graphs, which are flat where `inline`; of graphs for other
    clients the opset is at most export's HUB_OPSET. `only` is "native" for our graphs alone, "hub" for the
    others alone, None for both. In a `single_file`, weights lie within the graph. `client` is the one that
    the others are laid out for, where it needs another layout than a hub's.
    """

    cache: str | None
    opset: int
    inline: bool = False
    only: str | None = None
    single_file: bool = False
    client: str | None = None


@dataclass(frozen=True)
class DataFile:
    """A file of weights, into which graphs point: its length in bytes, and its SHA-256."""

    bytes: int
    sha256: str


@dataclass(frozen=True)
class Source:
    """The checkpoint that a bundle was made from: its folder, absolute and without links, and
    SHA-256 by file name."""

    path: str
    sha256: dict[str, str]


@dataclass(frozen=True)
class Proof:
    """What verify found when it last tried a bundle whole, and the SHA-256 of its files by name.

    `verdict` is "equal" or "NOT EQUAL", `scope` to what, in which runtime, by which cases; `worst_error` is
    of the output that came nearest to its bound, None where it was not finite or nothing was compared.
    """

    created: str
    verdict: str
    scope: str
    references: list[str]
    cases: int
    failed: int
    skipped: int
    numbers: int
    worst_output: str
    worst_error: float | None
    bound: float
    versions: dict[str, str]
    sha256: dict[str, str]


@dataclass(frozen=True)
class Manifest:
    """What txexport.json says.

    Graphs are by role. Those of `native` are our runtime's: `model`, `encoder_model` and `decoder_model`, or
    `text_model`, `vision_model` and `similarity_model`; those of `hub` are for other clients. `data` are the
    files of weights by path. `form` is how all that is written. `limits` are the longest sequences, in
    tokens, of encoder and decoder, or of the stack of text beside one of images; None is no limit.
    `companions` are the files copied from the checkpoint, or made of it, with their SHA-256. `proof` is what
    verify last found, None before.
    """

    model_type: str
    task: str
    form: Form
    native: dict[str, GraphFile]
    hub: dict[str, GraphFile]
    data: dict[str, DataFile]
    limits: dict[str, int | None]
    spec: dict
    source: Source
    companions: dict[str, str]
    versions: dict[str, str]
    format: int = FORMAT
    proof: Proof | None = None

    @property
    def graphs(self) -> dict[str, GraphFile]:
        """The graphs that our runtime runs, by role."""
        return self.native or self.hub

    @property
    def cache(self) -> str | None:
        """The kind of their cache, "static" or "dynamic"; None where nothing is generated."""
        return self.form.cache

    @property
    def every_graph(self) -> list[GraphFile]:
        """All graphs, for whomever they are."""
        return [*self.native.values(), *self.hub.values()]

    @property
    def for_others(self) -> "Manifest":
        """The same as if it held the graphs for other clients alone."""
        cache = None if self.cache is None else "dynamic"
        return dataclasses.replace(
            self, native={}, form=dataclasses.replace(self.form, cache=cache, only="hub")
        )

    @property
    def sha256(self) -> str:
        """SHA-256 of what this says, but for the proof."""
        text = json.dumps(dataclasses.asdict(dataclasses.replace(self, proof=None)), sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()

    @property
    def files(self) -> list[str]:
        """Every file of the bundle, as paths below its folder."""
        graphs = [graph.file for graph in self.every_graph]
        return [MANIFEST, *self.data, *graphs, *self.companions]

    def write(self, path: Path) -> None:
        """Write this as txexport.json at `path`."""
        path.write_text(json.dumps(dataclasses.asdict(self), indent=2) + "\n", encoding="utf-8")


def parsed(path: Path, values: dict) -> Manifest:
    """The manifest of the JSON that lies at `path`. Raises BundleError for one that is none, or not ours."""
    try:
        if values["format"] > FORMAT:
            raise BundleError(
                f"{path} has format {values['format']}, this txexport reads up to {FORMAT}; update it"
            )
        if values["format"] < FORMAT:
            raise BundleError(f"{path} is of an older txexport; export again")
        native, hub = (_graph_files(values.pop(key)) for key in ("native", "hub"))
        data = {name: DataFile(**entry) for name, entry in values.pop("data").items()}
        for name in [
            *(graph.file for graph in (*native.values(), *hub.values())),
            *data,
            *values["companions"],
        ]:
            if not stays_inside(name):
                raise BundleError(f"{path} names {name!r}, expected a path within its folder; export again")
        recorded = values.pop("proof", None)
        proof = None if recorded is None else Proof(**recorded)
        source, form = Source(**values["source"]), Form(**values["form"])
        manifest = Manifest(
            **values
            | {"native": native, "hub": hub, "data": data, "source": source, "form": form, "proof": proof}
        )
        graphs = manifest.every_graph
        ports = [port for graph in graphs for port in (*graph.inputs, *graph.outputs)]
        entries = (manifest, source, form, *graphs, *data.values(), *ports)
        for entry in (*entries, *([proof] if proof is not None else [])):
            check_fields(entry)
        spec = from_dict(ModelSpec, manifest.spec)
        for key, names, expected in (
            ("native graphs", native, () if form.only == "hub" else roles.of(spec)),
            (
                "hub graphs",
                hub,
                () if form.only == "native" else roles.of_client(ECOSYSTEM.graphs(spec), form.client),
            ),
            ("limits", manifest.limits, limits(spec)),
        ):
            if set(names) != set(expected):
                listed = ", ".join(names) or "none"
                raise ValueError(f"{key} are {listed}, expected {', '.join(sorted(expected)) or 'none'}")
        return manifest
    except (ValueError, KeyError, TypeError, AttributeError, SpecError) as error:
        raise BundleError(f"{path} is damaged: {error!r}; export again") from None


def _graph_files(values: dict) -> dict[str, GraphFile]:
    return {
        role: GraphFile(
            graph["file"],
            [Port(**port) for port in graph["inputs"]],
            [Port(**port) for port in graph["outputs"]],
            graph["sha256"],
        )
        for role, graph in values.items()
    }


def limits(spec: ModelSpec) -> dict[str, int | None]:
    """The longest sequences of a model's stacks of text, in tokens; None is no limit."""
    stacks = {"text": spec.text} if isinstance(spec, DualEncoderSpec) else spec.stacks
    return {name: stack.limit for name, stack in stacks.items()}
