"""Layers in which an image and a text read one another."""

import torch
from torch import Tensor, nn

from txexport.spec import GroundedSpec
from txmodels.attention import merge, split
from txmodels.deformable_attention import DeformableAttention
from txmodels.feedforward import FeedForward
from txmodels.linear import Linear
from txmodels.norm import Norm
from txmodels.separate_attention import SeparateAttention


class Fusion(nn.Module):
    """Places that read tokens, and tokens that read places, by the same scores (Li et al. 2022, 3.2)."""

    def __init__(self, spec: GroundedSpec):
        super().__init__()
        self.heads, width, inner = spec.mutual_heads, spec.hidden_size, spec.inner
        self.image_norm, self.text_norm = Norm(spec.norm), Norm(spec.norm)
        self.q, self.k = Linear(width, inner), Linear(width, inner)
        self.image_v, self.text_v = Linear(width, inner), Linear(width, inner)
        self.image_o, self.text_o = Linear(inner, width), Linear(inner, width)
        self.image_scale = nn.Parameter(torch.ones(width))
        self.text_scale = nn.Parameter(torch.ones(width))

    def forward(self, image: Tensor, text: Tensor, real: Tensor, tokens: Tensor) -> tuple[Tensor, Tensor]:
        """image (B,P,W), text (B,S,W), without padding where real (B,P) and tokens (B,S) -> both."""
        image, text = self.image_norm(image), self.text_norm(text)
        pairs = (self.q, image), (self.k, text), (self.text_v, text), (self.image_v, image)
        q, k, of_text, of_image = (split(part(x), self.heads) for part, x in pairs)  # (B, N, P or S, H)
        scores = q * q.shape[3] ** -0.5 @ k.mT  # (B, N, P, S)
        of_places = seen_softmax(scores, tokens)
        of_tokens = seen_softmax(scores.mT, real)  # (B, N, S, P)
        read = self.image_o(merge(of_places @ of_text))  # (B, P, W)
        seen = self.text_o(merge(of_tokens @ of_image))  # (B, S, W)
        return image + self.image_scale * read, text + self.text_scale * seen


def seen_softmax(s: Tensor, seen: Tensor) -> Tensor:
    """Scores s (B,N,S,T), which keys count (B,T) -> weights (B,N,S,T)."""
    y = s.masked_fill(~seen[:, None, None], -torch.inf).softmax(3)
    return y


class GroundedLayer(nn.Module):
    """Fusion, then attention of tokens to tokens and of places to places (Liu et al. 2023, 3.1)."""

    def __init__(self, spec: GroundedSpec):
        super().__init__()
        width = spec.hidden_size
        self.fusion = Fusion(spec)
        self.text_attention = SeparateAttention(width, spec.mutual_heads, width)
        self.text_attention_norm = Norm(spec.norm)
        self.text_feed_forward = FeedForward(spec.network(spec.inner))
        self.text_feed_forward_norm = Norm(spec.norm)
        self.attention = DeformableAttention(spec.cell_attention)
        self.attention_norm = Norm(spec.norm)
        self.feed_forward = FeedForward(spec.network(spec.cells.intermediate_size))
        self.feed_forward_norm = Norm(spec.norm)

    def forward(
        self,
        image: Tensor,
        text: Tensor,
        image_positions: Tensor,
        text_positions: Tensor,
        references: Tensor,
        sizes: dict[str, Tensor],
        real: Tensor,
        tokens: Tensor,
        mask: Tensor,
    ) -> tuple[Tensor, Tensor]:
        """image (B,P,W), text (B,S,W) and their positions, points (B,P,L,2), sizes of levels -> both.

        Without padding where real (B,P) and tokens (B,S); mask (B,1,S,S) of tokens that see one another.
        """
        image, text = self.fusion(image, text, real, tokens)
        query = text + text_positions
        text = self.text_attention_norm(text + self.text_attention(query, query, text, mask))
        text = self.text_feed_forward_norm(text + self.text_feed_forward(text))
        read = self.attention(image + image_positions, references, image, sizes, real=real)
        image = self.attention_norm(image + read)
        image = self.feed_forward_norm(image + self.feed_forward(image))
        return image, text


class ObjectLayer(nn.Module):
    """Queries that attend to one another, to the text, and to places near a box (Liu et al. 2023, 3.3)."""

    def __init__(self, spec: GroundedSpec):
        super().__init__()
        width, heads = spec.hidden_size, spec.objects.num_heads
        self.attention = SeparateAttention(width, heads, width)
        self.attention_norm = Norm(spec.norm)
        self.text_attention = SeparateAttention(width, heads, width)
        self.text_attention_norm = Norm(spec.norm)
        self.cross_attention = DeformableAttention(spec.object_attention)
        self.cross_attention_norm = Norm(spec.norm)
        self.feed_forward = FeedForward(spec.network(spec.objects.intermediate_size))
        self.feed_forward_norm = Norm(spec.norm)

    def forward(
        self,
        x: Tensor,
        positions: Tensor,
        references: Tensor,
        image: Tensor,
        text: Tensor,
        sizes: dict[str, Tensor],
        real: Tensor,
        mask: Tensor,
    ) -> Tensor:
        """x and positions (B,Q,W), boxes (B,Q,L,4), image (B,P,W), text (B,S,W), sizes -> y (B,Q,W).

        Values are zeros where not real (B,P); mask (B,1,Q,S) of tokens.
        """
        query = x + positions
        x = self.attention_norm(x + self.attention(query, query, x))
        x = self.text_attention_norm(x + self.text_attention(x + positions, text, text, mask))
        read = self.cross_attention(x + positions, references, image, sizes, real=real)
        x = self.cross_attention_norm(x + read)
        y: Tensor = self.feed_forward_norm(x + self.feed_forward(x))
        return y
