"""Projections of rows by the experts that the rows are ordered by."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import onnx_ir as ir

from txexport.formats import NumberFormat
from txexport.formats.int8 import Int8InOut, product_of_steps
from txexport.formats.number_format import Values
from txgraphs._component import Body
from txgraphs._nodes import Place
from txgraphs.linear import linear


@dataclass(frozen=True)
class RowsByExpert:
    """R rows in the order of experts: `sizes` (experts) of their shares, and the `expert` (R) of each row."""

    g: Body
    sizes: ir.Value
    expert: ir.Value
    _rounded: dict[tuple[ir.Value, NumberFormat], tuple[Values, list[ir.Value]]] = field(
        default_factory=dict, init=False
    )

    def projected(self, bias: bool, experts: Sequence[Place], x: ir.Value) -> ir.Value:
        """x (R,in) -> y (R,out), each row by its expert's matrix.

        An expert without rows costs one product of no rows. int8 rounds all rows at once.
        """
        op = self.g.op
        matrices = [place.matrix("weight") for place in experts]
        kind = matrices[0].format
        if not isinstance(kind, Int8InOut) or any(one.format != kind for one in matrices):
            each = zip(experts, self._split(x, len(experts)), strict=True)
            ys = [linear(bias, place, piece) for place, piece in each]
            return op.Concat(*ys, axis=0, name="projected")
        if (x, kind) not in self._rounded:
            new = kind.prepare(op, x, signed=False)
            self._rounded[x, kind] = new, self._split(new["steps"], len(experts))
        rows, steps = self._rounded[x, kind]
        pairs = zip(steps, matrices, strict=True)
        counts = [product_of_steps(op, piece, matrix.values, signed=False) for piece, matrix in pairs]
        others = {part: self._of_rows([one.values[part] for one in matrices]) for part in kind.others}
        y: ir.Value = kind.finish(op, op.Concat(*counts, axis=0), rows, others)
        return op.Add(y, self._of_rows([place.weight("bias") for place in experts])) if bias else y

    def _split(self, rows: ir.Value, count: int) -> list[ir.Value]:
        """Each expert's rows."""
        names = [f"rows.{number}" for number in range(count)]
        return [*self.g.op.Split(rows, self.sizes, axis=0, name=names)]

    def _of_rows(self, vectors: Sequence[ir.Value]) -> ir.Value:
        """A vector (out) of each expert -> those of the rows (R,out)."""
        op = self.g.op
        first = op.Constant(value_ints=[0])
        return op.Gather(op.Concat(*(op.Unsqueeze(one, first) for one in vectors), axis=0), self.expert)
