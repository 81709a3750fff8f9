"""DeiT (Touvron et al. 2021): ViT with a distillation token."""

from dataclasses import replace

from txexport.checkpoints.weight_map import Naming, Rules, Table, Take
from txexport.families import vit
from txexport.families._config import Config, TensorNames
from txexport.spec import EncoderSpec

TASKS = {
    "image-feature-extraction": ("DeiTModel",),
    "image-classification": ("DeiTForImageClassification", "DeiTForImageClassificationWithTeacher"),
}

NAMING = Naming("deit.")


def spec(config: Config, task: str, names: TensorNames) -> EncoderSpec:
    """The architecture that config.json describes; the checkpoint shows whether the head is distilled."""
    base = vit.image_spec(config, task, names, tokens=2)
    taught = task == "image-classification" and "distillation_classifier.weight" in names
    return replace(base, distilled=taught)


def table(spec: EncoderSpec) -> Table:
    """Map parameters to the tensor names of transformers."""
    rules: Rules = vit.stack_rules() | {
        "encoder.embedding.tokens.1.weight": Take("embeddings.distillation_token", leading_axis=True),
        "head.*": "cls_classifier.*" if spec.distilled else "classifier.*",
        "distilled.*": "distillation_classifier.*",
    }
    drop = ("embeddings.mask_token", "pooler.*", "*classifier.*", "decoder.*")
    return Table(rules, NAMING, drop)
