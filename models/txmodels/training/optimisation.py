"""Optimisers and learning rate schedules of the papers, on PyTorch's."""

from torch import nn
from torch.optim import Adam, AdamW, Optimizer
from torch.optim.lr_scheduler import LambdaLR


def adam_2017(model: nn.Module) -> Adam:
    """Adam with the constants of Vaswani et al. 2017 (5.3); the learning rate is the schedule's alone."""
    return Adam(_trained(model), lr=1.0, betas=(0.9, 0.98), eps=1e-9)


def inverse_square_root(optimizer: Optimizer, width: int, warmup: int = 4000) -> LambdaLR:
    """width^-0.5 min(step^-0.5, step warmup^-1.5): equation 3 of Vaswani et al. 2017 (5.3)."""

    def rate(step: int) -> float:
        return width**-0.5 * min((step + 1) ** -0.5, (step + 1) * warmup**-1.5)

    return LambdaLR(optimizer, rate)


def adamw(model: nn.Module, rate: float, decay: float = 0.01, beta2: float = 0.999) -> AdamW:
    """AdamW (Loshchilov and Hutter 2019) with weight decay on matrices alone.

    Biases and norms, which are vectors, do not decay (Devlin et al. 2019, their released code).
    """
    matrices = [p for p in _trained(model) if p.ndim > 1]
    vectors = [p for p in _trained(model) if p.ndim <= 1]
    groups = [{"params": matrices, "weight_decay": decay}, {"params": vectors, "weight_decay": 0.0}]
    return AdamW(groups, lr=rate, betas=(0.9, beta2))


def linear(optimizer: Optimizer, warmup: int, total: int) -> LambdaLR:
    """Linear warm-up over `warmup` steps, then linear decay to 0 at `total` (Devlin et al. 2019, A.2)."""

    def rate(step: int) -> float:
        if step < warmup:
            return (step + 1) / warmup
        return max(0.0, (total - step) / max(1, total - warmup))

    return LambdaLR(optimizer, rate)


def _trained(model: nn.Module) -> list[nn.Parameter]:
    return [parameter for parameter in model.parameters() if parameter.requires_grad]
