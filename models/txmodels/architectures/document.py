"""The words of a page in their boxes under a head (Xu et al. 2020)."""

from collections.abc import Collection

from torch import Tensor, nn

from txexport.contracts import names
from txexport.parts import check_outputs
from txexport.spec import Cache, DocumentSpec, HeadKind
from txmodels.architectures._model import layers_of
from txmodels.document_stack import DocumentEncoder
from txmodels.heads import head
from txmodels.heads.vectors import Pooler


class DocumentModel(nn.Module):
    """One stack and its head; `outputs` of every layer are returned too, as a contract has them."""

    reads_tokens = True

    def __init__(self, spec: DocumentSpec, cache: Cache, outputs: Collection[str] = ()):
        super().__init__()
        check_outputs(spec, outputs)
        self.spec, self.outputs = spec, frozenset(outputs)
        width = spec.encoder.hidden_size
        self.encoder = DocumentEncoder(spec.encoder, names.ATTENTIONS in self.outputs)
        if spec.pooler:
            self.pooler = Pooler(width)
        self.head = head(spec.head, width, spec.vocab_size)

    def encode(self, input_ids: Tensor, attention_mask: Tensor, **page: Tensor) -> dict[str, Tensor]:
        """input_ids and attention_mask (B,S), the stack's other inputs -> the graph's outputs by name."""
        layers = layers_of(self.spec, self.outputs, self.spec.encoder, None)
        x = self.encoder(input_ids, attention_mask, outputs=layers, **page)  # (B, S+P, W)
        labelled = x[:, : input_ids.shape[1]] if self.spec.head.kind == HeadKind.TOKENS else x
        outputs: dict[str, Tensor] = self.head.outputs(labelled, (input_ids, attention_mask), None)
        if self.spec.pooler:
            outputs[names.POOLER_OUTPUT] = self.pooler(x)
        return outputs | layers.values
