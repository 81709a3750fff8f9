"""No head: the last map of a network of convolutions."""

from torch import Tensor, nn

from txexport.contracts import names
from txexport.spec import HeadSpec


class LastMap(nn.Module):
    """The last map, channels first."""

    def outputs_of_maps(self, x: Tensor, maps: dict[str, Tensor]) -> dict[str, Tensor]:
        """Maps (B,R,C,W) -> the graph's output: last_hidden_state (B,W,R,C) of the last one."""
        *_, last = maps.values()
        return {names.LAST_HIDDEN_STATE: last.permute(0, 3, 1, 2)}


def head(spec: HeadSpec, hidden_size: int, vocab_size: int) -> LastMap:
    """The head of a model's spec."""
    return LastMap()
