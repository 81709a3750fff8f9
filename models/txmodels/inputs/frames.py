"""Frames of a sound, projected."""

from torch import Tensor, nn

from txexport.spec import FramesSpec
from txmodels.linear import Linear
from txmodels.norm import Norm


class FramesEmbedding(nn.Module):
    """The norm of each frame, and a projection; zeros for padding."""

    def __init__(self, spec: FramesSpec):
        super().__init__()
        self.norm = Norm(spec.norm)
        self.project = Linear(spec.feature_size, spec.hidden_size)

    def forward(self, input_features: Tensor, attention_mask: Tensor) -> tuple[Tensor, Tensor]:
        """input_features (B,S,features), attention_mask (B,S) -> x (B,S,W), mask (B,S)."""
        projected = self.project(self.norm(input_features))
        x: Tensor = projected.masked_fill(~attention_mask.bool()[:, :, None], 0.0)
        return x, attention_mask


Embedding = FramesEmbedding
