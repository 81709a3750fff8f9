"""The experts that the cases reach."""

from torch import nn
from txmodels.experts import Router


class ExpertsTaken:
    """Hooks on the routers of a twin that record the experts chosen in each layer."""

    def __init__(self, model: nn.Module):
        self.routers = [module for module in model.modules() if isinstance(module, Router)]
        self.taken: set[tuple[int, int]] = set()
        for layer, router in enumerate(self.routers):
            router.register_forward_hook(lambda _module, _inputs, out, layer=layer: self._note(layer, out[1]))

    @property
    def total(self) -> int:
        """The number of experts of all layers."""
        return sum(router.out_features for router in self.routers)

    def _note(self, layer: int, choice) -> None:
        self.taken |= {(layer, number) for number in choice.unique().tolist()}


def has_experts(model: nn.Module) -> bool:
    """True if the model has a router."""
    return any(isinstance(module, Router) for module in model.modules())
