"""Spectrograms through gated convolutions over time."""

from torch import Tensor, nn

from txexport.spec import GatedFramesSpec
from txmodels.gated_convolution import GatedConvolution
from txmodels.source_mask import source_mask


class GatedFramesEmbedding(nn.Module):
    """Gated convolutions over the frames of a spectrogram, plus positions (Synnaeve et al. 2019, 2.1)."""

    def __init__(self, spec: GatedFramesSpec):
        super().__init__()
        self.spec = spec
        self.convolutions = nn.ModuleList(
            GatedConvolution(width, channels // 2, kernel, spec.stride, kernel // 2)
            for (width, channels), kernel in zip(spec.sizes, spec.kernels, strict=True)
        )
        self.position = nn.Embedding(spec.max_length + spec.offset, spec.hidden_size)

    def forward(self, input_features: Tensor, attention_mask: Tensor) -> tuple[Tensor, Tensor]:
        """input_features (B,frames,bands), attention_mask (B,frames) -> x (B,S,W), mask (B,S)."""
        x = input_features
        for convolution in self.convolutions:
            x = convolution(x)  # (B, S, W)
        if self.spec.scale != 1:
            x = x * self.spec.scale
        x = x + self.position.weight[self.spec.offset :][: x.shape[1]]
        return x, source_mask(self.spec.counted, attention_mask, x.shape[1])


Embedding = GatedFramesEmbedding
