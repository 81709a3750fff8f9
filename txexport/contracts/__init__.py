"""Inputs and outputs of graphs: names, shapes, files and stages.

A contract is an object. `STATIC` and `DYNAMIC` are ours for models that generate, by the kind of cache;
`ONE_PASS` is ours for all other models. `ECOSYSTEM` has the layout of other tools and clients, `SHARED` that
of onnxruntime-genai. The names of inputs and outputs are in `names`, those of keys and values in
`cache_names`, those of graphs and files in `roles`; no other module spells them. `with_outputs` returns a
contract whose graphs also give hidden states and attention weights of every layer. `parts.signatures` returns
the inputs and outputs of a model's graphs by a contract.
"""

from dataclasses import replace

from txexport.contracts.contract import Contract, Port, Signature
from txexport.contracts.dynamic import DYNAMIC
from txexport.contracts.ecosystem import ECOSYSTEM
from txexport.contracts.layer_outputs import OUTPUTS, with_outputs
from txexport.contracts.one_pass import ONE_PASS
from txexport.contracts.shared import SHARED
from txexport.contracts.static import STATIC
from txexport.spec import Cache

__all__ = [
    "DYNAMIC",
    "ECOSYSTEM",
    "ONE_PASS",
    "OUTPUTS",
    "SHARED",
    "STATIC",
    "Contract",
    "Port",
    "Signature",
    "for_cuda",
    "of_cache",
    "with_outputs",
]


def for_cuda(contract: Contract) -> Contract:
    """One of our contracts, with graphs that CUDA captures."""
    return replace(contract, captured=True)


def of_cache(cache: str | None) -> Contract:
    """Our contract with a cache of that kind; None is a model without a cache."""
    if cache is None:
        return ONE_PASS
    return {Cache.STATIC: STATIC, Cache.DYNAMIC: DYNAMIC}[Cache(cache)]
