"""Maps of features of several layers, fused from coarse to fine; R rows and C columns of patches."""

import torch
from torch import Tensor, nn

from txexport.spec import ClassReadout, FeatureFusionSpec, FeatureMapSpec
from txmodels.activation import activation
from txmodels.batch_norm import BatchNorm
from txmodels.bilinear import bilinear


class FeatureMap(nn.Module):
    """A layer's patches as a map of another resolution (Ranftl et al. 2021, 3.1, "Reassemble")."""

    def __init__(self, spec: FeatureMapSpec, tokens: int, hidden_size: int, fused_size: int):
        super().__init__()
        self.spec, self.tokens, size, factor = spec, tokens, spec.size, int(spec.factor)
        if spec.readout == ClassReadout.PROJECT:
            self.readout = nn.Linear(2 * hidden_size, hidden_size)
        self.project = nn.Conv2d(hidden_size, size, 1)
        if factor > 1:
            self.resize: nn.Module = nn.ConvTranspose2d(size, size, factor, factor)
        else:
            self.resize = nn.Identity() if factor else nn.Conv2d(size, size, 3, 2, padding=1)
        self.convolve = nn.Conv2d(size, fused_size, 3, padding=1, bias=False)

    def forward(self, state: Tensor, grid: Tensor) -> Tensor:
        """state (B,S,W), grid (2): R and C -> features (B,F,height,width)."""
        x = self._with_class(state[:, self.tokens :], state[:, :1])
        patches = x.mT.unflatten(2, grid.tolist())  # (B, W, R, C)
        features: Tensor = self.convolve(self.resize(self.project(patches)))
        return features

    def _with_class(self, x: Tensor, first: Tensor) -> Tensor:
        """x (B,R * C,W), class token first (B,1,W) -> patches with what they take of it, as x."""
        if self.spec.readout == ClassReadout.ADD:
            return x + first
        if self.spec.readout == ClassReadout.PROJECT:
            both = self.readout(torch.cat([x, first.expand_as(x)], dim=-1))
            return activation(self.spec.activation)(both)
        return x


class ResidualUnit(nn.Module):
    """Two convolutions after ReLU, and a residual (He et al. 2016, "Identity Mappings", 3)."""

    def __init__(self, spec: FeatureFusionSpec):
        super().__init__()
        size, bias, norm = spec.size, spec.bias, spec.norm
        self.first = nn.Conv2d(size, size, 3, padding=1, bias=bias)
        self.second = nn.Conv2d(size, size, 3, padding=1, bias=bias)
        self.first_norm = nn.Identity() if norm is None else BatchNorm(norm)
        self.second_norm = nn.Identity() if norm is None else BatchNorm(norm)

    def forward(self, x: Tensor) -> Tensor:
        """x (B,F,height,width) -> y, of the same shape."""
        first = self.first_norm(self.first(torch.relu(x)))
        y: Tensor = x + self.second_norm(self.second(torch.relu(first)))
        return y


class FeatureFusion(nn.Module):
    """A finer map added to the fused coarser ones, refined and interpolated (Ranftl et al. 2021, 3.1).

    The projection precedes the interpolation, with which it commutes: it reads fewer pixels so.
    """

    def __init__(self, spec: FeatureFusionSpec, first: bool):
        super().__init__()
        self.add = None if first else ResidualUnit(spec)
        self.refine = ResidualUnit(spec)
        self.project = nn.Conv2d(spec.size, spec.size, 1)

    def forward(self, x: Tensor, size: Tensor, features: Tensor | None = None) -> Tensor:
        """x, features (B,F,height,width), size (2): new height and width -> fused (B,F,*size)."""
        if self.add is not None and features is not None:
            x = x + self.add(features)
        fused = corner_aligned(self.project(self.refine(x)), size)
        return fused


def corner_aligned(x: Tensor, size: Tensor) -> Tensor:
    """x (B,F,height,width), size (2) -> y (B,F,*size), bilinear between the centres of corner pixels.

    A pixel's place n (old - 1) / (new - 1) is rounded as ONNX Runtime rounds it: both halves differ by 5e-7.
    PyTorch's interpolate multiplies n by a rounded quotient: on large maps both are 1e-4 from float64.
    """
    kind, (high, wide) = torch.promote_types(x.dtype, torch.float32), size.tolist()
    for axis, new in ((2, high), (3, wide)):
        last = x.shape[axis] - 1
        place = torch.arange(new, dtype=kind, device=x.device) * last / max(new - 1, 1)
        before = place.floor().long()
        share = (place - before).to(x.dtype)  # of the pixel behind
        share = share[:, None] if axis == 2 else share
        behind = x.index_select(axis, (before + 1).clamp(max=last))
        x = x.index_select(axis, before) * (1 - share) + behind * share
    return x


class FeatureMaps(nn.Module):
    """The fused map of several states, twice as high and wide as the finest (Ranftl et al. 2021, 3.1)."""

    def __init__(self, spec: FeatureFusionSpec, hidden_size: int):
        super().__init__()
        self.spec, last = spec, len(spec.maps) - 1
        self.maps = nn.ModuleList(FeatureMap(part, spec.tokens, hidden_size, spec.size) for part in spec.maps)
        self.fusions = nn.ModuleList(FeatureFusion(spec, part == last) for part in range(len(spec.maps)))

    def forward(self, states: dict[str, Tensor], grid: Tensor) -> Tensor:
        """states (B,S,W), one for each map, grid (2): R and C -> x (B,F,height,width)."""
        features = [layer(state, grid) for layer, state in zip(self.maps, states.values(), strict=True)]
        if self.spec.doubling:
            return self._doubled_maps(features)
        sizes = [2 * _size(features[0]), *[_size(finer) for finer in features[:-1]]]
        x = self.fusions[-1](features[-1], sizes[-1])
        for part in range(len(features) - 2, -1, -1):
            x = self.fusions[part](x, sizes[part], features[part])
        return x

    def _doubled_maps(self, features: list[Tensor]) -> Tensor:
        """Maps fused from coarse to fine, each with twice the rows and columns of the one before."""
        x = features[-1]
        for part in range(len(features) - 1, -1, -1):
            size = _size(x)
            finer = None if part == len(features) - 1 else bilinear(features[part], size)
            x = self.fusions[part](x, 2 * size, finer)
        return x


def _size(x: Tensor) -> Tensor:
    """x (B,F,height,width) -> its height and width (2)."""
    return torch.tensor(x.shape[2:], device="cpu")
