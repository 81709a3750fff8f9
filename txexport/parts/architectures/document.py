"""The words of a page in their boxes under a head: one graph (Xu et al. 2020)."""

from collections.abc import Iterator, Mapping
from dataclasses import replace

from txexport.contracts import names, roles
from txexport.contracts.contract import Contract, Port, Signature, floats
from txexport.contracts.stage import ONCE, Stage, sources_of
from txexport.parts import stacks
from txexport.parts.architectures import _readouts
from txexport.parts.architectures.encoder import check_no_cache
from txexport.parts.cases import EncoderCase
from txexport.parts.documents import DocumentCase, document_cases, document_of
from txexport.parts.heads import head_of
from txexport.parts.inputs import input_of
from txexport.parts.part import Readout, View
from txexport.spec import DocumentSpec, HeadKind
from txexport.spec.shapes import Shapes, linear, under


class Document:
    """One stack and its head."""

    spec = DocumentSpec

    def roles(self, spec: DocumentSpec) -> tuple[str, ...]:
        """The one graph."""
        return (roles.MODEL,)

    def signatures(self, spec: DocumentSpec, contract: Contract) -> dict[str, Signature]:
        """Token ids, boxes and maybe an image; outputs of the head. Labels of tokens are of words alone."""
        check_no_cache(spec, contract)
        tokens, width = stacks.TOKENS, spec.encoder.hidden_size
        rows = tokens if spec.head.kind == HeadKind.TOKENS else stacks.hidden_shape(spec.encoder, tokens)
        outputs = head_of(spec.head).ports(spec.head, (*rows, width), spec.vocab_size)
        if spec.pooler:
            outputs = *outputs, floats(names.POOLER_OUTPUT, rows[0], width)
        return {roles.MODEL: Signature(input_of(spec.encoder).ports(spec.encoder, tokens), outputs)}

    def layer_ports(
        self, spec: DocumentSpec, role: str, signature: Signature, outputs: tuple[str, ...]
    ) -> list[Port]:
        """The ports of every layer of the stack."""
        shape = stacks.hidden_shape(spec.encoder, stacks.TOKENS)
        return stacks.layer_ports(spec.encoder, None, outputs, shape, shape[1])

    def stages(self, spec: DocumentSpec, contract: Contract) -> list[Stage]:
        """One graph, which runs once."""
        facts = replace(stacks.facts(spec.encoder), limit="encoder")
        return [
            Stage(role, ONCE, sources_of(one.inputs), facts)
            for role, one in self.signatures(spec, contract).items()
        ]

    def limits(self, spec: DocumentSpec) -> dict[str, int | None]:
        """The most tokens of a page."""
        return {"encoder": spec.encoder.limit}

    def parameters(self, spec: DocumentSpec) -> Shapes:
        """The stack, the pooler, and the head."""
        width = spec.encoder.hidden_size
        shapes = under("encoder", stacks.parameters(spec.encoder))
        if spec.pooler:
            shapes |= under("pooler.dense", linear(width, width, True))
        return shapes | under("head", head_of(spec.head).parameters(spec.head, width, spec.vocab_size))

    def shared(self, spec: DocumentSpec) -> Mapping[str, str]:
        """None."""
        return {}

    def decoding(self, spec: DocumentSpec) -> None:
        """None: nothing is generated."""

    def readouts(self, spec: DocumentSpec, stack: str) -> tuple[Readout, ...]:
        """The pooler and the head."""
        head = _readouts.head(spec.head, spec.vocab_size, "encoder.embedding.word.weight")
        return (*[Readout("pooler")] * spec.pooler, head)

    def vector_output(self, spec: DocumentSpec) -> str | None:
        """The pooler's."""
        return names.POOLER_OUTPUT if spec.pooler else None

    def cases(self, spec: DocumentSpec, view: View) -> Iterator[DocumentCase]:
        """Padded batches of pages."""
        return document_cases(spec, view)

    def text_case(self, spec: DocumentSpec, batch: EncoderCase) -> DocumentCase:
        """The batch of texts, with random boxes and images."""
        return document_of(spec, batch)


ARCHITECTURE = Document()
