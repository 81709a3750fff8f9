"""Falcon-H1 (Zuo et al. 2025): attention and Mamba-2 side by side in every layer, and fixed multipliers."""

from dataclasses import replace

from txexport.checkpoints.weight_map import Rules, Table, Take
from txexport.families import _causal, _mamba2, llama
from txexport.families._config import Config, TensorNames
from txexport.spec import BlockSpec, DecoderSpec, EncoderSpec, Mamba2Spec

TASKS = {"text-generation": ("FalconH1ForCausalLM",)}

NAMING = llama.NAMING
ALIASES = {"layer_types": "layers_block_type"}  # which it computes: every layer has both


def spec(config: Config, task: str, names: TensorNames) -> EncoderSpec | DecoderSpec:
    """The architecture that config.json describes; the multipliers of layers are in the weights."""
    config = config.with_defaults(rms_norm_eps=1e-5, num_key_value_heads=8, max_position_embeddings=8192)
    bias = config.flag("attention_bias", False)
    stack = llama.stack_spec(
        config, bias=bias, output_bias=bias, feed_forward_bias=config.flag("mlp_bias", False)
    )
    beside = _beside(config, stack.hidden_size)

    def varied(layer: int, block: BlockSpec) -> BlockSpec:
        return replace(block, beside=beside)

    embedding = replace(stack.embedding, scale=config.number("embedding_multiplier", 1.0))
    stack = replace(_causal.each_layer(stack, varied), embedding=embedding)
    scale = config.number("lm_head_multiplier", 1.0)
    return _causal.model(config, task, stack, tied=False, scale=scale)


def _beside(config: Config, width: int) -> Mamba2Spec:
    """The Mamba-2 layer, whose width config.json may give, with a norm or none."""
    has_width = "mamba_d_ssm" not in config.values or config.values["mamba_d_ssm"] is not None
    inner = config.integer("mamba_d_ssm", 1024) if has_width else None
    layer = _mamba2.layer(config, width, inner)
    config.expect(projectors_bias=layer.bias)
    gate_first = not config.flag("mamba_norm_before_gate", True)
    norm = layer.norm if config.flag("mamba_rms_norm", False) else None
    return replace(layer, norm=norm, gate_first=norm is None or gate_first)


def table_of(config: Config, task: str, names: TensorNames) -> Table:
    """As LLaMA's, with a Mamba-2 layer and other names; multipliers are those of a projection's rows."""
    described = spec(config, task, names)
    stack, inherited = _causal.stack_name(described), llama.table(described)
    layer = f"{stack}.layers.{{i}}"
    named: Rules = {
        f"{layer}.feed_forward.up.*": "layers.{i}.feed_forward.up_proj.*",
        f"{layer}.feed_forward_norm.*": "layers.{i}.pre_ff_layernorm.*",
        f"{stack}.final_norm.*": "final_layernorm.*",
    }
    named |= _mamba2.rules(f"{layer}.beside", "layers.{i}.mamba")
    scaled = _multipliers(config, described.stack.blocks[0], layer)  # before the rules of whole projections
    return Table(scaled | inherited.rules | named, NAMING, inherited.drop)


def _multipliers(config: Config, block: BlockSpec, layer: str) -> Rules:
    """The projections of a layer that have multipliers."""
    attention, beside, width = block.dense, block.beside, block.norm.size
    assert isinstance(beside, Mamba2Spec)
    queries, keys = (heads * attention.head_dim for heads in (attention.num_heads, attention.num_kv_heads))
    gate, down = _factors(config, "mlp_multipliers", 2)
    reads, writes, key, inputs, outputs = (
        config.number(f"{name}_multiplier", 1.0)
        for name in ("attention_in", "attention_out", "key", "ssm_in", "ssm_out")
    )
    parts = (beside.inner_size, *beside.widths, beside.num_state_heads)
    mixed = tuple(zip(parts, _factors(config, "ssm_multipliers", len(parts)), strict=True))
    wide = config.integer("intermediate_size")
    each = {
        ("attention.q", "self_attn.q_proj"): (reads, ((queries, 1.0),)),
        ("attention.k", "self_attn.k_proj"): (reads, ((keys, key),)),
        ("attention.v", "self_attn.v_proj"): (reads, ((keys, 1.0),)),
        ("attention.o", "self_attn.o_proj"): (1.0, ((width, writes),)),
        ("beside.project", "mamba.in_proj"): (inputs, mixed),
        ("beside.output", "mamba.out_proj"): (1.0, ((width, outputs),)),
        ("feed_forward.gate", "feed_forward.gate_proj"): (1.0, ((wide, gate),)),
        ("feed_forward.down", "feed_forward.down_proj"): (1.0, ((width, down),)),
    }
    rules: Rules = {}
    for (ours, theirs), factors in each.items():
        rules |= _scaled(f"{layer}.{ours}", f"layers.{{i}}.{theirs}", *factors)
    return rules


def _factors(config: Config, key: str, count: int) -> list[float]:
    """The multipliers of `count` parts; 1 each where config.json has none."""
    if config.values.get(key) is None:
        return [1.0] * count
    factors = config.numbers(key)
    config.expect(**{key: (factors + [1.0] * count)[:count]})
    return factors


def _scaled(ours: str, theirs: str, inputs: float, outputs: tuple[tuple[int, float], ...]) -> Rules:
    """A projection whose `inputs` have a multiplier; `outputs` are numbers of rows, and their multipliers."""
    weights = tuple((rows, inputs * factor) for rows, factor in outputs)
    return {
        f"{ours}.{name}": Take(f"{theirs}.{name}", times=times if any(one != 1 for _, one in times) else ())
        for name, times in (("weight", weights), ("bias", outputs))
    }
