"""GPT-BigCode, the first StarCoder (Li et al. 2023): GPT-2 with multi-query attention."""

from txexport.checkpoints.weight_map import Rules, Table, Take
from txexport.families import _causal, gpt2
from txexport.families._config import Config, TensorNames
from txexport.spec import DecoderSpec, EncoderSpec

TASKS = _causal.tasks("GPTBigCode", spans=False)

NAMING = gpt2.NAMING
ALIASES = gpt2.ALIASES


def spec(config: Config, task: str, names: TensorNames) -> EncoderSpec | DecoderSpec:
    """The architecture that config.json describes."""
    shared = config.flag("multi_query", True)
    return gpt2.decoder_spec(config, task, key_heads=1 if shared else config.integer("n_head"))


def table(spec: EncoderSpec | DecoderSpec) -> Table:
    """As GPT-2's, with matrices stored (out, in); keys follow all queries, or each head's."""
    inherited, attention = gpt2.table(spec), spec.stack.blocks[0].dense
    layer = f"{_causal.stack_name(spec)}.layers.{{i}}"
    groups, heads = attention.num_kv_heads, attention.num_heads // attention.num_kv_heads

    def cut(part: int, width: int = 1) -> Take:
        return Take("h.{i}.attn.c_attn.*", part=part, parts=heads + 2, width=width, groups=groups)

    rules: Rules = {
        f"{layer}.attention.q.*": cut(0, heads),
        f"{layer}.attention.k.*": cut(heads),
        f"{layer}.attention.v.*": cut(heads + 1),
        f"{layer}.attention.o.*": "h.{i}.attn.c_proj.*",
        f"{layer}.feed_forward.up.*": "h.{i}.mlp.c_fc.*",
        f"{layer}.feed_forward.down.*": "h.{i}.mlp.c_proj.*",
    }
    return Table(inherited.rules | rules, NAMING, inherited.drop)
