"""Which experts the cases have seen at work."""

from torch import nn
from txmodels.experts import Router


class ExpertsTaken:
    """Listens to the routers of a twin: which expert of which layer some token has taken."""

    def __init__(self, model: nn.Module):
        self.routers = [module for module in model.modules() if isinstance(module, Router)]
        self.taken: set[tuple[int, int]] = set()
        for place, router in enumerate(self.routers):
            router.register_forward_hook(lambda _module, _given, out, place=place: self._note(place, out[1]))

    @property
    def total(self) -> int:
        """Experts of all layers together."""
        return sum(router.out_features for router in self.routers)

    def _note(self, place: int, choice) -> None:
        self.taken |= {(place, number) for number in choice.unique().tolist()}


def has_experts(model: nn.Module) -> bool:
    """Whether a router stands in a twin."""
    return any(isinstance(module, Router) for module in model.modules())
