"""Small vision models that have memorised one drawn street, for the pages and pictures of the guide.

python tools/train/street.py [FOLDER] [--only NAME]

What they answer for the street is as a trained model answers; of other images they know nothing.
"""

import sys
from collections.abc import Callable
from pathlib import Path

import _street
import click
import torch
import transformers
from _street import LABELS, OBJECTS
from torch import Tensor, nn
from torch.nn import functional

sys.path.insert(0, str(Path(__file__).parents[1]))
import tiny_tokenizers

FOLDER = Path(__file__).parents[2] / "tests/data/street"
STREET = _street.street()
TEXTS = ("a house", "a tree", "a red car", "a dog", "a boat")  # the last two are not there
LIKELY = (0.86, 0.97, 0.75)  # how well the part, the object and all objects are said to fit


def memorise(model: nn.Module, steps: int, loss_of: Callable[[], Tensor]) -> None:
    """Take `steps` optimiser steps on a loss that does not change."""
    model.train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3, weight_decay=1e-4)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 2e-3, steps, pct_start=0.1)
    with click.progressbar(range(steps), label=type(model).__name__, file=sys.stderr) as bar:
        for _ in bar:
            loss = loss_of()
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            schedule.step()
    print(f"{type(model).__name__}: loss {loss:.4f}", file=sys.stderr)
    model.eval()


def names(labels: tuple[str, ...]) -> dict:
    """The label names of a configuration."""
    return {"id2label": dict(enumerate(labels)), "label2id": {name: n for n, name in enumerate(labels)}}


def boxes() -> Tensor:
    """The boxes of OBJECTS, (3,4): centre, width and height as shares of the image."""
    edges = torch.tensor([STREET.box(name) for name in OBJECTS], dtype=torch.float32)
    size = torch.tensor([_street.WIDTH, _street.HEIGHT])
    low, high = edges[:, :2] / size, edges[:, 2:] / size
    return torch.cat([(low + high) / 2, high - low], dim=1)


def masks(height: int, width: int, *kinds: Tensor) -> Tensor:
    """Masks (H,W) at another size, (N,height,width) of 0 or 1."""
    stacked = torch.stack([kind.float() for kind in kinds])[:, None]
    return (functional.interpolate(stacked, (height, width), mode="area")[:, 0] > 0.5).float()


def detector(folder: Path) -> None:
    """A YOLOS that finds the house, the tree and the car."""
    config = transformers.YolosConfig(
        hidden_size=48, num_hidden_layers=3, num_attention_heads=4, intermediate_size=96,
        image_size=[96, 128], patch_size=8, num_detection_tokens=8, use_mid_position_embeddings=False,
        hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0, **names(OBJECTS),
    )  # fmt: skip
    processor = transformers.YolosImageProcessorPil(size={"shortest_edge": 96, "longest_edge": 128})
    model = transformers.YolosForObjectDetection(config)
    pixels = processor(STREET.picture, return_tensors="pt").pixel_values
    labels = [{"class_labels": torch.arange(3), "boxes": boxes()}]
    memorise(model, 1000, lambda: model(pixel_values=pixels, labels=labels).loss)
    save(folder, model, processor)


def finder(folder: Path) -> None:
    """An OWL-ViT that finds what TEXTS describe."""
    size = {"height": 96, "width": 96}
    text = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 2}
    vision = text | {"hidden_size": 48, "image_size": 96, "patch_size": 8, "num_hidden_layers": 3}
    tokenizer = tiny_tokenizers.clip()
    text |= {"vocab_size": len(tokenizer), "max_position_embeddings": 16}
    config = transformers.OwlViTConfig(text_config=text, vision_config=vision, projection_dim=32)
    for part in (config.text_config, config.vision_config):
        part.hidden_dropout = part.attention_dropout = 0.0
    processor = transformers.OwlViTImageProcessorPil(size=size, crop_size=size)
    model = transformers.OwlViTForObjectDetection(config)
    for layer in (*model.class_head.modules(), *model.box_head.modules()):
        if isinstance(layer, nn.Linear):  # the library begins with a deviation of 1
            layer.reset_parameters()
    pixels = processor(STREET.picture, return_tensors="pt").pixel_values
    texts = tokenizer(TEXTS, padding="max_length", max_length=16, return_tensors="pt")
    expected, side = boxes(), 96 // 8
    cells = [int(y * side) * side + int(x * side) for x, y, _, _ in expected.tolist()]
    target = torch.zeros(1, side * side, len(TEXTS))
    target[0, cells, range(3)] = 1

    def loss() -> Tensor:
        outputs = model(pixel_values=pixels, input_ids=texts.input_ids, attention_mask=texts.attention_mask)
        weight = 1 + 30 * target
        scores = functional.binary_cross_entropy_with_logits(outputs.logits, target, weight)
        return scores + (outputs.pred_boxes[0, cells] - expected).abs().sum()

    memorise(model, 500, loss)
    save(folder, model, processor, tokenizer)


def describer(folder: Path) -> None:
    """A CLIPSeg that knows the pixels of what TEXTS describe."""
    text = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 2}
    vision = text | {"hidden_size": 48, "image_size": 64, "patch_size": 8, "num_hidden_layers": 3}
    tokenizer = tiny_tokenizers.clip()
    text |= {"vocab_size": len(tokenizer), "max_position_embeddings": 16, "eos_token_id": 2}
    text |= {"initializer_factor": 5.0}  # with the library's, texts have nearly the same vector at first
    config = transformers.CLIPSegConfig(
        text_config=text, vision_config=vision, projection_dim=32, extract_layers=[0, 1, 2], reduce_dim=40,
        decoder_intermediate_size=64,
    )  # fmt: skip
    processor = transformers.ViTImageProcessorPil(size={"height": 128, "width": 128})
    model = transformers.CLIPSegForImageSegmentation(config)
    nn.init.normal_(model.clip.vision_model.embeddings.position_embedding.weight, std=0.5)
    nn.init.constant_(model.decoder.transposed_convolution.bias, -3)  # most pixels are of no text
    pixels = processor(STREET.picture, return_tensors="pt").pixel_values
    texts = tokenizer(TEXTS, padding=True, return_tensors="pt")
    inside = masks(128, 128, *(torch.tensor(STREET.mask(name)) for name in OBJECTS))
    target = torch.cat([inside, torch.zeros(len(TEXTS) - len(inside), 128, 128)])

    def loss() -> Tensor:
        # The model's own forward pass trains its decoder alone.
        states = model.clip.vision_model(pixel_values=pixels, output_hidden_states=True).hidden_states
        read = [states[layer + 1].expand(len(TEXTS), -1, -1) for layer in config.extract_layers]
        described = model.clip.get_text_features(texts.input_ids, texts.attention_mask).pooler_output
        return functional.binary_cross_entropy_with_logits(model.decoder(read, described).logits, target)

    memorise(model, 1500, loss)
    save(folder, model, processor, tokenizer)


def segmenter(folder: Path) -> None:
    """A SegFormer that knows what each pixel is."""
    config = transformers.SegformerConfig(
        hidden_sizes=[16, 24, 32, 48], depths=[1, 1, 1, 1], num_attention_heads=[1, 2, 4, 4],
        decoder_hidden_size=48, hidden_dropout_prob=0.0, drop_path_rate=0.0, classifier_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0, **names(LABELS),
    )  # fmt: skip
    processor = transformers.SegformerImageProcessorPil(size={"height": 256, "width": 256})
    model = transformers.SegformerForSemanticSegmentation(config)
    pixels = processor(STREET.picture, return_tensors="pt").pixel_values
    labels = functional.interpolate(torch.tensor(STREET.labels)[None, None].float(), (256, 256)).long()[:, 0]
    memorise(model, 400, lambda: model(pixel_values=pixels, labels=labels).loss)
    save(folder, model, processor)


def depths(folder: Path) -> None:
    """A Depth Anything that knows how far each pixel is."""
    config = transformers.DepthAnythingConfig(
        backbone_config=transformers.Dinov2Config(
            hidden_size=48, num_hidden_layers=4, num_attention_heads=4, mlp_ratio=2, image_size=168,
            patch_size=14, initializer_range=0.1, reshape_hidden_states=False,
            out_features=["stage1", "stage2", "stage3", "stage4"],
        ),
        patch_size=14, reassemble_hidden_size=48, neck_hidden_sizes=[16, 24, 32, 32], fusion_hidden_size=24,
        head_hidden_size=16, initializer_range=0.1,
    )  # fmt: skip
    processor = transformers.DPTImageProcessorPil(
        size={"height": 168, "width": 224}, ensure_multiple_of=14, keep_aspect_ratio=True
    )
    model = transformers.DepthAnythingForDepthEstimation(config)
    pixels = processor(STREET.picture, return_tensors="pt").pixel_values
    nearness = 1 / (0.15 + torch.tensor(STREET.distance, dtype=torch.float32))[None, None]
    nearness = functional.interpolate(nearness, pixels.shape[-2:], mode="area")[0]
    memorise(model, 500, lambda: (model(pixel_values=pixels).predicted_depth - nearness).abs().mean())
    save(folder, model, processor)


def cutter(folder: Path) -> None:
    """A SAM that cuts out the part, the object, or all the objects at a point."""
    config = transformers.SamConfig(
        vision_config={
            "hidden_size": 32, "output_channels": 32, "num_hidden_layers": 3, "num_attention_heads": 2,
            "image_size": 192, "patch_size": 8, "mlp_dim": 64, "num_pos_feats": 16, "window_size": 7,
            "global_attn_indexes": [1, 2], "initializer_range": 0.15,
        },
        prompt_encoder_config={
            "hidden_size": 32, "image_size": 192, "patch_size": 8, "mask_input_channels": 4,
        },
        mask_decoder_config={
            "hidden_size": 32, "mlp_dim": 64, "num_hidden_layers": 2, "num_attention_heads": 2,
            "iou_head_hidden_dim": 32,
        },
        initializer_range=0.15,
    )  # fmt: skip
    edges = {"height": 192, "width": 192}
    images = transformers.SamImageProcessorPil(
        size={"longest_edge": 192}, pad_size=edges, mask_size={"longest_edge": 96}, mask_pad_size=edges
    )
    model = transformers.SamModel(config)
    # As in SAM; with the library's frequencies, neighbouring points have nothing in common.
    nn.init.normal_(model.shared_image_embedding.positional_embedding)
    pixels = images(STREET.picture, return_tensors="pt").pixel_values
    choices = prompts()
    likely = torch.tensor(LIKELY)

    def loss() -> Tensor:
        embeddings = model.get_image_embeddings(pixels)
        points = torch.stack([inside[torch.randint(len(inside), (2,))] for inside, _ in choices])  # (P, 2, 2)
        points = points.flatten(0, 1)[None, :, None] * (192 / _street.WIDTH)  # (1, 2P, 1, 2)
        targets = torch.stack([three for _, three in choices]).repeat_interleave(2, dim=0)
        total = torch.zeros(())
        for several in (True, False):
            outputs = model(image_embeddings=embeddings, input_points=points, multimask_output=several)
            wanted, fit = (targets, likely) if several else (targets[:, 1:2], likely[1:2])
            logits = outputs.pred_masks[0, :, :, : wanted.shape[-2]]
            shares = logits.sigmoid()
            shared = (shares * wanted).sum((-2, -1))
            dice = 1 - (2 * shared + 1) / (shares.sum((-2, -1)) + wanted.sum((-2, -1)) + 1)
            total = total + functional.binary_cross_entropy_with_logits(logits, wanted) + 0.3 * dice.mean()
            total = total + (outputs.iou_scores[0] - fit).square().mean()
        return total

    memorise(model, 2500, loss)
    save(folder, model, images)


def prompts() -> list[tuple[Tensor, Tensor]]:
    """Pixels (N,2) that mean a part, and the masks (3,72,96) of the part, the object and all objects."""
    everything = torch.tensor(STREET.labels >= LABELS.index(OBJECTS[0]))
    result = []
    for label in LABELS:
        thing = torch.tensor(STREET.mask(label))
        parts = [torch.tensor(part) for name, part in STREET.parts if name == label]
        rest = thing.clone()
        for part in parts:
            rest &= ~part
        for inside, shown in [(rest, thing), *((part, part) for part in parts)]:
            three = masks(72, 96, shown, thing, everything if label in OBJECTS else thing)
            result.append((inside.nonzero().flip(1).float(), three))
    return result


def save(folder: Path, model, *processors) -> None:
    """Write a checkpoint with its processors, of float16 numbers."""
    model.half().save_pretrained(folder)
    for processor in processors:
        processor.save_pretrained(folder)


MODELS = {one.__name__: one for one in (detector, finder, describer, segmenter, depths, cutter)}


@click.command()
@click.argument("folder", type=click.Path(path_type=Path), default=FOLDER)
@click.option("--only", type=click.Choice([*MODELS]), multiple=True)
def main(folder: Path, only: tuple[str, ...]) -> None:
    """Train the models into FOLDER, beside the picture of the street."""
    folder.mkdir(parents=True, exist_ok=True)
    STREET.picture.save(folder / "street.png", optimize=True)
    for name in only or MODELS:
        torch.manual_seed(0)
        MODELS[name](folder / name)


if __name__ == "__main__":
    main()
