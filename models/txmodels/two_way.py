"""Layers in which prompts and the places of an image attend to each other."""

from torch import Tensor, nn

from txexport.spec import FeedForwardSpec, TwoWaySpec
from txmodels.feedforward import FeedForward
from txmodels.norm import Norm
from txmodels.separate_attention import SeparateAttention


class TwoWayLayer(nn.Module):
    """Prompts attend to themselves, then to the image; the image attends to them (Kirillov et al. 2023, A).

    In the `first` layer, the output of self-attention replaces the prompts.
    """

    def __init__(self, spec: TwoWaySpec, first: bool):
        super().__init__()
        self.first = first
        self.self_attention = _attention(spec, 1)
        self.self_attention_norm = Norm(spec.norm)
        self.to_image = _attention(spec, spec.reduction)
        self.to_image_norm = Norm(spec.norm)
        self.feed_forward = FeedForward(
            FeedForwardSpec(spec.hidden_size, spec.intermediate_size, spec.activation)
        )
        self.feed_forward_norm = Norm(spec.norm)
        self.to_prompts = _attention(spec, spec.reduction)
        self.to_prompts_norm = Norm(spec.norm)

    def forward(self, x: Tensor, image: Tensor, prompts: Tensor, positions: Tensor) -> tuple[Tensor, Tensor]:
        """x and its first value prompts (B,T,W), image and positions (B,S,W) -> x, image."""
        if self.first:
            x = self.self_attention(x, x, x)
        else:
            query = x + prompts
            x = x + self.self_attention(query, query, x)
        x = self.self_attention_norm(x)
        x = self.to_image_norm(x + self.to_image(x + prompts, image + positions, image))
        x = self.feed_forward_norm(x + self.feed_forward(x))
        image = self.to_prompts_norm(image + self.to_prompts(image + positions, x + prompts, x))
        return x, image


class TwoWay(nn.Module):
    """Every layer, and a last attention of the prompts to the image (Kirillov et al. 2023, A)."""

    def __init__(self, spec: TwoWaySpec):
        super().__init__()
        self.layers = nn.ModuleList(TwoWayLayer(spec, not layer) for layer in range(spec.num_layers))
        self.to_image = _attention(spec, spec.reduction)
        self.final_norm = Norm(spec.final_norm)

    def forward(self, prompts: Tensor, image: Tensor, positions: Tensor) -> tuple[Tensor, Tensor]:
        """prompts (B,T,W), image and positions (B,S,W) -> x (B,T,W), image (B,S,W)."""
        x = prompts
        for layer in self.layers:
            x, image = layer(x, image, prompts, positions)
        x = self.final_norm(x + self.to_image(x + prompts, image + positions, image))
        return x, image


def _attention(spec: TwoWaySpec, reduction: int) -> SeparateAttention:
    """Attention whose inner width is `reduction` times smaller."""
    return SeparateAttention(spec.hidden_size, spec.num_heads, spec.hidden_size // reduction)
