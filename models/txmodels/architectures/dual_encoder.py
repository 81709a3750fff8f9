"""Dual encoders: vectors of texts and images are compared."""

from collections.abc import Collection

import torch
from torch import Tensor, nn

from txexport.contracts import names
from txexport.parts import check_outputs
from txexport.spec import Cache, DualEncoderSpec, Pick
from txmodels.architectures._model import layers_of
from txmodels.attention_pool import AttentionPool
from txmodels.encoder_stack import Encoder, SignalEncoder
from txmodels.heads.pick import pick
from txmodels.linear import Linear


def unit(x: Tensor) -> Tensor:
    """x (B,W) -> L2-normalised vectors (B,W)."""
    y = x / torch.sqrt((x * x).sum(dim=1, keepdim=True))
    return y


class Similarity(nn.Module):
    """The similarity of texts and images (Radford et al. 2021, 2.3; with a bias, Zhai et al. 2023, 3.2)."""

    def __init__(self, bias: bool = False) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.zeros(1))
        self.bias = nn.Parameter(torch.zeros(1)) if bias else None

    def forward(self, text_embeds: Tensor, image_embeds: Tensor) -> tuple[Tensor, Tensor]:
        """text_embeds (T,W), image_embeds (I,W) -> logits_per_text (T,I), logits_per_image (I,T)."""
        logits_per_text = text_embeds @ image_embeds.mT * self.scale.exp()  # (T, I)
        if self.bias is not None:
            logits_per_text = logits_per_text + self.bias
        logits_per_image = logits_per_text.mT  # (I, T)
        return logits_per_text, logits_per_image


class DualEncoderModel(nn.Module):
    """A text encoder, an image encoder, and the scale of their similarities (Radford et al. 2021, 2.3).

    `outputs` of every layer are returned too, as a contract has them.
    """

    def __init__(self, spec: DualEncoderSpec, cache: Cache, outputs: Collection[str] = ()):
        super().__init__()
        check_outputs(spec, outputs)
        self.spec, self.outputs = spec, frozenset(outputs)
        weighted = names.ATTENTIONS in self.outputs
        self.text = Encoder(spec.text, weighted)
        self.text_projection = Linear(spec.text.hidden_size, spec.size, spec.text_bias)
        self.vision = SignalEncoder(spec.vision, weighted)
        if spec.vision_pool is None:
            self.vision_projection = Linear(spec.vision.hidden_size, spec.size, bias=False)
        else:
            self.vision_pool = AttentionPool(spec.vision_pool)
        self.similarity = Similarity(spec.sigmoid_scores)

    def texts(self, input_ids: Tensor, attention_mask: Tensor) -> dict[str, Tensor]:
        """Both (T,S) -> text_embeds (T,size), and the outputs of layers."""
        layers = layers_of(self.spec, self.outputs, self.spec.text, names.TEXT)
        x = self.text(input_ids, attention_mask, given=layers)  # (T, S, W)
        picked = pick(self.spec.pick, self.spec.eos_token_id, x, input_ids, attention_mask)  # (T, W)
        return {names.TEXT_EMBEDS: unit(self.text_projection(picked)), **layers.values}

    def images(self, pixel_values: Tensor) -> dict[str, Tensor]:
        """pixel_values (I,channels,height,width) -> image_embeds (I,size), and the outputs of layers."""
        layers = layers_of(self.spec, self.outputs, self.spec.vision, names.VISION)
        x, _ = self.vision(pixel_values, given=layers)  # (I, S, W)
        if self.spec.vision_pool is None:
            vectors = self.vision_projection(pick(Pick.FIRST, None, x, None, None))  # (I, size)
        else:
            vectors = self.vision_pool(x)
        return {names.IMAGE_EMBEDS: unit(vectors), **layers.values}

    def compare(self, input_ids: Tensor, attention_mask: Tensor, pixel_values: Tensor) -> dict[str, Tensor]:
        """Return the outputs of the three graphs by name."""
        texts, images = self.texts(input_ids, attention_mask), self.images(pixel_values)
        logits_per_text, logits_per_image = self.similarity(
            texts[names.TEXT_EMBEDS], images[names.IMAGE_EMBEDS]
        )
        return {
            **texts,
            **images,
            names.LOGITS_PER_TEXT: logits_per_text,
            names.LOGITS_PER_IMAGE: logits_per_image,
        }
