"""What txexport.json says of a bundle."""

import dataclasses
import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from txexport.arguments import check_fields
from txexport.contracts import OUTPUTS, Port, for_others, roles
from txexport.errors import BundleError, InputError, SpecError
from txexport.formats import DEFAULT, DTYPES
from txexport.paths import stays_inside
from txexport.spec import DualEncoderSpec, ModelSpec
from txexport.spec.serialization import from_dict

MANIFEST = "txexport.json"
FORMAT, OLDEST = 7, 6  # what export writes, and from which on every one is read: see CONTRIBUTING.md


@dataclass(frozen=True)
class GraphFile:
    """One ONNX file of a bundle, and its SHA-256."""

    file: str
    inputs: list[Port]
    outputs: list[Port]
    sha256: str


@dataclass(frozen=True)
class Calibration:
    """The texts that integers were calibrated by: how many, of how many tokens, and their SHA-256 as JSON.

    `searched` are matrices, by the first name of each, that these did not calibrate.
    """

    texts: int
    tokens: int
    sha256: str
    searched: list[str]


@dataclass(frozen=True)
class Form:
    """How a bundle is written: what export was asked for.

    `cache` and `opset` are those of our own graphs, which are flat where `inline`; of graphs for other
    clients the opset is at most export's HUB_OPSET, but over a shared buffer. `only` is "native" for our
    graphs alone, "hub" for the others alone, None for both. In a `single_file`, weights lie within the graph.
    `client` is the one that the others are laid out for, where it needs another layout than a hub's.
    `dtypes` are those in which the bundle is written, by name: the first is what one gets who asks for none;
    `keep` are patterns of names of parameters that stay float32 in all of them; `calibrated` says by what
    texts integers were calibrated, by dtype. `outputs` are those of every layer that graphs give too. int8
    takes the middle off rows where it is `centred`, which it was not in bundles of format 6. `rope_factors`
    are the ones of LongRoPE, where "short" or "long" were asked for, and `image_size` height and width of
    images, where these were.
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
    rope_factors: str | None = None
    image_size: list[int] | None = None


@dataclass(frozen=True)
class Graphs:
    """The graphs of one dtype by role: `native` are our runtime's, `hub` those for other clients."""

    native: dict[str, GraphFile]
    hub: dict[str, GraphFile]


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

    Graphs are by dtype, and then by role. Those of `native` are our runtime's: `model`, `encoder_model` and
    `decoder_model`, or `text_model`, `vision_model` and `similarity_model`; those of `hub` are for other
    clients. `data` are the files of weights by path. `form` is how all that is written. `limits` are the
    longest sequences, in tokens, of encoder and decoder, or of the stack of text beside one of images; None
    is no limit. `companions` are the files copied from the checkpoint, or made of it, with their SHA-256.
    `promised` is the longest sequence that config.json promises by its kind of rotary scaling, where that is
    longer than the limit.
    `proof` is what verify last found, None before.
    """

    model_type: str
    task: str
    form: Form
    formats: dict[str, Graphs]
    data: dict[str, DataFile]
    limits: dict[str, int | None]
    spec: dict
    source: Source
    companions: dict[str, str]
    versions: dict[str, str]
    format: int = FORMAT
    promised: dict[str, int] = field(default_factory=dict)
    proof: Proof | None = None

    @property
    def dtype(self) -> str:
        """That of the graphs, unless another one is asked for."""
        return self.form.dtypes[0]

    @property
    def quantized(self) -> bool:
        """Whether those graphs multiply integers."""
        return not DTYPES[self.dtype].exact

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
        """The same as if it held the graphs for other clients alone."""
        cache = None if self.cache is None else "dynamic"
        formats = {dtype: Graphs({}, graphs.hub) for dtype, graphs in self.formats.items()}
        return dataclasses.replace(
            self, formats=formats, form=dataclasses.replace(self.form, cache=cache, only="hub")
        )

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
        """What is written: without what was not asked for, as before it could be."""
        values = dataclasses.asdict(self)
        asked = [(values["form"], name) for name in ("outputs", "rope_factors", "image_size")]
        for place, name in (*asked, (values, "promised")):
            if not place[name]:
                del place[name]
        return values


def parsed(path: Path, values: dict) -> Manifest:
    """The manifest of the JSON that lies at `path`. Raises BundleError for one that is none, or not ours."""
    try:
        if values["format"] > FORMAT:
            raise BundleError(
                f"{path} has format {values['format']}, this txexport reads up to {FORMAT}; update it"
            )
        if values["format"] < OLDEST:
            raise BundleError(f"{path} is of an older txexport; export again")
        formats = {
            dtype: Graphs(*(_graph_files(graphs[key]) for key in ("native", "hub")))
            for dtype, graphs in values.pop("formats").items()
        }
        data = {name: DataFile(**entry) for name, entry in values.pop("data").items()}
        recorded = values.pop("proof", None)
        proof = None if recorded is None else Proof(**recorded)
        source, form = Source(**values["source"]), _form(values["form"])
        manifest = Manifest(
            **values | {"formats": formats, "data": data, "source": source, "form": form, "proof": proof}
        )
        graphs = manifest.every_graph
        for name in [*(graph.file for graph in graphs), *data, *manifest.companions]:
            if not stays_inside(name):
                raise BundleError(f"{path} names {name!r}, expected a path within its folder; export again")
        ports = [port for graph in graphs for port in (*graph.inputs, *graph.outputs)]
        entries = (manifest, source, form, *form.calibrated.values(), *graphs, *data.values(), *ports)
        for entry in (*entries, *([proof] if proof is not None else [])):
            check_fields(entry)
        spec = from_dict(ModelSpec, manifest.spec)
        own = () if form.only == "hub" else roles.of(spec)
        others = () if form.only == "native" else for_others(spec, form.client)
        _check_dtypes(form)
        if len(set(form.outputs)) != len(form.outputs) or not set(form.outputs) <= set(OUTPUTS):
            raise ValueError(f"outputs are {form.outputs}, expected some of {', '.join(OUTPUTS)}")
        if not manifest.promised.keys() <= BEYOND.keys() or (
            manifest.promised and None in manifest.limits.values()
        ):
            raise ValueError(f"promised is {manifest.promised}, of limits {manifest.limits}")
        listed: list[tuple[str, Iterable[str], Iterable[str]]] = [
            ("dtypes", formats, form.dtypes),
            ("limits", manifest.limits, limits(spec)),
        ]
        for one in formats.values():
            listed += [("native graphs", one.native, own), ("hub graphs", one.hub, others)]
        for key, names, expected in listed:
            if set(names) != set(expected):
                found = ", ".join(names) or "none"
                raise ValueError(f"{key} are {found}, expected {', '.join(sorted(expected)) or 'none'}")
        return manifest
    except (ValueError, KeyError, TypeError, AttributeError, SpecError) as error:
        raise BundleError(f"{path} is damaged: {error!r}; export again") from None


def _form(values: dict) -> Form:
    calibrated = {dtype: Calibration(**one) for dtype, one in values.get("calibrated", {}).items()}
    return Form(**values | {"calibrated": calibrated})


def _check_dtypes(form: Form) -> None:
    """Raise ValueError unless every one is known, and there once, and what is calibrated can be."""
    dtypes = form.dtypes
    if not dtypes or len(set(dtypes)) != len(dtypes) or not set(dtypes) <= DTYPES.keys():
        raise ValueError(f"dtypes are {dtypes}, expected some of {', '.join(DTYPES)}")
    if not form.calibrated.keys() <= {name for name in dtypes if DTYPES[name].calibrates}:
        raise ValueError(f"calibrated are {', '.join(form.calibrated)}, of dtypes {', '.join(dtypes)}")


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


BEYOND = {
    "longrope": "beyond, it has long factors; export with --rope-factors long for those",
    "dynamic": "beyond, tokens turn anew at every length, which a cache cannot follow; for longer ones give "
    "config.json another rope_scaling, as yarn",
}


def limited(limits: Mapping[str, int | None], promised: Mapping[str, int]) -> str | None:
    """See Manifest.limited."""
    for kind, length in promised.items():
        (limit, *_) = limits.values()
        ends = (
            f"sequences end at {limit:,} tokens, of {length:,} that config.json promises with '{kind}' rope"
        )
        return f"{ends}: {BEYOND[kind]}"
    return None


def limits(spec: ModelSpec) -> dict[str, int | None]:
    """The longest sequences of a model's stacks of text, in tokens; None is no limit."""
    stacks = {"text": spec.text} if isinstance(spec, DualEncoderSpec) else spec.stacks
    return {name: stack.limit for name, stack in stacks.items()}
