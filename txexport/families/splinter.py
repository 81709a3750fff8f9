"""Splinter (Ram et al. 2021): BERT with question-aware span selection (QASS)."""

from dataclasses import replace

from txexport.checkpoints.weight_map import Naming, Rules, Table
from txexport.families import bert
from txexport.families._config import Config, TensorNames
from txexport.spec import (
    Activation,
    EncoderSpec,
    HeadKind,
    HeadSpec,
    NormSpec,
    Pick,
    PositionKind,
    PositionSpec,
)

TASKS = {
    "feature-extraction": ("SplinterModel",),
    "question-answering": ("SplinterForQuestionAnswering",),
}
REFUSED = {
    "SplinterForPreTraining": "it answers every [QUESTION] of a text; expected SplinterForQuestionAnswering, "
    "which answers the first"
}
NAMING = Naming("splinter.", {".gamma": ".weight", ".beta": ".bias"})
EPS = 1e-5  # of the head, fixed in the original


def spec(config: Config, task: str, names: TensorNames) -> EncoderSpec:
    """The architecture that config.json describes. The original's encoder has no pooler."""
    position = PositionSpec(PositionKind.LEARNED, config.integer("max_position_embeddings", 512))
    activation = config.activation("hidden_act", "gelu")
    base = bert.encoder_spec(config, "feature-extraction", names, position, activation)
    head = HeadSpec()
    if task == "question-answering":
        head = HeadSpec(
            HeadKind.SPANS,
            tied=False,
            activation=Activation.GELU,
            norm=NormSpec(base.encoder.hidden_size, EPS),
            labels=2,
            pick=Pick.FIRST_EOS,
            eos_token_id=config.integer("question_token_id", 104),
        )
    return replace(base, head=head, pooler=False)


def table(spec: EncoderSpec) -> Table:
    """Map parameters to the tensor names of transformers."""
    rules: Rules = {}
    if spec.head.kind == HeadKind.SPANS:
        for end in ("start", "end"):
            for ours, theirs in (("question", f"query_{end}"), ("each", end)):
                transform = f"splinter_qass.{theirs}_transform"
                rules[f"head.{ours}.{end}.dense.*"] = f"{transform}.dense.*"
                rules[f"head.{ours}.{end}.norm.*"] = f"{transform}.LayerNorm.*"
            rules[f"head.question.{end}.project.weight"] = f"splinter_qass.{end}_classifier.weight"
    drop = ("embeddings.position_ids", "pooler.*", "splinter_qass.*")
    return Table(bert.stack_rules() | rules, NAMING, drop)
