"""A decoder without an encoder: one graph over a cache of past keys and values."""

from collections.abc import Iterator, Mapping
from dataclasses import replace

from txexport.contracts import cache_names, names, roles
from txexport.contracts.contract import Contract, Port, Signature
from txexport.contracts.stage import STEP, Stage, sources_of
from txexport.errors import SpecError
from txexport.parts import stacks
from txexport.parts.architectures import _cached, _readouts
from txexport.parts.architectures._padded import Case
from txexport.parts.cases import EncoderCase, decoder_cases, generation_cases, one_row, tokens_for_experts
from txexport.parts.heads import head_of
from txexport.parts.inputs import input_of
from txexport.parts.part import Decoding, Readout, Skipped, View
from txexport.spec import DecoderSpec
from txexport.spec.shapes import Shapes, under


class Decoder:
    """A stack that reads new tokens over a cache of past ones, and a causal LM head."""

    spec = DecoderSpec

    def roles(self, spec: DecoderSpec) -> tuple[str, ...]:
        """The one graph."""
        return (roles.MODEL,)

    def signatures(self, spec: DecoderSpec, contract: Contract) -> dict[str, Signature]:
        """Inputs are new tokens and past keys and values, outputs scores and present keys and values."""
        if contract.cache is None:
            raise SpecError("DecoderSpec: a decoder generates, so its graph needs a contract with a cache")
        before, after = contract.lengths
        if contract.hub and spec.several_axes:
            step = tuple(port for port in contract.step if port.name != names.POSITION_IDS)
            contract = replace(contract, step=step)
        past = _cached.own(spec.decoder, cache_names.PAST, None, before)
        present = _cached.own(spec.decoder, cache_names.PRESENT, None, after)
        signature = Signature(
            (*_cached.step(spec.decoder, contract), *_cached.counts(spec.decoder, contract), *past),
            (*_cached.logits(spec.head, spec.decoder, contract.logits), *present),
        )
        return {contract.role: signature}

    def layer_ports(
        self, spec: DecoderSpec, role: str, signature: Signature, outputs: tuple[str, ...]
    ) -> list[Port]:
        """The ports of every layer of the stack."""
        return _cached.layer_ports(spec.decoder, None, signature, outputs)

    def stages(self, spec: DecoderSpec, contract: Contract) -> list[Stage]:
        """One stage, which runs at each step: for the prompt, and then for the tokens after it."""
        facts = replace(input_of(spec.decoder).facts(spec.decoder.embedding), limit="decoder")
        alternative = [roles.MODEL] if contract.role == roles.SHARED else []
        return [
            Stage(role, STEP, sources_of(one.inputs), facts, alternative)
            for role, one in self.signatures(spec, contract).items()
        ]

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

    def decoding(self, spec: DecoderSpec) -> Decoding:
        """The one stack."""
        return Decoding("decoder")

    def readouts(self, spec: DecoderSpec, stack: str) -> tuple[Readout, ...]:
        """The head."""
        return (_readouts.head(spec.head, spec.vocab_size, "decoder.embedding.word.weight"),)

    def vector_output(self, spec: DecoderSpec) -> None:
        """None."""
        return None

    def cases(self, spec: DecoderSpec, view: View) -> Iterator[Case]:
        """Prompts and steps over a growing past, ragged and padded, and generation from them."""
        decoder, vocab_size = spec.decoder, spec.vocab_size
        yield from decoder_cases(
            vocab_size,
            view.longest(decoder),
            ragged=True,
            left=not view.static,
            experts=tokens_for_experts(decoder),
        )
        yield from generation_cases(vocab_size, decoder, None)
        if view.static:
            yield Skipped("left padding", "a static cache pads on the right")
        if view.hub:
            yield from self._beyond_short(spec, view)

    def _beyond_short(self, spec: DecoderSpec, view: View) -> Iterator[Case]:
        """A row in one pass, whose rotary positions have the long factors of LongRoPE as in the original."""
        rotaries = {block.masked.rotary for block in spec.decoder.blocks if block.has_keys}
        lengths = {rotary.short_length for rotary in rotaries if rotary is not None and rotary.short_length}
        for length in lengths:
            name = "a row beyond the short factors"
            if view.affordable(length + 5, spec.decoder):
                yield one_row(name, spec.vocab_size, length + 5)
            else:
                yield Skipped(name, f"one pass over {length + 5:,} tokens takes too long")

    def text_case(self, spec: DecoderSpec, batch: EncoderCase) -> EncoderCase:
        """The batch."""
        return batch


ARCHITECTURE = Decoder()
