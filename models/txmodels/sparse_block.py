"""One layer of a stack whose attention reads masks of tokens: each sublayer in its residual and its norm."""

from torch import Tensor, nn

from txexport.spec import (
    BlockSpec,
    LinformerAttentionSpec,
    LocalAttentionSpec,
    LongformerAttentionSpec,
    LowRankAttentionSpec,
    StridedAttentionSpec,
)
from txmodels.block import _Block
from txmodels.linformer_attention import LinformerAttention
from txmodels.local_attention import LocalAttention
from txmodels.longformer_attention import LongformerAttention
from txmodels.low_rank_attention import LowRankAttention
from txmodels.strided_attention import StridedAttention

ATTENTIONS: dict[type, type[nn.Module]] = {
    LocalAttentionSpec: LocalAttention,
    StridedAttentionSpec: StridedAttention,
    LongformerAttentionSpec: LongformerAttention,
    LinformerAttentionSpec: LinformerAttention,
    LowRankAttentionSpec: LowRankAttention,
}


class SparseEncoderBlock(_Block):
    """Attention of less than quadratic cost, then feed-forward."""

    def __init__(self, spec: BlockSpec):
        super().__init__(spec, ATTENTIONS[type(spec.attention)](spec.attention))

    def forward(self, x: Tensor, *masks: Tensor) -> Tensor:
        """x (B,S,W), the spec's token masks (B,S) -> y (B,S,W)."""
        inner = x if self.direct else self.attention_norm(x)
        mixed = self.attention(inner, *masks)
        attended = self.attended(x, mixed)  # (B, S, W)
        y = self.fed(x, attended)  # (B, S, W)
        return y
