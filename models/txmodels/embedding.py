"""Token ids to vectors."""

from torch import Tensor, nn

from txexport.spec import EmbeddingSpec, PositionKind
from txmodels.norm import Norm


class Embedding(nn.Module):
    """Words, positions and segments, added (Vaswani et al. 2017, 3.4; Devlin et al. 2019, 3)."""

    def __init__(self, spec: EmbeddingSpec):
        super().__init__()
        self.scale = spec.scale
        self.learned = spec.position.kind == PositionKind.LEARNED
        self.offset = spec.position.offset
        self.segments = spec.segments
        self.word = nn.Embedding(spec.vocab_size, spec.hidden_size)
        if self.learned:
            self.position = nn.Embedding(spec.position.size, spec.hidden_size)
        if self.segments:
            self.segment = nn.Embedding(spec.segments, spec.hidden_size)
        self.norm = Norm(spec.norm) if spec.norm else nn.Identity()

    def forward(self, input_ids: Tensor, positions: Tensor, token_type_ids: Tensor | None) -> Tensor:
        """input_ids (B,S), positions (B,S) or (1,S), token_type_ids (B,S) -> x (B,S,W).

        One segment needs no token_type_ids.
        """
        words = self.word(input_ids)  # (B, S, W)
        if self.scale != 1:
            words = words * self.scale
        if self.learned:
            words = words + self.position(positions + self.offset)
        if self.segments == 1:
            words = words + self.segment.weight
        elif self.segments:
            words = words + self.segment(token_type_ids)
        x: Tensor = self.norm(words)
        return x
