"""Longformer (Beltagy et al. 2020): RoBERTa whose tokens see a window around them, and global tokens.

Which tokens are global is an input of every task's graph, `global_attention_mask`. The original takes it too;
where its caller gives none, it chooses: no token for hidden states, words and labels of tokens, the first one
for labels of sequences, those before the first separator for answers, those after the second for choices.
"""

from dataclasses import replace

from txexport.checkpoints.weight_map import Naming, Rules, Table
from txexport.families import bert, roberta
from txexport.families._config import Config, TensorNames, minimal_cycle
from txexport.spec import EncoderSpec, LongformerAttentionSpec

TASKS = {
    "feature-extraction": ("LongformerModel",),
    "fill-mask": ("LongformerForMaskedLM",),
    "text-classification": ("LongformerForSequenceClassification",),
    "token-classification": ("LongformerForTokenClassification",),
    "question-answering": ("LongformerForQuestionAnswering",),
    "multiple-choice": ("LongformerForMultipleChoice",),
}

NAMING = Naming("longformer.", roberta.NAMING.rename)


def spec(config: Config, task: str, names: TensorNames) -> EncoderSpec:
    """The architecture that config.json describes."""
    base = roberta.spec(config, task, names)
    [block], windows = base.encoder.blocks, config.each("attention_window", base.encoder.num_layers, 512)
    sizes = block.dense.hidden_size, block.dense.num_heads, block.dense.head_dim
    layers = (replace(block, attention=LongformerAttentionSpec(*sizes, window)) for window in windows)
    return replace(base, encoder=replace(base.encoder, blocks=minimal_cycle(layers)))


def table(spec: EncoderSpec) -> Table:
    """Where transformers keeps each parameter."""
    inherited, source = roberta.table(spec), f"{bert.SOURCE}.attention.self"
    apart: Rules = {
        f"{bert.LAYER}.attention.q_global.*": f"{source}.query_global.*",
        f"{bert.LAYER}.attention.k_global.*": f"{source}.key_global.*",
        f"{bert.LAYER}.attention.v_global.*": f"{source}.value_global.*",
    }
    return replace(inherited, rules=inherited.rules | apart, naming=NAMING)
