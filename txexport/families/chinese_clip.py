"""Chinese CLIP (Yang et al. 2022): BERT as the text encoder, CLIP's image encoder."""

from dataclasses import replace

from txexport.checkpoints.weight_map import Naming, Rules, Table
from txexport.families import bert, clip
from txexport.families._config import Config, TensorNames
from txexport.spec import DualEncoderSpec, Pick, PositionKind, PositionSpec, TextStackSpec

TASKS = {"zero-shot-image-classification": ("ChineseCLIPModel",)}

NAMING = Naming()


def spec(config: Config, task: str, names: TensorNames) -> DualEncoderSpec:
    """The architecture that config.json describes; every token is of token type 0."""
    text, vision = (clip.tower(config, name) for name in ("text_config", "vision_config"))
    position = PositionSpec(PositionKind.LEARNED, text.integer("max_position_embeddings"))
    activation = text.activation("hidden_act", "gelu")
    stack = bert.encoder_spec(text, "feature-extraction", names, position, activation).encoder
    assert isinstance(stack, TextStackSpec)
    embedding = stack.embedding
    embedding = replace(embedding, type_vocab_size=0, task_type_vocab_size=embedding.type_vocab_size)
    return DualEncoderSpec(
        text=replace(stack, embedding=embedding),
        vision=clip.vision_stack(vision),
        size=config.integer("projection_dim", 512),
        pick=Pick.FIRST,
    )


def table(spec: DualEncoderSpec) -> Table:
    """Map parameters to the tensor names of transformers."""
    rules: Rules = {
        ours.replace("encoder.", "text.", 1): f"text_model.{source}"
        for ours, source in bert.stack_rules().items()
    }
    rules |= clip.vision_rules("vision", "vision_model.") | clip.joint_rules()
    rules |= {"text.embedding.task.*": "text_model.embeddings.token_type_embeddings.*"}
    return Table(rules, NAMING, drop=("*_model.embeddings.position_ids", "text_model.pooler.*"))
