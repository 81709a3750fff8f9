"""Objects in images that the phrases of one text describe (Liu et al. 2023)."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import replace

import numpy as np

from txexport.contracts import names, roles
from txexport.contracts.contract import Contract, Port, Signature, floats, ints
from txexport.contracts.stage import ONCE, GraphFacts, Stage, sources_of
from txexport.errors import SpecError
from txexport.parts import grounded, stacks
from txexport.parts.architectures.encoder import check_no_cache
from txexport.parts.cases import EncoderCase
from txexport.parts.grounded import GroundedCase
from txexport.parts.inputs import input_of
from txexport.parts.part import Readout, View
from txexport.spec import GroundedSpec
from txexport.spec.shapes import Shapes, linear, under

MOST = 9  # rows of the largest batch
TEXT_PROJECTION = "text_projection"


class Grounded:
    """One graph, which reads a text and an image in each row."""

    spec = GroundedSpec

    def roles(self, spec: GroundedSpec) -> tuple[str, ...]:
        """The only one."""
        return (roles.MODEL,)

    def signatures(self, spec: GroundedSpec, contract: Contract) -> dict[str, Signature]:
        """Texts, images and both masks; scores of tokens and boxes. Other clients read the same graph."""
        check_no_cache(spec, contract)
        batch = names.BATCH_SIZE
        inputs = (
            *input_of(spec.vision).ports(spec.vision, (batch,)),
            *input_of(spec.text).ports(spec.text, stacks.TOKENS),
            ints(names.PIXEL_MASK, batch, names.MASK_HEIGHT, names.MASK_WIDTH),
        )
        outputs = (
            floats(names.LOGITS, batch, spec.queries, spec.text_length),
            floats(names.PRED_BOXES, batch, spec.queries, 4),
        )
        return {roles.MODEL: Signature(inputs, outputs)}

    def layer_ports(
        self, spec: GroundedSpec, role: str, signature: Signature, outputs: tuple[str, ...]
    ) -> list[Port]:
        """None: no graph returns its layers."""
        raise SpecError("GroundedSpec: no graph returns the outputs of its layers")

    def stages(self, spec: GroundedSpec, contract: Contract) -> list[Stage]:
        """The only one."""
        [(role, graph)] = self.signatures(spec, contract).items()
        facts: GraphFacts = replace(input_of(spec.text).facts(spec.text.embedding), limit="text")
        return [Stage(role, ONCE, sources_of(graph.inputs), facts)]

    def limits(self, spec: GroundedSpec) -> dict[str, int | None]:
        """The longest text."""
        return {"text": spec.limit}

    def parameters(self, spec: GroundedSpec) -> Shapes:
        """Both encoders, the text's projection, and what stands on both."""
        shapes = under("text", stacks.parameters(spec.text)) | under("vision", stacks.parameters(spec.vision))
        shapes |= under(TEXT_PROJECTION, linear(spec.text.hidden_size, spec.hidden_size, True))
        for name, part in grounded.parameters(spec).items():
            shapes |= under(name, part)
        return shapes

    def shared(self, spec: GroundedSpec) -> Mapping[str, str]:
        """None."""
        return {}

    def decoding(self, spec: GroundedSpec) -> None:
        """None: nothing is generated."""

    def readouts(self, spec: GroundedSpec, stack: str) -> tuple[Readout, ...]:
        """The projection of texts; all that stands on both encoders, for the longest text."""
        if stack == names.TEXT:
            return (Readout(TEXT_PROJECTION, f"{spec.hidden_size:,} numbers", every=True),)
        notes = {
            "maps": f"{spec.levels} levels",
            "layers": f"{spec.cells.num_layers} layers over places and a text of {spec.limit:,} tokens",
            "query_layers": f"{spec.objects.num_layers} layers over {spec.queries:,} queries",
        }
        shapes, readouts = grounded.parameters(spec), []
        for name, work in grounded.operations(spec).items():
            # Each matrix is counted with one vector; the operations are those of all.
            counted = 2 * sum(math.prod(shape) for shape in shapes[name].values() if len(shape) == 2)
            readouts.append(Readout(name, notes.get(name, ""), operations=work - counted))
        return tuple(readouts)

    def vector_output(self, spec: GroundedSpec) -> None:
        """None."""

    def cases(self, spec: GroundedSpec, view: View) -> Iterator[GroundedCase]:
        """Texts of several lengths and numbers of phrases, and images of several sizes, padded both."""
        random, patches = np.random.default_rng(0), spec.vision.embedding
        edge = _edge(spec)
        longest = view.longest(spec.text) if spec.text.limit is None else spec.text.limit
        longest = min(longest, spec.text_length)

        def case(name: str, lengths: list[int], *sizes: tuple[int, int], closed: bool = True) -> GroundedCase:
            lengths = [min(length, longest) for length in lengths]
            mask = np.arange(max(lengths)) < np.array(lengths)[:, None]
            ids = _texts(spec, random, lengths, mask.shape[1], closed)
            height, width = np.max(sizes, axis=0)
            pixels = random.standard_normal((len(sizes), patches.shape[0], height, width), np.float32)
            seen = np.zeros((len(sizes), height, width), np.int64)
            for row, (high, wide) in enumerate(sizes):
                seen[row, :high, :wide] = 1
            pixels *= seen[:, None].astype(np.float32)
            types = random.integers(0, max(1, spec.text.token_types), ids.shape)
            return GroundedCase(name, ids, mask.astype(np.int64), types, pixels, seen)

        yield case("one text and image", [7], (edge, edge + 9))
        sizes = (edge + 21, 3 * edge), (2 * edge - 3, edge), (edge + 7, edge + 11)
        yield case("three texts in three images of several sizes", [9, 15, 6], *sizes)
        yield case("a long text and a short one, wide images", [longest, 4], *[(edge, 3 * edge + 5)] * 2)
        high = case(
            "phrases that do not end, a mask of another size", [8, 11], *[(2 * edge, edge)] * 2, closed=False
        )
        yield replace(high, pixel_mask=np.ones((2, 1, 1), np.int64))
        every = [(edge * (1 + row % 2), edge + 5 * row) for row in range(MOST)]
        yield case("nine of several sizes", [4 + row for row in range(MOST)], *every)

    def text_case(self, spec: GroundedSpec, batch: EncoderCase) -> GroundedCase:
        """The batch of texts, each with an image."""
        random, patches, edge = np.random.default_rng(0), spec.vision.embedding, _edge(spec)
        rows = len(batch.input_ids)
        pixels = random.standard_normal((rows, patches.shape[0], edge, edge), np.float32)
        ones = np.ones((rows, edge, edge), np.int64)
        texts = batch.input_ids, batch.attention_mask, batch.token_type_ids
        return GroundedCase(batch.name, *texts, pixels, ones)


def _edge(spec: GroundedSpec) -> int:
    """An edge in pixels of square images with places for all queries."""
    last, count = len(spec.vision.stages) - 1, 0
    cells: list[int] = []
    while sum(side**2 for side in cells) < spec.queries:
        count += 1
        cells = [
            count << last - n for n, stage in enumerate(spec.vision.stages) if stage.map_norm is not None
        ]
        while len(cells) < spec.levels:
            cells.append((cells[-1] + 1) // 2)
    return (count << last) * spec.vision.embedding.patch_size


def _texts(
    spec: GroundedSpec, random: np.random.Generator, lengths: list[int], width: int, closed: bool
) -> np.ndarray:
    """Random ids (B,width) with separators here and there; a `closed` one begins and ends with some."""
    ids = random.integers(0, spec.text.embedding.vocab_size, (len(lengths), width))
    marks = np.array(spec.separators)
    ids = np.where(random.random(ids.shape) < 0.3, random.choice(marks, ids.shape), ids)
    for row, length in enumerate(lengths):
        if closed:
            ids[row, [0, length - 2, length - 1]] = marks[[0, 2 % len(marks), 1 % len(marks)]]
            ids[row, length:] = 0
        else:
            ids[row, [0, -1]] = next(one for one in range(len(marks) + 1) if one not in spec.separators)
    return ids


ARCHITECTURE = Grounded()
