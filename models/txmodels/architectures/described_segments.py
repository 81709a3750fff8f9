"""The parts of images that texts describe (Lüddecke and Ecker 2022, 3.1)."""

import math
from collections.abc import Collection

import torch
from torch import Tensor, nn

from txexport.contracts import names
from txexport.parts import check_outputs
from txexport.spec import Cache, DescribedSegmentsSpec
from txmodels.block import EncoderBlock
from txmodels.encoder_stack import Encoder, SignalEncoder
from txmodels.heads.pick import pick
from txmodels.linear import Linear
from txmodels.stack import Given


class NarrowStates(nn.Module):
    """The outputs of several layers of an image encoder, as wide as the decoder (Lüddecke 2022, 3.1)."""

    def __init__(self, spec: DescribedSegmentsSpec):
        super().__init__()
        self.projects = nn.ModuleList(Linear(spec.vision.hidden_size, spec.width) for _ in spec.layers)

    def forward(self, states: dict[str, Tensor]) -> Tensor:
        """states (B,S,V), one for each layer of the decoder -> image_embeds (B,L,S,W)."""
        narrow = [project(state) for project, state in zip(self.projects, states.values(), strict=True)]
        return torch.stack(narrow, dim=1)


class Film(nn.Module):
    """Vectors of an image, scaled and shifted by projections of a text's vector (Perez et al. 2018, 2)."""

    def __init__(self, spec: DescribedSegmentsSpec):
        super().__init__()
        self.scale, self.shift = Linear(spec.size, spec.width), Linear(spec.size, spec.width)

    def forward(self, x: Tensor, text_embeds: Tensor) -> Tensor:
        """x (N,S,W), text_embeds (N,D) -> y (N,S,W)."""
        text = text_embeds[:, None]  # (N, 1, D)
        y: Tensor = self.scale(text) * x + self.shift(text)
        return y


class DescribedPixels(nn.Module):
    """A logit for each pixel of a square of patches (Lüddecke and Ecker 2022, 3.1)."""

    def __init__(self, spec: DescribedSegmentsSpec):
        super().__init__()
        self.spec, width = spec, spec.width
        first, *others = spec.strides
        self.expand = nn.ConvTranspose2d(width, width // 2 if others else 1, first, first)
        if spec.refined:
            self.convolve = nn.Conv2d(width, width, 3, padding=1)
            self.expand_again = nn.ConvTranspose2d(width // 2, 1, others[0], others[0])

    def forward(self, x: Tensor) -> Tensor:
        """x (N,S,W), the class token first -> logits (N,height,width)."""
        patches = x[:, 1:].mT  # (N, W, R * R)
        rows = math.isqrt(patches.shape[2])
        grid = patches.unflatten(2, (rows, rows))  # (N, W, R, R)
        if self.spec.refined:
            grid = torch.relu(self.convolve(grid))
        pixels = self.expand(grid)
        if self.spec.refined:
            pixels = self.expand_again(torch.relu(pixels))
        logits: Tensor = pixels.squeeze(1)  # (N, height, width)
        return logits


class SegmentDecoder(nn.Module):
    """Logits of the pixels of an image that a text describes (Lüddecke and Ecker 2022, 3.1)."""

    def __init__(self, spec: DescribedSegmentsSpec):
        super().__init__()
        self.spec, self.film, self.pixels = spec, Film(spec), DescribedPixels(spec)
        self.layers = nn.ModuleList(EncoderBlock(spec.block) for _ in spec.layers)

    def forward(self, image_embeds: Tensor, text_embeds: Tensor) -> Tensor:
        """image_embeds (N,L,S,W), text_embeds (N,D) -> logits (N,height,width)."""
        x = image_embeds[:, 0]  # (N, S, W)
        for number, layer in enumerate(self.layers):
            if number:
                x = x + image_embeds[:, number]
            if number == self.spec.conditioned:
                x = self.film(x, text_embeds)
            (x,) = layer(x, mask=None, cos=None, sin=None)
        logits: Tensor = self.pixels(x)
        return logits


class DescribedSegmentsModel(nn.Module):
    """A text encoder, an image encoder, and the decoder of the pixels that a text describes."""

    def __init__(self, spec: DescribedSegmentsSpec, cache: Cache, outputs: Collection[str] = ()):
        super().__init__()
        check_outputs(spec, outputs)
        self.spec, self.outputs = spec, frozenset(outputs)
        self.text, self.vision = Encoder(spec.text), SignalEncoder(spec.vision)
        self.text_projection = Linear(spec.text.hidden_size, spec.size, bias=False)
        self.states, self.decoder = NarrowStates(spec), SegmentDecoder(spec)

    def texts(self, input_ids: Tensor, attention_mask: Tensor) -> dict[str, Tensor]:
        """Both (T,S) -> text_embeds (T,D)."""
        x = self.text(input_ids, attention_mask)  # (T, S, W)
        picked = pick(self.spec.pick, self.spec.eos_token_id, x, input_ids, attention_mask)
        return {names.TEXT_EMBEDS: self.text_projection(picked)}

    def images(self, pixel_values: Tensor) -> dict[str, Tensor]:
        """pixel_values (B,channels,height,width) -> image_embeds (B,L,S,W)."""
        layers = Given(states={})
        self.vision(pixel_values, given=layers)
        assert layers.states is not None
        read = enumerate(reversed(self.spec.layers))
        states = {str(number): layers.states[str(layer + 1)] for number, layer in read}
        return {names.IMAGE_EMBEDS: self.states(states)}

    def scores(self, text_embeds: Tensor, image_embeds: Tensor) -> dict[str, Tensor]:
        """text_embeds (T,D), image_embeds (B,L,S,W) -> logits (B,T,height,width)."""
        texts, images = len(text_embeds), len(image_embeds)
        logits = self.decoder(image_embeds.repeat_interleave(texts, 0), text_embeds.repeat(images, 1))
        return {names.LOGITS: logits.unflatten(0, (images, texts))}

    def described(self, input_ids: Tensor, attention_mask: Tensor, pixel_values: Tensor) -> dict[str, Tensor]:
        """The outputs for as many texts as images: logits (B,height,width) of each pair."""
        vectors = self.texts(input_ids, attention_mask) | self.images(pixel_values)
        logits = self.decoder(vectors[names.IMAGE_EMBEDS], vectors[names.TEXT_EMBEDS])
        return {names.LOGITS: logits, **vectors}
