"""A decoder alone: one graph over a cache of past keys and values."""

from collections.abc import Mapping

from txexport.contracts import cache_names, roles
from txexport.contracts.contract import Contract, Port, Signature
from txexport.errors import SpecError
from txexport.parts import stacks
from txexport.parts.architectures import _cached
from txexport.parts.heads import head_of
from txexport.spec import DecoderSpec
from txexport.spec.shapes import Shapes, under


class Decoder:
    """A stack that reads new tokens over a cache of past ones, and a causal LM head."""

    spec = DecoderSpec

    def roles(self, spec: DecoderSpec) -> tuple[str, ...]:
        """The model alone."""
        return (roles.MODEL,)

    def signatures(self, spec: DecoderSpec, contract: Contract) -> dict[str, Signature]:
        """New tokens and past keys and values in, scores and present ones out."""
        if contract.cache is None:
            raise SpecError("DecoderSpec: a decoder alone generates, so its graph has a cache")
        before, after = contract.lengths
        past = _cached.own(spec.decoder, cache_names.PAST, None, before)
        present = _cached.own(spec.decoder, cache_names.PRESENT, None, after)
        signature = Signature(
            (*contract.step, *past),
            (*_cached.logits(spec.head, spec.decoder, contract.logits), *present),
        )
        return {contract.role: signature}

    def layer_ports(
        self, spec: DecoderSpec, role: str, signature: Signature, outputs: tuple[str, ...]
    ) -> list[Port]:
        """Those of the one stack."""
        return _cached.layer_ports(spec.decoder, None, signature, outputs)

    def limits(self, spec: DecoderSpec) -> dict[str, int | None]:
        """The longest sequence of the stack."""
        return {"decoder": spec.decoder.limit}

    def parameters(self, spec: DecoderSpec) -> Shapes:
        """The stack and the head."""
        head = head_of(spec.head).parameters(spec.head, spec.decoder.hidden_size, spec.vocab_size)
        return under("decoder", stacks.parameters(spec.decoder)) | under("head", head)

    def shared(self, spec: DecoderSpec) -> Mapping[str, str]:
        """None."""
        return {}


DECODER = Decoder()
