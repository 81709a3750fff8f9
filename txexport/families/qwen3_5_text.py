"""Qwen3.5 (Qwen Team 2026), the text model: gated delta rules, and gated attention in some layers."""

from dataclasses import replace

from txexport.checkpoints.weight_map import Rules, Table, Take
from txexport.errors import UnsupportedError
from txexport.families import _causal, llama, qwen3_next
from txexport.families._config import Config, TensorNames
from txexport.spec import DecoderSpec, EncoderSpec

TASKS = {"text-generation": ("Qwen3_5ForCausalLM",)}

NAMING = llama.NAMING


def spec(config: Config, task: str, names: TensorNames) -> DecoderSpec:
    """The architecture that config.json describes; in texts, the three positions of M-RoPE are equal."""
    config = config.with_defaults(num_key_value_heads=4)
    stack = qwen3_next.stack_spec(config)
    model = _causal.model(config, task, stack, tied=False)
    assert isinstance(model, DecoderSpec)
    return replace(model, several_axes=True)


def table(spec: EncoderSpec | DecoderSpec) -> Table:
    """As Qwen3-Next's, with other names of projections."""
    return qwen3_next.with_delta(spec, llama.table(spec), projections(spec))


def projections(spec: EncoderSpec | DecoderSpec) -> Rules:
    """The projections of delta rules: one tensor has all queries, then all keys and values."""
    delta = qwen3_next.delta_of(spec)
    keys, _, values = delta.widths
    if values % keys:
        raise UnsupportedError(f"values are {values} wide, expected a multiple of {keys}, the width of keys")
    mixer, source = f"{_causal.stack_name(spec)}.layers.{{i}}.attention", "layers.{i}.linear_attn"
    joined, parts, width = f"{source}.in_proj_qkv.weight", 2 + values // keys, values // keys
    return {
        f"{mixer}.query.weight": Take(joined, part=0, parts=parts),
        f"{mixer}.key.weight": Take(joined, part=1, parts=parts),
        f"{mixer}.value.weight": Take(joined, part=2, parts=parts, width=width),
        f"{mixer}.gate.weight": f"{source}.in_proj_z.weight",
        f"{mixer}.beta.weight": f"{source}.in_proj_b.weight",
        f"{mixer}.decay.weight": f"{source}.in_proj_a.weight",
    }
