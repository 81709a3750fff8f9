"""Layers that keep arrays of fixed size between steps, and no keys and values."""

from txexport.spec.gated_delta import GatedDeltaSpec
from txexport.spec.kimi_delta import KimiDeltaSpec
from txexport.spec.mamba import MambaSpec
from txexport.spec.mamba2 import Mamba2Spec
from txexport.spec.rg_lru import RgLruSpec
from txexport.spec.rwkv import TimeMixSpec
from txexport.spec.short_convolution import ShortConvolutionSpec

StatefulSpec = (
    ShortConvolutionSpec | GatedDeltaSpec | KimiDeltaSpec | Mamba2Spec | MambaSpec | RgLruSpec | TimeMixSpec
)
