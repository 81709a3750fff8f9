"""`to_openvino`: a decoder in OpenVINO's own format, which optimum-intel and OpenVINO GenAI open.

OpenVINO keeps the caches between calls. A call's `beam_idx` (B) int32 has, for each row, the row of the call
before that it continues.
"""

import shutil
from pathlib import Path

from txexport import bundle
from txexport.bundle.manifest import rounds_activations
from txexport.contracts import roles
from txexport.errors import BundleError, UnsupportedError, crashes, needed_for
from txexport.exporter.genai import GENAI
from txexport.exporter.staging import placed
from txexport.support.arguments import checked

MODEL = "openvino_model.xml"
# optimum-intel runs these types by a class that gives no position_ids.
WITHOUT_POSITIONS = (
    *("mamba", "falcon_mamba", "lfm2", "lfm2_moe", "granitemoehybrid"),
    *("qwen3_next", "qwen3_5_text", "qwen3_5_moe_text"),
)
MASK_OF_STEPS = ("zamba2",)  # of these, that class gives the mask of new tokens only
SETTINGS = "runtime_options"  # of a model's file; an application's own settings override them


@checked
@crashes()
def to_openvino(folder: str | Path, out: str | Path, *, dtype: str | None = None) -> None:
    """Write a decoder's bundle to the new folder `out` in OpenVINO's format, with the bundle's other files.

    `dtype` is one of the bundle's, by default its first. Needs the package openvino. Raises UnsupportedError
    for a model that is no decoder of texts, or that optimum-intel cannot run, and BundleError for a bundle
    without a graph that OpenVINO reads.
    """
    with needed_for("writing OpenVINO's format"):
        from txexport.exporter.openvino_caches import count_positions, keep_caches
        from txexport.runtime.engines.openvino import ROUNDED_TOGETHER, check_weights, openvino, read_graph
    folder, out = Path(folder), Path(out)
    manifest = bundle.read(folder).of_dtype(dtype)
    if manifest.task != "text-generation":
        raise UnsupportedError(
            f"{folder} is for {manifest.task}; only text-generation becomes OpenVINO's format"
        )
    config = bundle.read_json(folder / "config.json")
    model_type = config.get("model_type")  # by which optimum-intel chooses a class
    if model_type in MASK_OF_STEPS:
        raise UnsupportedError(
            f"{folder}: after the prompt, optimum-intel leaves out the mask that {model_type} needs"
        )
    if roles.MODEL not in manifest.hub:
        raise BundleError(f"{folder} lacks the graph for other clients; export without --only native")
    bundle.check(folder, manifest)
    check_weights(folder, manifest)
    model = read_graph(openvino.Core(), folder / manifest.hub[roles.MODEL].file)
    if model_type in WITHOUT_POSITIONS:
        count_positions(model)
    keep_caches(model)
    model.set_rt_info("f32", [SETTINGS, "KV_CACHE_PRECISION"])  # by default, 8 bits
    if not rounds_activations(manifest.session_options):
        model.set_rt_info("0", [SETTINGS, ROUNDED_TOGETHER])
    with placed(out.resolve(), folder, force=False) as partial:
        openvino.save_model(model, partial / MODEL, compress_to_fp16=False)
        for name in manifest.companions.keys() - {GENAI}:
            (partial / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(folder / name, partial / name)
