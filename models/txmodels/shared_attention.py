"""Attention over the keys and values of an earlier layer."""

from torch import Tensor

from txexport.spec import Cache, SharedAttentionSpec
from txmodels.attention import Attention, merge
from txmodels.position import asked


class SharedAttention(Attention):
    """Attention of new tokens over what an earlier layer has cached (Brandon et al. 2024, 3.1)."""

    def __init__(self, spec: SharedAttentionSpec, cache: Cache, weighted: bool = False):
        super().__init__(spec.attention, weighted)
        for name in ("k", "v", "k_norm", "v_norm"):  # the earlier layer's
            self._modules.pop(name, None)

    def forward(  # type: ignore[override]
        self,
        x: Tensor,
        mask: Tensor | None,
        cos: Tensor | None,
        sin: Tensor | None,
        k: Tensor,
        v: Tensor,
        logits_indices: Tensor | None = None,
        filled: Tensor | None = None,
        single: Tensor | None = None,
        **more: Tensor | None,
    ) -> tuple[Tensor, ...]:
        """x (B,S,W), mask (B,1,S,T), cos and sin (B,S,R), k and v (B,K,T,H) -> y (B,S,W).

        If `weighted`, also weights (B,N,S,T). The other inputs as those of CachedAttention.
        """
        turns = asked(cos, logits_indices), asked(sin, logits_indices)  # (B, L, R)
        q = self.heads_of("q", asked(x, logits_indices), *turns)  # (B, N, L, H)
        heads, *weights = self._mixed(q, k, v, mask, filled)  # (B, N, S, H)
        y: Tensor = self.o(merge(heads))  # (B, L, W)
        return y, *weights
