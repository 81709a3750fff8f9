"""EuroBERT (Boizard et al. 2025): LLaMA with bidirectional attention and encoder heads."""

from dataclasses import replace

from txexport import tasks
from txexport.checkpoints.weight_map import Rules, Table
from txexport.families import bert, llama
from txexport.families._config import Config, TensorNames
from txexport.spec import Activation, EncoderSpec, HeadKind, HeadSpec, Pick, TextStackSpec

TASKS = {
    "feature-extraction": ("EuroBertModel",),
    "fill-mask": ("EuroBertForMaskedLM",),
    "text-classification": ("EuroBertForSequenceClassification",),
    "token-classification": ("EuroBertForTokenClassification",),
}

NAMING = llama.NAMING
PUBLISHED_WITH_CODE = True
PICKS = {"bos": Pick.FIRST, "mean": Pick.MEAN, "late": Pick.MEAN_AFTER_DENSE}


def spec(config: Config, task: str, names: TensorNames) -> EncoderSpec:
    """The architecture that config.json describes."""
    config = config.with_defaults(rms_norm_eps=1e-5, max_position_embeddings=8192)
    base = llama.spec(config, "feature-extraction", names)
    stack = base.stack
    assert isinstance(stack, TextStackSpec)
    block = replace(stack.blocks[0], attention=replace(stack.blocks[0].dense, causal=False))
    return EncoderSpec(encoder=replace(stack, blocks=(block,)), head=_head(config, task))


def _head(config: Config, task: str) -> HeadSpec:
    kind = tasks.TASKS[task].head
    if kind == HeadKind.NONE:
        return HeadSpec()
    if kind == HeadKind.MASKED_LM:
        tied = config.flag("tie_word_embeddings", False)
        return HeadSpec(kind, tied=tied, bias=config.flag("mlp_bias", False))
    head = bert.label_head(config, task, Activation.GELU)
    if kind != HeadKind.SEQUENCE:
        return head
    config.expect(clf_pooling="late")  # the key of its release, which the library no longer reads
    pooling = config.text("classifier_pooling", "late")
    if pooling not in PICKS:
        config.expect(classifier_pooling="late")
    return replace(head, pick=PICKS[pooling])


def table(spec: EncoderSpec) -> Table:
    """Map parameters to the tensor names of transformers."""
    base = llama.table(spec)
    projection = "lm_head" if spec.head.kind == HeadKind.MASKED_LM else "classifier"
    rules: Rules = base.rules | {"head.dense.*": "dense.*", "head.*": f"{projection}.*"}
    return replace(base, rules=rules, drop=(*base.drop, "lm_head.*", "classifier.*", "dense.*"))
