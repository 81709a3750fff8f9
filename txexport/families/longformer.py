"""Longformer (Beltagy et al. 2020): RoBERTa whose tokens see a window around them, and global tokens.

Which tokens are global is an input of every task's graph, `global_attention_mask`. The original takes it too;
where its caller gives none, it chooses: no token for hidden states, words and labels of tokens, the first one
for labels of sequences, those before the first separator for answers, those after the second for choices.
"""

from collections.abc import Set
from dataclasses import replace

from txexport.checkpoints.weight_map import Naming, Rules, Table
from txexport.families import bert, roberta
from txexport.families._config import Config, minimal_cycle
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


def spec(config: Config, task: str, names: Set[str]) -> EncoderSpec:
    """The architecture that config.json describes."""
    result = roberta.spec(config, task, names)
    [block], windows = result.encoder.blocks, config.each("attention_window", result.encoder.num_layers, 512)
    sizes = block.dense.hidden_size, block.dense.num_heads, block.dense.head_dim
    layers = (replace(block, attention=LongformerAttentionSpec(*sizes, window)) for window in windows)
    return replace(result, encoder=replace(result.encoder, blocks=minimal_cycle(layers)))


def table(spec: EncoderSpec) -> Table:
    """Where transformers keeps each parameter."""
    result, source = roberta.table(spec), f"{bert.SOURCE}.attention.self"
    apart: Rules = {
        f"{bert.LAYER}.attention.q_global.*": f"{source}.query_global.*",
        f"{bert.LAYER}.attention.k_global.*": f"{source}.key_global.*",
        f"{bert.LAYER}.attention.v_global.*": f"{source}.value_global.*",
    }
    return replace(result, rules=result.rules | apart, naming=NAMING)
