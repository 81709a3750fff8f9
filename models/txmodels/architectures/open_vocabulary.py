"""Objects in images that texts describe (Minderer et al. 2022, 3.1)."""

from collections.abc import Collection

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from txexport.contracts import names
from txexport.parts import check_outputs
from txexport.spec import Cache, OpenVocabularySpec, Pick
from txmodels.architectures.dual_encoder import unit
from txmodels.encoder_stack import Encoder, SignalEncoder
from txmodels.heads.pick import pick
from txmodels.linear import Linear
from txmodels.norm import Norm

LEAST = 1e-6  # added to the length that a vector is divided by


class DescribedObjects(nn.Module):
    """A vector and a box for each patch of an image (Minderer et al. 2022, 3.1)."""

    def __init__(self, spec: OpenVocabularySpec):
        super().__init__()
        width = spec.vision.hidden_size
        self.spec, self.norm = spec, Norm(spec.norm)
        self.box = nn.ModuleList([Linear(width, width), Linear(width, width), Linear(width, 4)])
        self.register_buffer("box_logits", torch.tensor(spec.box_logits()), persistent=False)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """x (B,S,W), the class token first -> image_embeds (B,R,C,W), pred_boxes (B,R * C,4)."""
        assert isinstance(self.box_logits, Tensor)
        patches = self.norm(x[:, 1:] * x[:, :1])  # (B, R * C, W)
        box = patches
        for number, layer in enumerate(self.box):
            box = layer(F.gelu(box) if number else box)
        pred_boxes = torch.sigmoid(box + self.box_logits.to(box))
        return patches.unflatten(1, self.spec.grid), pred_boxes


class Descriptions(nn.Module):
    """The score of each text for each patch of an image (Minderer et al. 2022, 3.1)."""

    def __init__(self, spec: OpenVocabularySpec):
        super().__init__()
        width = spec.vision.hidden_size
        self.project, self.shift, self.scale = Linear(width, spec.size), Linear(width, 1), Linear(width, 1)

    def forward(self, text_embeds: Tensor, image_embeds: Tensor) -> Tensor:
        """text_embeds (T,D) or (B,T,D), image_embeds (B,R,C,W) -> logits (B,R * C,T)."""
        patches = image_embeds.flatten(1, 2)  # (B, R * C, W)
        vectors, texts = near_unit(self.project(patches)), near_unit(text_embeds)
        cosines = vectors @ texts.mT  # (B, R * C, T)
        logits: Tensor = (cosines + self.shift(patches)) * (F.elu(self.scale(patches)) + 1)
        return logits


def near_unit(x: Tensor) -> Tensor:
    """x (...,D) divided by a little more than its length."""
    return x / (torch.sqrt((x * x).sum(dim=-1, keepdim=True)) + LEAST)


class OpenVocabularyModel(nn.Module):
    """A text encoder, an image encoder, and the comparison of texts with patches."""

    def __init__(self, spec: OpenVocabularySpec, cache: Cache, outputs: Collection[str] = ()):
        super().__init__()
        check_outputs(spec, outputs)
        self.spec, self.outputs = spec, frozenset(outputs)
        self.text, self.vision = Encoder(spec.text), SignalEncoder(spec.vision)
        self.text_projection = Linear(spec.text.hidden_size, spec.size, bias=False)
        self.objects, self.descriptions = DescribedObjects(spec), Descriptions(spec)

    def texts(self, input_ids: Tensor, attention_mask: Tensor) -> dict[str, Tensor]:
        """Both (T,S) -> text_embeds (T,D)."""
        x = self.text(input_ids, attention_mask)  # (T, S, W)
        picked = pick(Pick.ARGMAX_ID, None, x, input_ids, attention_mask)
        return {names.TEXT_EMBEDS: unit(self.text_projection(picked))}

    def images(self, pixel_values: Tensor) -> dict[str, Tensor]:
        """pixel_values (B,channels,height,width) -> image_embeds (B,R,C,W), pred_boxes (B,R * C,4)."""
        x, _ = self.vision(pixel_values)
        image_embeds, pred_boxes = self.objects(x)
        return {names.IMAGE_EMBEDS: image_embeds, names.PRED_BOXES: pred_boxes}

    def scores(self, text_embeds: Tensor, image_embeds: Tensor) -> dict[str, Tensor]:
        """text_embeds (T,D), image_embeds (B,R,C,W) -> logits (B,R * C,T)."""
        return {names.LOGITS: self.descriptions(text_embeds, image_embeds)}

    def described(self, input_ids: Tensor, attention_mask: Tensor, pixel_values: Tensor) -> dict[str, Tensor]:
        """The outputs for T texts, of which each image has T / B."""
        texts, images = self.texts(input_ids, attention_mask), self.images(pixel_values)
        grouped = texts[names.TEXT_EMBEDS].unflatten(0, (pixel_values.shape[0], -1))  # (B, T / B, D)
        return {**self.scores(grouped, images[names.IMAGE_EMBEDS]), **images, names.TEXT_EMBEDS: grouped}
