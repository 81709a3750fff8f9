"""Token ids to vectors."""

import torch
from torch import Tensor, nn

from txexport.spec import EmbeddingSpec, PositionKind
from txmodels.linear import Linear
from txmodels.norm import Norm
from txmodels.page import BoxTables, PageImage
from txmodels.splice import spliced
from txmodels.trigrams import trigrams

KEPT = 1 - 0.15 * 0.8  # the share of tokens that ESM's training did not mask


class Embedding(nn.Module):
    """Word, position and token type embeddings, added (Vaswani et al. 2017, 3.4; Devlin et al. 2019, 3).

    Tables narrower than the stack are projected to its width (Lan et al. 2020, 3.1).
    """

    def __init__(self, spec: EmbeddingSpec):
        super().__init__()
        self.scale, self.image_token_id = spec.scale, spec.image_token_id
        self.table, self.dropped, self.masked = spec.position.table, spec.dropped, spec.masked
        self.offset, self.norm_first = spec.position.offset, spec.norm_first
        self.segments = spec.type_vocab_size
        size = spec.table_size
        self.word = nn.Embedding(spec.vocab_size, spec.word_size)
        if self.table:
            self.position = nn.Embedding(spec.position.size, size)
            if spec.position.kind == PositionKind.FIXED:
                self.position.weight.requires_grad_(False)
                self.position.weight.copy_(_sinusoids(spec.position.size, size))
        if self.segments:
            self.segment = nn.Embedding(spec.type_vocab_size, size)
        self.tasks = spec.task_type_vocab_size
        if self.tasks:
            self.task = nn.Embedding(self.tasks, size)
        self.boxes = None if spec.boxes is None else BoxTables(spec.boxes)
        self.page = None if spec.page is None else PageImage(spec.page)
        self.norm = Norm(spec.norm) if spec.norm else nn.Identity()
        self.project_first, self.trigrams = spec.project_first, spec.trigrams
        self.project: nn.Module = nn.Identity()
        if spec.factored_size is not None:
            size = spec.factored_size * 3 if spec.trigrams else spec.factored_size
            self.project = Linear(size, spec.hidden_size, spec.trigrams or not spec.project_first)

    def forward(
        self,
        input_ids: Tensor,
        positions: Tensor,
        token_type_ids: Tensor | None,
        attention_mask: Tensor | None,
        image_features: Tensor | None = None,
        boxes: Tensor | None = None,
        pixel_values: Tensor | None = None,
    ) -> Tensor:
        """input_ids (B,S), positions (B,S) or (1,S), token_type_ids and attention_mask (B,S) -> x (B,S,W).

        With one token type, token_type_ids are not needed; only token dropout and masked vectors need the
        mask. image_features (N,W) are those of the images among the tokens. boxes (B,S,4) are the words' on a
        page; the P patches of its pixel_values (B,channels,height,width) follow: (B,S+P,W).
        """
        embedded = self.word(input_ids)  # (B, S, W)
        if self.trigrams:
            embedded = trigrams(embedded)  # (B, S, 3*W)
        if self.project_first:
            embedded = self.project(embedded)
        if self.dropped is not None:
            assert attention_mask is not None
            dropped = (input_ids == self.dropped).to(embedded.dtype)  # (B, S)
            share = dropped.sum(dim=1) / attention_mask.sum(dim=1).to(embedded.dtype)  # (B)
            embedded = embedded * (1 - dropped)[:, :, None] * KEPT / (1 - share)[:, None, None]
        if self.scale != 1:
            embedded = embedded * self.scale
        if self.image_token_id is not None and image_features is not None:
            embedded = spliced(self.image_token_id, embedded, input_ids, image_features)
        if self.norm_first:
            embedded = self.norm(embedded)
        if self.table:
            embedded = embedded + self.position(positions + self.offset)
        if self.segments == 1:
            embedded = embedded + self.segment.weight
        elif self.segments:
            embedded = embedded + self.segment(token_type_ids)
        if self.tasks:
            embedded = embedded + self.task.weight[0]
        if self.boxes is not None:
            embedded = embedded + self.boxes(boxes)
        if not self.norm_first:
            embedded = self.norm(embedded)
        if self.masked:
            assert attention_mask is not None
            embedded = embedded * attention_mask[:, :, None]
        x: Tensor = embedded if self.project_first else self.project(embedded)
        return x if self.page is None else self.page(x, pixel_values)


def _sinusoids(size: int, width: int) -> Tensor:
    """Sinusoids (size,width) of positions 0 to size - 1, sine, cosine by turns (Vaswani et al. 2017, 3.5)."""
    powers = torch.arange(0, width, 2, dtype=torch.float64) / width
    angles = torch.arange(size, dtype=torch.float64)[:, None] / 10000**powers  # (size, width / 2)
    table = torch.stack([angles.sin(), angles.cos()], dim=2).flatten(1)[:, :width]
    return table.float()
