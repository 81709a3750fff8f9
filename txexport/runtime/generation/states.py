"""States: what layers keep between steps beside keys and values, in arrays whose size no step changes.

B rows. A state summarises all tokens read so far, so it cannot be cut back to fewer of them.
"""

import math
from collections.abc import Mapping, Sequence

import numpy as np

from txexport.contracts.cache_names import numbers_of_token, past_states, to_present
from txexport.runtime.session import Session, Value


def state_bytes(session: Session) -> int:
    """The bytes of a row's states."""
    return sum(
        math.prod(_shape(session, name)) * session.dtype(name)().nbytes
        for name in past_states(session.inputs)
    )


def column_bytes(session: Session) -> int:
    """The bytes that one token takes in those of a row's states that are the last tokens, over all layers."""
    return sum(
        numbers_of_token(name, _shape(session, name)) * session.dtype(name)().nbytes
        for name in past_states(session.inputs)
    )


def zero_states(session: Session, batch: int) -> dict[str, np.ndarray]:
    """The states (B,...) of rows that have read nothing, by name."""
    return {
        name: np.zeros((batch, *_shape(session, name)), session.dtype(name))
        for name in past_states(session.inputs)
    }


def filled_states(
    session: Session, lengths: Sequence[int], rows: Sequence[Mapping[str, np.ndarray]]
) -> dict[str, np.ndarray]:
    """The states (B,...) of `rows` by name, zero where a row has read nothing."""
    states = zero_states(session, len(lengths))
    for name, array in states.items():
        for place, (length, values) in enumerate(zip(lengths, rows, strict=True)):
            if length:
                array[place] = values[name]
    return states


def _shape(session: Session, name: str) -> list[int]:
    """The shape of a row's state."""
    return [int(size) for size in session.inputs[name].shape[1:]]


class States:
    """The states of a batch in two sets of buffers: a step reads one and writes the other.

    Written in place, a state could be overwritten before all nodes of the graph have read it.
    """

    def __init__(self, session: Session, arrays: dict[str, np.ndarray]):
        self.session = session
        self.hold(arrays)

    def hold(self, arrays: dict[str, np.ndarray]) -> None:
        """Replace the states of all rows."""
        others = {name: np.empty_like(array) for name, array in arrays.items()}  # a step writes all of it
        self.arrays, self.turn = (arrays, others), 0
        self.values: tuple[dict[str, Value], ...] = tuple(
            {name: self.session.value(array) for name, array in one.items()} for one in self.arrays
        )

    @property
    def bindings(self) -> list[tuple[dict[str, Value], dict[str, Value]]]:
        """The buffers that each step in turn reads and writes, by input and output name.

        Without states, one pair of empty dicts.
        """
        ways = [self.values, self.values[::-1]] if self.values[0] else [({}, {})]
        return [
            (before, {to_present(name): value for name, value in after.items()}) for before, after in ways
        ]

    def advance(self) -> None:
        """Read next what the last step wrote."""
        self.turn = 1 - self.turn if self.values[0] else 0

    @property
    def held(self) -> dict[str, np.ndarray]:
        """The states by name; copies, unless they are in the CPU's memory."""
        if self.session.moves is None:
            return self.arrays[self.turn]
        return {name: value.numpy() for name, value in self.values[self.turn].items()}
