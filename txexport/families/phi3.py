"""Phi-3 (Abdin et al. 2024): LLaMA with fused projections."""

from txexport.checkpoints.weight_map import Rules, Table, Take
from txexport.families import _causal, llama
from txexport.families._config import Config, TensorNames
from txexport.spec import DecoderSpec, EncoderSpec

TASKS = _causal.tasks("Phi3", spans=False)

NAMING = llama.NAMING
PUBLISHED_WITH_CODE = True


def spec(config: Config, task: str, names: TensorNames) -> EncoderSpec | DecoderSpec:
    """The architecture that config.json describes."""
    config = config.with_defaults(rms_norm_eps=1e-5, original_max_position_embeddings=4096)
    config.expect(attention_bias=False)
    has_window = config.values.get("sliding_window") is not None
    window = config.integer("sliding_window") if has_window else None
    return llama.decoder_spec(config, task, windows=(window,), fraction="partial_rotary_factor")


def table(spec: EncoderSpec | DecoderSpec) -> Table:
    """As LLaMA's; query, key and value are stored in one tensor, gate and up in another."""
    attention, inherited = spec.stack.blocks[0].dense, llama.table(spec)
    layer, fused = f"{_causal.stack_name(spec)}.layers.{{i}}", "layers.{i}.self_attn.qkv_proj.*"
    heads, keys = attention.num_heads, attention.num_kv_heads
    parts = heads + 2 * keys
    rules: Rules = {
        f"{layer}.attention.q.*": Take(fused, part=0, parts=parts, width=heads),
        f"{layer}.attention.k.*": Take(fused, part=heads, parts=parts, width=keys),
        f"{layer}.attention.v.*": Take(fused, part=heads + keys, parts=parts, width=keys),
        f"{layer}.feed_forward.gate.*": Take("layers.{i}.mlp.gate_up_proj.*", part=0, parts=2),
        f"{layer}.feed_forward.up.*": Take("layers.{i}.mlp.gate_up_proj.*", part=1, parts=2),
    }
    return Table(inherited.rules | rules, NAMING, inherited.drop)
