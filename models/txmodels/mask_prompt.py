"""A mask as a prompt: a vector for each place of an image."""

from torch import Tensor, nn

from txexport.spec import MaskPromptSpec
from txmodels.activation import activation
from txmodels.norm import Norm


class MaskPrompt(nn.Module):
    """Convolutions of a mask's logits (Kirillov et al. 2023, A)."""

    def __init__(self, spec: MaskPromptSpec, width: int):
        super().__init__()
        quarter = spec.channels // 4
        self.act = activation(spec.activation)
        self.halve = nn.Conv2d(1, quarter, 2, 2)
        self.halve_norm = Norm(spec.norm)
        self.halve_again = nn.Conv2d(quarter, spec.channels, 2, 2)
        self.halve_again_norm = Norm(spec.second_norm)
        self.project = nn.Conv2d(spec.channels, width, 1)

    def forward(self, masks: Tensor) -> Tensor:
        """masks (B,Q,4R,4C) -> dense (B,Q,W,R,C)."""
        x = self.halve(masks.flatten(0, 1)[:, None])  # (B*Q, channels/4, 2R, 2C)
        x = self.act(self.halve_norm(x.permute(0, 2, 3, 1))).permute(0, 3, 1, 2)
        x = self.halve_again(x)  # (B*Q, channels, R, C)
        x = self.act(self.halve_again_norm(x.permute(0, 2, 3, 1))).permute(0, 3, 1, 2)
        dense: Tensor = self.project(x).unflatten(0, masks.shape[:2])
        return dense
