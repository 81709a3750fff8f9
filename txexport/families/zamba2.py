"""Zamba2 (Glorioso et al. 2024): Mamba-2 layers; a few shared transformer blocks come before some of them."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from txexport.checkpoints.weight_map import Naming, Rules, Table, Take
from txexport.errors import CheckpointError, UnsupportedError
from txexport.families import _causal, _mamba2, llama
from txexport.families._config import Config, TensorNames, minimal_cycle
from txexport.spec import DecoderSpec, EncoderSpec, FeedForwardSpec, TextStackSpec

TASKS = {"text-generation": ("Zamba2ForCausalLM",)}

NAMING = Naming("model.")
ALIASES = {"layer_types": "layers_block_type", "head_dim": "attention_head_dim"}
STATES, HYBRID = "linear_attention", "hybrid"
OLDER = {"mamba": STATES}  # names of kinds in older files
DEFAULT = [STATES, *([*[STATES] * 5, HYBRID] * 7), *[STATES] * 4, HYBRID, *[STATES] * 3, HYBRID]
DEFAULT += [STATES] * 2
SETTINGS = {  # Bamba's names of them, and the default
    "n_mamba_heads": ("mamba_n_heads", 8),
    "mamba_headdim": ("mamba_d_head", "auto"),
    "mamba_d_state": ("mamba_d_state", 64),
    "mamba_ngroups": ("mamba_n_groups", 1),
    "add_bias_linear": ("mamba_proj_bias", False),
}
NO_FLOOR = 1e-30  # a time step that changes no state


def spec(config: Config, task: str, names: TensorNames) -> EncoderSpec | DecoderSpec:
    """The architecture that config.json describes."""
    return _causal.model(config, task, stack_spec(_settled(config)), tied=True)


def _settled(config: Config) -> Config:
    """config.json with the values that the library computes. Raises CheckpointError and UnsupportedError."""
    config = config.with_defaults(
        hidden_size=2560,
        num_hidden_layers=len(DEFAULT),
        num_attention_heads=32,
        vocab_size=32_000,
        max_position_embeddings=4096,
        rms_norm_eps=1e-5,
        hidden_act="gelu",
    )
    config.expect(use_long_context=False)  # versions of the library differ in its frequencies
    width, heads = config.integer("hidden_size"), config.integer("num_attention_heads")
    values: dict[str, Any] = {"layers_block_type": _kinds(config)}
    hybrid = [layer for layer, kind in enumerate(values["layers_block_type"]) if kind == HYBRID]
    config.expect(attention_hidden_size=2 * width, hybrid_layer_ids=hybrid)
    if config.values.get("attention_head_dim") is None:
        values["attention_head_dim"] = config.head_dim(2 * width, heads)
    if not config.values.get("intermediate_size"):
        values["intermediate_size"] = 4 * width
    if (blocks := config.count("num_mem_blocks", 1)) < 1:
        raise CheckpointError(f"{config.path}: 'num_mem_blocks' is {blocks}, expected 1 or more")
    return config.replaced(**values)


def _kinds(config: Config) -> list[str]:
    """The kind of each layer."""
    written = config.strings("layers_block_type") or DEFAULT
    kinds = config.replaced(layers_block_type=[OLDER.get(one, one) for one in written])
    return kinds.layer_types(STATES, HYBRID, key="layers_block_type")


def stack_spec(config: Config) -> TextStackSpec:
    """The stack of a config.json that is settled."""
    rotates, adapted = config.flag("use_mem_rope", False), config.flag("use_shared_attention_adapter", False)
    heads, size = config.integer("num_attention_heads"), config.integer("attention_head_dim")
    read = config.replaced(head_dim=size)
    if not rotates:
        read = read.replaced(rope_parameters=None, rope_scaling=None)
    stack = llama.stack_spec(read, feed_forward_bias=config.flag("add_bias_linear", False))
    width, rank = stack.hidden_size, config.integer("adapter_rank", 128)
    if adapted:  # as wide as what attention reads
        config.expect(num_key_value_heads=heads, attention_head_dim=config.head_dim(2 * width, heads))
    fixed = {"hidden_act": "silu", "rms_norm_eps": 1e-5, "mamba_conv_bias": True}
    states = _mamba2.layer(_mamba2.renamed(config, SETTINGS).replaced(**fixed), width)
    plain = stack.blocks[0]
    assert isinstance(plain.feed_forward, FeedForwardSpec)
    attention = replace(
        plain.dense,
        scale=(size / 2) ** -0.5,
        input_size=2 * width,
        adapter_rank=rank if adapted else None,
        rotary=plain.dense.rotary if rotates else None,
    )
    blocks = {
        STATES: replace(plain, attention=states, feed_forward=None),
        HYBRID: replace(
            plain,
            attention=attention,
            feed_forward=replace(plain.feed_forward, adapter_rank=rank),
            beside=states,
            joins_embedding=True,
        ),
    }
    kinds = config.strings("layers_block_type")
    if HYBRID not in kinds:
        raise UnsupportedError(
            f"{config.path}: no layer is {HYBRID!r}, expected one or more: the original takes the length of "
            "a cache from its keys"
        )
    return replace(stack, blocks=minimal_cycle(blocks[kind] for kind in kinds))


def spelt_out(config: Config) -> tuple[Mapping[str, Any], str]:
    """config.json without a smallest time step."""
    note = (
        "time steps have no limit, as when Zamba2 was trained. transformers takes time_step_min for a limit, "
        "in prompts alone; it is held against transformers without one"
    )
    return dict(config.values) | {"time_step_min": NO_FLOOR}, note


def table_of(config: Config, task: str, names: TensorNames) -> Table:
    """Map parameters to the tensor names of transformers; layers share the tensors of a few blocks.

    Where embeddings are not tied, transformers ties no blocks either, and ignores a layer's adapters for
    others.
    """
    described, count = spec(config, task, names), config.integer("num_mem_blocks", 1)
    tied = config.flag("tie_word_embeddings", True)
    stack = _causal.stack_name(described)
    layer = f"{stack}.layers.{{i}}"
    rules: Rules = {
        f"{stack}.embedding.word.weight": Take("embed_tokens.weight", also=_causal.copies(described)),
        f"{layer}.attention_norm.*": "layers.{i}.input_layernorm.*",
        f"{layer}.beside_norm.*": "layers.{i}.mamba_decoder.input_layernorm.*",
        f"{layer}.project.*": "layers.{i}.linear.*",
        f"{stack}.final_norm.*": "final_layernorm.*",
    }
    rules |= _mamba2.rules(f"{layer}.attention", "layers.{i}.mamba")
    rules |= _mamba2.rules(f"{layer}.beside", "layers.{i}.mamba_decoder.mamba")
    layers = described.stack.layers
    hybrid = [number for number, block in enumerate(layers) if block.joins_embedding]
    idle = []
    for use, number in enumerate(hybrid):
        users = hybrid[use % count :: count] if tied else [number]
        rules |= dict(_block_rules(f"{stack}.layers.{number}", use, number, users))
        if not tied:
            others = (other for other in range(len(hybrid)) if other != use)
            idle += [f"layers.{number}.shared_transformer.*_adapter_list.{other}.*" for other in others]
    return Table(rules | _causal.head_rules(described), NAMING, (*idle, *_causal.other_heads(described)))


def _block_rules(ours: str, use: int, layer: int, users: list[int]) -> Iterator[tuple[str, Take]]:
    """The tensors of a shared block and of its adapters in `use`, that of `layer`, one of its `users`.

    The first of the users has them; the others may have copies.
    """
    first, *others = users

    def take(name: str, copies: list[int], part: int = 0, parts: int = 1) -> Take:
        also = tuple(f"layers.{one}.shared_transformer.{name}" for one in copies)
        return Take(f"layers.{first}.shared_transformer.{name}", also=also, part=part, parts=parts)

    copies = [layer] if layer != first else []
    yield f"{ours}.attention_norm.weight", take("input_layernorm.weight", copies)
    yield f"{ours}.feed_forward_norm.weight", take("pre_ff_layernorm.weight", copies)
    for name in "qkvo":
        yield f"{ours}.attention.{name}.weight", take(f"self_attn.{name}_proj.weight", copies)
    for name in "qkv":
        adapter = f"self_attn.linear_{name}_adapter_list.{use}"
        yield f"{ours}.attention.{name}.adapter_down.weight", take(f"{adapter}.0.weight", others)
        yield f"{ours}.attention.{name}.adapter_up.weight", take(f"{adapter}.1.weight", others)
    network, adapter = "feed_forward.gate_up_proj", f"feed_forward.gate_up_proj_adapter_list.{use}"
    for kind in ("weight", "bias"):
        for part, name in enumerate(("gate", "up")):
            ours_part = f"{ours}.feed_forward.{name}.{kind}"
            yield ours_part, take(f"{network}.{kind}", copies, part=part, parts=2)
        yield f"{ours}.feed_forward.down.{kind}", take(f"feed_forward.down_proj.{kind}", copies)
    for part, name in enumerate(("gate", "up")):
        projection = f"{ours}.feed_forward.{name}"
        yield f"{projection}.adapter_down.weight", take(f"{adapter}.0.weight", others)
        yield f"{projection}.adapter_up.weight", take(f"{adapter}.1.weight", others, part=part, parts=2)
