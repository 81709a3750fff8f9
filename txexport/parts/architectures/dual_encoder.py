"""Dual encoders: vectors of texts and images, or of texts and sounds, are compared."""

from collections.abc import Iterator, Mapping
from dataclasses import replace

import numpy as np

from txexport.contracts import names, roles
from txexport.contracts.compared import BY_STACK, Compared
from txexport.contracts.contract import Contract, Port, Signature, floats
from txexport.contracts.stage import ONCE, GraphFacts, Stage, sources_of
from txexport.parts import stacks
from txexport.parts.architectures.encoder import check_no_cache
from txexport.parts.cases import MANY, DualEncoderCase, EncoderCase
from txexport.parts.inputs import input_of, naflex
from txexport.parts.part import Readout, View
from txexport.parts.vectors import attention_pool
from txexport.spec import DualEncoderSpec, NaflexSpec, Pick
from txexport.spec.shapes import Shapes, linear, under

TEXTS = names.TEXT_BATCH_SIZE


def compared(spec: DualEncoderSpec) -> Compared:
    """The names of what is compared with texts."""
    return BY_STACK[spec.signal_name]


class DualEncoder:
    """A graph for each encoder and one that compares their vectors; a single graph for other clients."""

    spec = DualEncoderSpec

    def roles(self, spec: DualEncoderSpec) -> tuple[str, ...]:
        """The text encoder, that of images or sounds, and the comparison of their vectors."""
        return roles.TEXT, compared(spec).role, roles.SIMILARITY

    def signatures(self, spec: DualEncoderSpec, contract: Contract) -> dict[str, Signature]:
        """Inputs of each encoder, their vectors, and the similarity of each text with each image or sound."""
        check_no_cache(spec, contract)
        batch, other = names.BATCH_SIZE, compared(spec)
        towers = {
            roles.TEXT: Signature(
                input_of(spec.text).ports(spec.text, stacks.TOKENS),
                (floats(names.TEXT_EMBEDS, batch, spec.size),),
            ),
            other.role: Signature(
                input_of(spec.signal).ports(spec.signal, (batch,)),
                (floats(other.vectors, batch, spec.size),),
            ),
        }
        vectors = (
            floats(names.TEXT_EMBEDS, TEXTS, spec.size),
            floats(other.vectors, other.rows, spec.size),
        )
        per_text = floats(names.LOGITS_PER_TEXT, TEXTS, other.rows)
        per_signal = floats(other.scores, other.rows, TEXTS)
        if not contract.hub:
            return {**towers, roles.SIMILARITY: Signature(vectors, (per_text, per_signal))}
        inputs = (
            *input_of(spec.text).ports(spec.text, (TEXTS, names.SEQUENCE_LENGTH)),
            *input_of(spec.signal).ports(spec.signal, (other.rows,)),
        )
        return {roles.MODEL: Signature(inputs, (per_signal, per_text, *vectors)), **towers}

    def layer_ports(
        self, spec: DualEncoderSpec, role: str, signature: Signature, outputs: tuple[str, ...]
    ) -> list[Port]:
        """The ports of every layer of one encoder, or of both in one graph."""
        ports: list[Port] = []
        other = compared(spec)
        towers = ((roles.TEXT, names.TEXT, TEXTS), (other.role, other.stack, other.rows))
        for tower, name, rows in towers:
            if role in (roles.MODEL, tower):
                batch = rows if role == roles.MODEL else names.BATCH_SIZE
                shape = batch, stacks.hidden_shape(spec.stacks[name], stacks.TOKENS)[1]
                ports += stacks.layer_ports(spec.stacks[name], name, outputs, shape, shape[1])
        return ports

    def stages(self, spec: DualEncoderSpec, contract: Contract) -> list[Stage]:
        """Both encoders and the comparison of their vectors, or one graph of all three."""
        other = compared(spec)
        towers = [roles.TEXT, other.role]
        signal = input_of(spec.signal).facts(spec.signal.embedding)
        text = replace(
            input_of(spec.text).facts(spec.text.embedding),
            limit="text",
            pads_to_limit=spec.pick == Pick.FINAL,
        )
        scores = GraphFacts(sigmoid_scores=spec.sigmoid_scores)
        both = replace(text, sigmoid_scores=spec.sigmoid_scores)
        facts = {roles.TEXT: text, other.role: signal, roles.SIMILARITY: scores, roles.MODEL: both}
        vectors = {
            names.TEXT_EMBEDS: f"{roles.TEXT}.{names.TEXT_EMBEDS}",
            other.vectors: f"{other.role}.{other.vectors}",
        }
        graphs = self.signatures(spec, contract)
        order = [*towers, *(role for role in graphs if role not in towers)]
        return [
            Stage(
                role,
                ONCE,
                sources_of(graphs[role].inputs, vectors),
                facts[role],
                towers if role == roles.MODEL else [],
            )
            for role in order
        ]

    def limits(self, spec: DualEncoderSpec) -> dict[str, int | None]:
        """The longest text."""
        return {"text": spec.text.limit}

    def parameters(self, spec: DualEncoderSpec) -> Shapes:
        """Both encoders with pooler, projections or pool, and the scales and bias of the similarities."""
        other = spec.signal_name
        shapes = under("text", stacks.parameters(spec.text)) | under(other, stacks.parameters(spec.signal))
        if spec.activation is not None:
            wide = spec.text.hidden_size
            shapes |= under("text_pooler", linear(wide, wide, True))
            for name, width in (("text", wide), (other, spec.signal.hidden_size)):
                shapes |= under(f"{name}_projection.up", linear(width, spec.size, True))
                shapes |= under(f"{name}_projection.down", linear(spec.size, spec.size, True))
            return shapes | {"similarity.scale": (1,), "similarity.signal_scale": (1,)}
        shapes |= under("text_projection", linear(spec.text.hidden_size, spec.size, spec.text_bias))
        if spec.vision_pool is None:
            shapes |= under("vision_projection", linear(spec.signal.hidden_size, spec.size, False))
        else:
            shapes |= under("vision_pool", attention_pool(spec.vision_pool))
        shapes["similarity.scale"] = (1,)
        return shapes | ({"similarity.bias": (1,)} if spec.sigmoid_scores else {})

    def shared(self, spec: DualEncoderSpec) -> Mapping[str, str]:
        """None."""
        return {}

    def decoding(self, spec: DualEncoderSpec) -> None:
        """None: nothing is generated."""

    def readouts(self, spec: DualEncoderSpec, stack: str) -> tuple[Readout, ...]:
        """The projection or pool of each encoder, and after the second one the comparison of both."""
        note = f"{spec.size:,} numbers"
        if stack == names.TEXT:
            pooler = () if spec.activation is None else (Readout("text_pooler"),)
            return *pooler, Readout("text_projection", note)
        pooled = Readout("vision_pool", note, pool=spec.vision_pool)
        vector = pooled if spec.vision_pool is not None else Readout(f"{stack}_projection", note)
        return vector, Readout("similarity", "of texts and sounds" if spec.audio else "of texts and images")

    def vector_output(self, spec: DualEncoderSpec) -> None:
        """None."""
        return None

    def cases(self, spec: DualEncoderSpec, view: View) -> Iterator[DualEncoderCase]:
        """Batches of one, three and nine texts with one, two and nine signals; texts are padded on the right.

        Padding has the id that ends a text.
        """
        random = np.random.default_rng(0)
        vocab_size, longest = spec.text.embedding.vocab_size, view.longest(spec.text)
        mark = vocab_size - 1 if spec.eos_token_id is None else spec.eos_token_id
        kind = "sound" if spec.audio else "image"
        for number, (name, lengths, signals) in enumerate(
            [
                (f"one text of one token, one {kind}", [1], 1),
                (f"three ragged texts, two {kind}s", [5, 11, 2], 2),
                (f"longest and short text, one {kind}", [longest, 3], 1),
                (f"nine ragged texts, nine {kind}s", MANY, len(MANY)),
            ]
        ):
            lengths = [min(length, longest) for length in lengths]
            mask = np.arange(max(lengths)) < np.array(lengths)[:, None]
            ids = np.where(mask, random.integers(0, vocab_size - 1, mask.shape), mark)
            ids = np.where(ids == mark, 0, ids) if mark < vocab_size - 1 else ids
            ids[~mask] = mark
            ids[np.arange(len(lengths)), np.array(lengths) - 1] = mark
            rows = np.stack(input_of(spec.signal).rows(spec.signal, random, [number] * signals))
            beside = _beside(spec, signals, random)
            yield DualEncoderCase(name, ids, mask.astype(np.int64), rows, _alone(spec), beside)

    def text_case(self, spec: DualEncoderSpec, batch: EncoderCase) -> DualEncoderCase:
        """The batch of texts with two signals."""
        rows = np.stack(input_of(spec.signal).rows(spec.signal, np.random.default_rng(0), [1, 1]))
        beside = _beside(spec, len(rows), np.random.default_rng(0))
        return DualEncoderCase(batch.name, batch.input_ids, batch.attention_mask, rows, batch.alone, beside)


def _beside(spec: DualEncoderSpec, rows: int, random: np.random.Generator) -> dict[str, np.ndarray]:
    """The inputs beside the signals: mask and shapes of patches of any shape."""
    embedding = spec.signal.embedding
    return naflex.beside(embedding, rows, random) if isinstance(embedding, NaflexSpec) else {}


def _alone(spec: DualEncoderSpec) -> bool:
    """Tell whether a text's vector is the same without padding."""
    return spec.pick != Pick.FINAL


ARCHITECTURE = DualEncoder()
