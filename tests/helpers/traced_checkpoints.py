"""Tiny checkpoints of classes without a family, saved by transformers, and copies of their bundles."""

from pathlib import Path

import tiny_tokenizers
import torch
import transformers
from tiny_configs import tiny_config

import txexport
from txexport import bundle
from txexport.verification.checks import COPIED_FILES


def save(model: torch.nn.Module, folder: Path) -> Path:
    """Save a model with every parameter moved off the ones and zeros that it starts with."""
    with torch.no_grad():
        for one in model.parameters():
            one.add_(torch.randn_like(one) * 0.05)
    model.eval().save_pretrained(folder)
    return folder


def copy_of(bundle_folder: Path, folder: Path) -> Path:
    """A bundle's copy, which may be damaged."""
    for name in bundle.listed_files(bundle_folder):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes((bundle_folder / name).read_bytes())
    return folder


def contradiction(folder: Path, source: Path) -> str:
    """The only failure of verify's comparison of a bundle's files and manifest with its checkpoint."""
    report = txexport.verify(folder, source=source, cases=[COPIED_FILES])
    [case] = report.failed
    return str(case.exception)


def tiny(kind: str, architecture: str) -> torch.nn.Module:
    """A model of a type with small numbers and seeded weights."""
    torch.manual_seed(0)
    return getattr(transformers, architecture)(tiny_config(kind)).eval()


def layoutlm(folder: Path) -> Path:
    """Words with boxes, to a label each."""
    torch.manual_seed(0)
    config = transformers.LayoutLMConfig(
        vocab_size=99,
        hidden_size=32,
        num_hidden_layers=1,
        num_attention_heads=4,
        intermediate_size=48,
        max_position_embeddings=64,
        num_labels=5,
    )
    return save(transformers.LayoutLMForTokenClassification(config), folder)


def mobilenet(folder: Path) -> Path:
    """Convolutions whose padding depends on the image's size."""
    torch.manual_seed(0)
    config = transformers.MobileNetV2Config(image_size=32, depth_multiplier=0.25, num_labels=4)
    return save(transformers.MobileNetV2ForImageClassification(config), folder)


def masked_autoencoder(folder: Path) -> Path:
    """A model that drops patches by chance."""
    torch.manual_seed(0)
    config = transformers.ViTMAEConfig(
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=48,
        image_size=32,
        patch_size=8,
        decoder_hidden_size=32,
        decoder_num_hidden_layers=1,
        decoder_num_attention_heads=4,
        decoder_intermediate_size=48,
    )
    return save(transformers.ViTMAEModel(config), folder)


def persimmon(folder: Path) -> Path:
    """A decoder with rotary positions over a part of each head."""
    torch.manual_seed(0)
    tokenizer = tiny_tokenizers.byte_level()
    config = transformers.PersimmonConfig(
        vocab_size=len(tokenizer),
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=48,
        max_position_embeddings=64,
        bos_token_id=0,
        eos_token_id=2,
        pad_token_id=1,
    )
    save(transformers.PersimmonForCausalLM(config), folder)
    tokenizer.save_pretrained(folder)
    return folder
