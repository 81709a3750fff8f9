"""Dual encoders: vectors of texts and images, or of texts and sounds, are compared."""

from collections.abc import Collection

import torch
from torch import Tensor, nn

from txexport.contracts import names
from txexport.contracts.compared import BY_STACK
from txexport.parts import check_outputs
from txexport.spec import Activation, Cache, DualEncoderSpec, Pick
from txmodels.activation import activation
from txmodels.architectures._model import layers_of
from txmodels.attention_pool import AttentionPool
from txmodels.encoder_stack import Encoder, SignalEncoder
from txmodels.heads.pick import pick
from txmodels.linear import Linear
from txmodels.staged_stack import StagedEncoder


def unit(x: Tensor) -> Tensor:
    """x (B,W) -> L2-normalised vectors (B,W)."""
    y = x / torch.sqrt((x * x).sum(dim=1, keepdim=True))
    return y


class Similarity(nn.Module):
    """The similarity of texts and images (Radford et al. 2021, 2.3; with a bias, Zhai et al. 2023, 3.2).

    With two scales, the scores of each sound have another than those of each text (Wu et al. 2023, 3).
    """

    def __init__(self, bias: bool = False, two_scales: bool = False) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.zeros(1))
        self.bias = nn.Parameter(torch.zeros(1)) if bias else None
        self.signal_scale = nn.Parameter(torch.zeros(1)) if two_scales else None

    def forward(self, text_embeds: Tensor, signal_embeds: Tensor) -> tuple[Tensor, Tensor]:
        """text_embeds (T,W), signal_embeds (I,W) -> logits_per_text (T,I), those per signal (I,T)."""
        products = text_embeds @ signal_embeds.mT
        logits_per_text = products * self.scale.exp()  # (T, I)
        if self.bias is not None:
            logits_per_text = logits_per_text + self.bias
        if self.signal_scale is not None:
            return logits_per_text, products.mT * self.signal_scale.exp()
        return logits_per_text, logits_per_text.mT


class TwoLayers(nn.Module):
    """A projection, a non-linearity and another projection (Wu et al. 2023, 3)."""

    def __init__(self, width: int, size: int, between: Activation):
        super().__init__()
        self.up, self.down, self.between = Linear(width, size), Linear(size, size), activation(between)

    def forward(self, x: Tensor) -> Tensor:
        """x (B,W) -> y (B,size)."""
        y: Tensor = self.down(self.between(self.up(x)))
        return y


class DualEncoderModel(nn.Module):
    """A text encoder, one of images or sounds, and the scale of their similarities.

    Radford et al. 2021, 2.3; of sounds, Wu et al. 2023, 3. `outputs` of every layer are returned too, as a
    contract has them.
    """

    def __init__(self, spec: DualEncoderSpec, cache: Cache, outputs: Collection[str] = ()):
        super().__init__()
        check_outputs(spec, outputs)
        self.spec, self.outputs = spec, frozenset(outputs)
        weighted = names.ATTENTIONS in self.outputs
        self.text = Encoder(spec.text, weighted)
        if spec.audio is not None and spec.activation is not None:
            wide = spec.text.hidden_size
            self.text_pooler = Linear(wide, wide)
            self.text_projection: nn.Module = TwoLayers(wide, spec.size, spec.activation)
            self.audio = StagedEncoder(spec.audio)
            self.audio_projection = TwoLayers(spec.audio.hidden_size, spec.size, spec.activation)
        elif spec.vision is not None:
            self.text_projection = Linear(spec.text.hidden_size, spec.size, spec.text_bias)
            self.vision = SignalEncoder(spec.vision, weighted)
            if spec.vision_pool is None:
                self.vision_projection = Linear(spec.vision.hidden_size, spec.size, bias=False)
            else:
                self.vision_pool = AttentionPool(spec.vision_pool)
        self.similarity = Similarity(spec.sigmoid_scores, two_scales=spec.audio is not None)

    def texts(self, input_ids: Tensor, attention_mask: Tensor) -> dict[str, Tensor]:
        """Both (T,S) -> text_embeds (T,size), and the outputs of layers."""
        layers = layers_of(self.spec, self.outputs, self.spec.text, names.TEXT)
        x = self.text(input_ids, attention_mask, given=layers)  # (T, S, W)
        picked = pick(self.spec.pick, self.spec.eos_token_id, x, input_ids, attention_mask)  # (T, W)
        if self.spec.audio is not None:
            picked = torch.tanh(self.text_pooler(picked))
        return {names.TEXT_EMBEDS: unit(self.text_projection(picked)), **layers.values}

    def signals(
        self, signals: Tensor, attention_mask: Tensor | None = None, spatial_shapes: Tensor | None = None
    ) -> dict[str, Tensor]:
        """Pixels or spectrograms (I,channels,...) -> their vectors (I,size), and the outputs of layers.

        Patches of any shape (I,P,numbers) have an attention_mask (I,P) and spatial_shapes (I,2).
        """
        other = BY_STACK[self.spec.signal_name]
        layers = layers_of(self.spec, self.outputs, self.spec.signal, other.stack)
        if self.spec.audio is not None:
            x, _ = self.audio(signals, outputs=layers)  # (I, S, W)
            vectors = self.audio_projection(pick(Pick.GLOBAL_AVERAGE, None, x, None, None))  # (I, size)
        else:
            x, mask = self.vision(signals, attention_mask, layers, spatial_shapes)
            if self.spec.vision_pool is None:
                vectors = self.vision_projection(pick(Pick.FIRST, None, x, None, None))
            else:
                vectors = self.vision_pool(x, mask)
        return {other.vectors: unit(vectors), **layers.values}

    def compare(self, input_ids: Tensor, attention_mask: Tensor, **signals: Tensor) -> dict[str, Tensor]:
        """The outputs of the three graphs by name, for pixels or spectrograms by the name of their input."""
        other = BY_STACK[self.spec.signal_name]
        texts, vectors = self.texts(input_ids, attention_mask), self.signals(*signals.values())
        per_text, per_signal = self.similarity(texts[names.TEXT_EMBEDS], vectors[other.vectors])
        return {**texts, **vectors, names.LOGITS_PER_TEXT: per_text, other.scores: per_signal}
