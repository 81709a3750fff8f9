"""DPR (Karpukhin et al. 2020): BERT; the vector of CLS represents a question or a passage."""

from dataclasses import replace

from txexport.checkpoints.weight_map import Naming, Rules, Table
from txexport.families import bert
from txexport.families._config import Config, TensorNames
from txexport.spec import EncoderSpec, VectorSpec

TASKS = {"feature-extraction": ("DPRQuestionEncoder", "DPRContextEncoder")}
ORIGINALS = TASKS["feature-extraction"]

NAMING = Naming("question_encoder.", bert.NAMING.rename, others=("ctx_encoder.",))


def spec(config: Config, task: str, names: TensorNames) -> EncoderSpec:
    """The architecture that config.json describes."""
    size = config.integer("projection_dim", 0)
    vector = VectorSpec(size=size or None, bias=size > 0)
    return replace(bert.spec(config, task, names), pooler=False, vector=vector)


def table(spec: EncoderSpec) -> Table:
    """Map parameters to the tensor names of transformers."""
    rules: Rules = {ours: f"bert_model.{source}" for ours, source in bert.stack_rules().items()}
    rules |= {"vector.project.*": "encode_proj.*"}
    return Table(rules, NAMING, drop=("bert_model.embeddings.position_ids", "bert_model.pooler.*"))
