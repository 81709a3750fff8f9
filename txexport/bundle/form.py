"""The options of an export, as txexport.json records them."""

from dataclasses import dataclass, field

from txexport.contracts import roles
from txexport.formats import COMPUTED, DEFAULT, DTYPES, Dtype


@dataclass(frozen=True)
class Calibration:
    """The texts of a calibration: their number, their tokens, and their SHA-256 as JSON.

    `searched` are matrices that fell back to the scale search, by the first name of each.
    """

    texts: int
    tokens: int
    sha256: str
    searched: list[str]


@dataclass(frozen=True)
class ExportOptions:
    """The options that a bundle was exported with; the field `form` of txexport.json.

    - `cache`, `opset`: of our own graphs; others have HUB_OPSET of export at most, but over a shared buffer.
    - `inline`: our graphs have no functions. `single_file`: weights are inside the graph.
    - `only`: "native" if only our graphs were written, "hub" if only those for other clients, None for both.
    - `client`: the client that the hub graphs are laid out for, or "cuda", for which our own are written;
      None is the common layout.
    - `dtypes`: the dtypes of the bundle by name; the first is the default.
    - `keep`: patterns of names of parameters that stay float32 in all dtypes.
    - `calibrated`: the texts of a calibration, by dtype.
    - `outputs`: outputs of every layer that graphs also give.
    - `centred`: int8 activations are quantised around the row's mid-range; False in bundles of format 6.
    - `widened`: a checkpoint's own 8-bit integers become float32 at load; False in early bundles.
    - `rope_factors`: the LongRoPE factors, "short" or "long"; `image_size`: height and width of images;
      `language`: that whose adapter the graphs have; each None if export was called without.
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
    language: str | None = None

    def dtype(self, name: str) -> Dtype:
        """The dtype of that name, one of `dtypes`, as these options have it."""
        if self.client == roles.CUDA and name in COMPUTED:
            return COMPUTED[name]
        return DTYPES[name] if self.centred else DTYPES[name].uncentred
