"""RT-DETRv2 (Lv et al. 2024): RT-DETR whose offsets have a scale of their own."""

from txexport.families import rt_detr
from txexport.families._config import Config, TensorNames
from txexport.spec import EncoderSpec

TASKS = {"object-detection": ("RTDetrV2ForObjectDetection",)}
NAMING = rt_detr.NAMING
REFUSED = {"RTDetrV2Model": "its queries are no result of a task; expected RTDetrV2ForObjectDetection"}
ALIASES, table = rt_detr.ALIASES, rt_detr.table


def spec(config: Config, task: str, names: TensorNames) -> EncoderSpec:
    """The architecture that config.json describes."""
    config = config.with_defaults(decoder_n_levels=3, decoder_offset_scale=0.5, num_feature_levels=3)
    config.expect(decoder_method="default", decoder_n_levels=config.integer("num_feature_levels"))
    return rt_detr.detector(config, config.number("decoder_offset_scale"))
