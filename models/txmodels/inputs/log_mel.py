"""Log-mel spectrograms through two convolutions over time (Radford et al. 2022, 2.2)."""

from torch import Tensor, nn

from txexport.spec import LogMelSpec
from txmodels.activation import activation


class SoundEmbedding(nn.Module):
    """Two convolutions over the frames of a spectrogram, plus positions (Radford et al. 2022, 2.2)."""

    def __init__(self, spec: LogMelSpec):
        super().__init__()
        self.act = activation(spec.activation)
        self.first = nn.Conv1d(spec.num_mel_bins, spec.hidden_size, 3, padding=1)
        self.second = nn.Conv1d(spec.hidden_size, spec.hidden_size, 3, stride=2, padding=1)
        self.position = nn.Embedding(spec.length, spec.hidden_size)

    def forward(
        self, input_features: Tensor, attention_mask: Tensor | None = None
    ) -> Tensor | tuple[Tensor, Tensor]:
        """input_features (B,bands,frames) -> x (B,S,W), S half as many as frames.

        With attention_mask (B,frames), the mask (B,S) too: 1 for a vector at a real frame.
        """
        frames = self.act(self.first(input_features))  # (B, W, frames)
        halved = self.act(self.second(frames))  # (B, W, S)
        x = halved.mT + self.position.weight  # (B, S, W)
        return x if attention_mask is None else (x, attention_mask[:, ::2])


Embedding = SoundEmbedding
