"""Mamba (Gu and Dao 2023): selective state spaces alone."""

from txexport.checkpoints.weight_map import Rules, Table
from txexport.families import _causal, mamba2
from txexport.families._config import Config, TensorNames
from txexport.spec import DecoderSpec, EncoderSpec, MambaSpec

TASKS = {"text-generation": ("MambaForCausalLM",)}

NAMING = mamba2.NAMING


def spec(config: Config, task: str, names: TensorNames) -> EncoderSpec | DecoderSpec:
    """The architecture that config.json describes; there is no limit of positions."""
    return _causal.model(config, task, mamba2.stack_spec(config, layer(config)), tied=True)


def layer(config: Config, norm_eps: float | None = None) -> MambaSpec:
    """A layer by the settings of config.json; its width may be given beside the factor `expand`."""
    _causal.expect_silu(config, "a Mamba layer")
    width = config.integer("hidden_size")
    automatic = config.values.get("time_step_rank", "auto") == "auto"
    return MambaSpec(
        width,
        config.integer("intermediate_size", config.integer("expand", 2) * width),
        config.integer("state_size", 16),
        -(-width // 16) if automatic else config.integer("time_step_rank"),
        config.integer("conv_kernel", 4),
        bias=config.flag("use_bias", False),
        convolution_bias=config.flag("use_conv_bias", True),
        norm_eps=norm_eps,
    )


def table(spec: EncoderSpec | DecoderSpec) -> Table:
    """Map parameters to the tensor names of transformers."""
    layer = f"{_causal.stack_name(spec)}.layers.{{i}}.attention"
    return Table(rules(layer, "layers.{i}.mixer") | mamba2.around(spec), NAMING, _causal.other_heads(spec))


def rules(layer: str, source: str) -> Rules:
    """Tensor names of the Mamba layers of `layer`."""
    return {
        f"{layer}.project.*": f"{source}.in_proj.*",
        f"{layer}.convolution.*": f"{source}.conv1d.*",
        f"{layer}.select.*": f"{source}.x_proj.*",
        f"{layer}.step.*": f"{source}.dt_proj.*",
        f"{layer}.rate": f"{source}.A_log",
        f"{layer}.skip": f"{source}.D",
        f"{layer}.output.*": f"{source}.out_proj.*",
    }
