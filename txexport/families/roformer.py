"""RoFormer (Su et al. 2021): BERT with interleaved RoPE instead of position embeddings."""

from dataclasses import replace

import numpy as np

from txexport.checkpoints.weight_map import Naming, Rules, Table
from txexport.errors import UnsupportedError
from txexport.families import _sinusoid, bert
from txexport.families._config import Config, TensorNames
from txexport.families._rope import plain_frequencies
from txexport.spec import EncoderSpec, PositionKind, PositionSpec, RotarySpec, TextStackSpec

TASKS = {
    "feature-extraction": ("RoFormerModel",),
    "fill-mask": ("RoFormerForMaskedLM",),
    "text-classification": ("RoFormerForSequenceClassification",),
    "token-classification": ("RoFormerForTokenClassification",),
    "question-answering": ("RoFormerForQuestionAnswering",),
}

NAMING = Naming("roformer.", bert.NAMING.rename)
BASE = 10_000.0  # fixed in the original, not in config.json
SINUSOIDS = "encoder.embed_positions.weight"


def spec(config: Config, task: str, names: TensorNames) -> EncoderSpec:
    """The architecture that config.json describes; no projection where embedding_size equals hidden_size."""
    config.expect(rotary_value=False)
    width, longest = config.integer("hidden_size"), config.integer("max_position_embeddings", 1536)
    size, activation = config.integer("embedding_size", width), config.activation("hidden_act", "gelu")
    base = bert.encoder_spec(
        config,
        task,
        names,
        PositionSpec(PositionKind.NONE, longest),
        activation,
        factored_size=None if size == width else size,
        sequence=activation,
    )
    stack = base.encoder
    assert isinstance(stack, TextStackSpec)
    block = stack.blocks[0]
    head_dim = block.dense.head_dim
    _check_sinusoids(config, names, (longest, head_dim))
    rotary = RotarySpec(plain_frequencies(BASE, head_dim), interleaved=True)
    block = replace(block, attention=replace(block.dense, rotary=rotary))
    return replace(base, encoder=replace(stack, blocks=(block,)), pooler=False)


def _check_sinusoids(config: Config, names: TensorNames, shape: tuple[int, int]) -> None:
    """Raise UnsupportedError where the checkpoint stores other than the sinusoids of RoPE."""
    if SINUSOIDS in names:
        config.positions(0)
        stored, computed = names.read(SINUSOIDS), _sinusoid.halves(shape)
        if stored.shape != computed.shape or not np.allclose(stored, computed, rtol=0, atol=1e-4):
            raise UnsupportedError(
                f"{config.path.parent}: tensor '{SINUSOIDS}' has no sinusoids, so there is no RoPE; "
                "expected those of the paper"
            )


def table(spec: EncoderSpec) -> Table:
    """Map parameters to the tensor names of transformers."""
    transform, word_embedding = "cls.predictions.transform", "embeddings.word_embeddings.weight"
    masked_lm: Rules = {"head.dense.*": f"{transform}.dense.*", "head.norm.*": f"{transform}.LayerNorm.*"}
    masked_lm |= bert.masked_lm_rules(spec, word_embedding, "cls.predictions.decoder", "cls.predictions.bias")
    rules = bert.stack_rules() | {"encoder.embedding.project.*": "embeddings_project.*"}
    rules |= bert.head_rules(
        spec,
        sequence={"head.dense.*": "classifier.dense.*", "head.*": "classifier.out_proj.*"},
        masked_lm=masked_lm,
    )
    drop = (SINUSOIDS, "pooler.*", "cls.*", "classifier.*", "qa_outputs.*", "sequence_summary.*")
    return Table(rules, NAMING, drop)
