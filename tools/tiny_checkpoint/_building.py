"""Builds the tiny models with random weights, and writes their checkpoints."""

import json
from pathlib import Path

import torch
import transformers
from safetensors.torch import load_file, save_file
from tokenizers import ByteLevelBPETokenizer

from tiny_checkpoint._families import FAMILIES
from tiny_checkpoint._vocabulary import CORPUS, SPECIAL, VOCAB

# The attention of T5 and Gemma 4 does not scale its scores, and Gemma multiplies by 1 + weight in its norms:
# wide weights would amplify float32's rounding errors in all three.
# Batch norms keep the small numbers of narrow convolutions small: with weights as others have, what the maps
# of RT-DETR tell one another, and queries of Conditional DETR, would be lost in rounding.
# Layer norms of ConvNeXt divide by what a depthwise convolution leaves of few places.
WIDE = (
    "rt_detr",
    "rt_detr_v2",
    "d_fine",
    "dab-detr",
    "lw_detr",
    "convnext",
    "convnextv2",
    "conditional_detr",
)
# Models whose other parts the library cannot build without timm, and the text model within.
WITHIN = {"gemma3n": "gemma3n_text", "llama4": "llama4_text"}
# How the names of the text model begin, alone and within, and a tensor of an encoder beside it.
INNER_NAMES = {
    "gemma3n": ("model.", "model.language_model.", "model.vision_tower.weight"),
    "llama4": ("", "language_model.", "vision_model.weight"),
}
OF_DIVIDED = "modality_router.weight"  # its input is divided by its width
# One-dimensional tensors that multiply.
SCALES = ("weight", "layer_scalar", "router.scale", "per_expert_scale", "correct_output_scale")
SCALES += (
    "gamma_1",
    "gamma_2",
    "gate",
    "gate_attn",
    "gate_ffn",
    "lab.scale",
    "reg_scale",
    "num_points_scale",
    "decoder.up",
)
NARROW = (
    "t5",
    "mt5",
    "umt5",
    "switch_transformers",
    "t5gemma",
    "gemma",
    "gemma2",
    "gemma3_text",
    "gemma3",
    "gemma3n",
    "gemma3n_text",
    "gemma4",
    "gemma4_text",
    "paligemma",
    "colpali",
    "nemotron",
)


def build(model_type: str, architecture: str | None = None, seed: int = 0, **config):
    """A random transformers model of `architecture`, with its family's sizes changed by `config`."""
    default, sizes = FAMILIES[model_type]
    if model_type in WITHIN:
        model_type, text = WITHIN[model_type], config.pop("text_config", {})
        return build(model_type, seed=seed, **config | text)
    parts = {key: sizes[key] | value for key, value in config.items() if isinstance(sizes.get(key), dict)}
    settings = transformers.AutoConfig.for_model(model_type, **sizes | config | parts)
    torch.manual_seed(seed)
    model = getattr(transformers, architecture or default)(settings).eval()
    spread = 0.06 if model_type in NARROW else 0.3 if model_type in WIDE else 0.12
    tensors = [*model.named_parameters(), *model.named_buffers()]
    with torch.no_grad():
        for name, tensor in tensors:
            if not tensor.is_floating_point() or (model_type == "roformer" and "embed_positions" in name):
                continue  # the latter are sinusoids, which are not trained
            if name.endswith(("n_points_scale", "act_fn.beta", "act_fn.eps")):
                continue  # the reciprocal of a count, and numbers that nothing learns
            if name.endswith(("recurrent_param", "time_decay")) or ".time_mix_" in name:
                continue  # drawn so that states last for some tokens, and shares of 0 to 1
            noise = torch.randn_like(tensor)
            is_scale = tensor.ndim == 1 and name.endswith(SCALES)
            wider = tensor.shape[-1] if name.endswith(OF_DIVIDED) else 1
            tensor.copy_(1 + 0.3 * noise if is_scale else wider * spread * noise)
            if name.endswith("running_var"):
                tensor.copy_(1 + noise**2)
        if model_type == "d_fine":
            model.model.decoder.query_pos_head.layers[1].weight.mul_(32)  # so that some numbers are clipped
        if model_type == "chinese_clip":  # transformers zeroes it whenever it loads one
            table = model.text_model.embeddings.word_embeddings
            table.weight[table.padding_idx] = 0
        if model_type in ("sam2", "sam2_video"):  # one tensor under two names in published files
            points = model.prompt_encoder.shared_embedding.positional_embedding
            points.copy_(model.shared_image_embedding.positional_embedding)
    return model


def save(folder: Path, model_type: str, architecture: str | None = None, seed: int = 0, **config) -> None:
    """Write a checkpoint of `build` and its tokenizer to `folder`."""
    transformers.utils.logging.disable_progress_bar()
    build(model_type, architecture, seed, **config).save_pretrained(folder)
    if model_type in WITHIN:
        _wrap(folder, model_type)
    tokenizer = ByteLevelBPETokenizer()
    tokenizer.train_from_iterator(CORPUS, vocab_size=VOCAB, special_tokens=SPECIAL, show_progress=False)
    tokenizer.save(str(Path(folder) / "tokenizer.json"))


def _wrap(folder: Path, model_type: str) -> None:
    """Rewrite a text model as that within a published checkpoint, beside a tensor of an encoder."""
    file, config = folder / "model.safetensors", folder / "config.json"
    prefix, within, other = INNER_NAMES[model_type]
    tensors = {name.replace(prefix, within, 1): one for name, one in load_file(file).items()}
    save_file(tensors | {other: torch.ones(3)}, file, {"format": "pt"})
    named = {"model_type": model_type, "architectures": [FAMILIES[model_type][0]]}
    text = {key: value for key, value in json.loads(config.read_text()).items() if key != "architectures"}
    config.write_text(json.dumps(named | {"text_config": text}))
