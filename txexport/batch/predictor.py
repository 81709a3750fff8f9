"""A method of a bundle's Model for columns of rows, as Ray Data and Spark call it in their workers."""

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from txexport.batch import columns
from txexport.batch.answering import answered
from txexport.batch.cores import share_of_cores
from txexport.errors import InputError, needed_for, shown
from txexport.tasks import METHODS

if TYPE_CHECKING:
    from txexport.runtime import Model

OPEN = 4  # bundles that a worker holds at once


class Predictor:
    """What a method of Model answers for each row: `embed`, `tag`, `generate` and so on.

    Calling it with columns by name gives them back, and one more. The bundle, a folder that every worker
    reads, is loaded with the first rows, once a process; what is pickled are the arguments alone.

    `inputs` are the columns that the method reads, by default those of its arguments' names, as
    `txexport.tasks.METHODS` lists them: "text", or "question" and "context"; two texts are a pair where it
    reads pairs. `output` is the column of answers. With `on_error` "null" a row that cannot be answered has
    null, and the column {output}_error says why; "stop" raises InputError, which names the row. `device`,
    `dtype`, `engine` and `precision` are as of `load`; so is `threads`, by default the worker's share of
    cores. `options` are the method's: one that is an argument of rows, as `context`, is the same for all of
    them. What sampling with a seed draws depends on a row's place in its batch.

    Raises InputError for another method, and for columns that are too many or too few.
    """

    def __init__(
        self,
        bundle: str | Path,
        method: str,
        *,
        inputs: str | Sequence[str] | None = None,
        output: str | None = None,
        on_error: str = "stop",
        device: str | None = None,
        threads: int | None = None,
        dtype: str | None = None,
        engine: str | None = None,
        precision: str | None = None,
        **options: Any,
    ):
        if method not in METHODS:
            raise InputError(f"method is {shown(method)}, expected one of {', '.join(METHODS)}")
        if on_error not in ("stop", "null"):
            raise InputError(f"on_error is {shown(on_error)}, expected stop or null")
        self.bundle, self.method = Path(bundle).absolute(), method
        how = {"device": device, "dtype": dtype, "engine": engine, "precision": precision}
        self.threads, self.how = threads, {name: value for name, value in how.items() if value is not None}
        self.on_error, self.options = on_error, options
        own = METHODS[method]
        self.read = [name for name in own.inputs if name not in options]
        self.inputs = self.read if inputs is None else [inputs] if isinstance(inputs, str) else list(inputs)
        self.output = own.answer if output is None else output
        if not self.read:
            raise InputError(f"{method} has no column to read; give {own.inputs[0]} as one, not as an option")
        if len(self.inputs) != len(self.read) and not (own.pairs and len(self.inputs) == 2):
            expected = f"{len(self.read)} ({', '.join(self.read)})" + (
                ", or 2 for pairs" if own.pairs else ""
            )
            raise InputError(f"inputs are {shown(self.inputs)}, expected {expected} for {method}")

    def __call__(self, batch: Any) -> Any:
        """The batch, arrays of NumPy by name or a table of Arrow, with the column of answers.

        Raises InputError for a column that is not there, and for a row that cannot be answered.
        """
        by_name = isinstance(batch, Mapping)
        names = list(batch) if by_name else batch.column_names
        missing = [name for name in self.inputs if name not in names]
        if missing:
            known = ", ".join(names)
            raise InputError(
                f"no column is {shown(missing[0])} among {known}; say with inputs= which to read"
            )
        added = self._added([columns.values(batch[name]) for name in self.inputs])
        if by_name:
            return {**batch, **{name: columns.to_numpy(*column) for name, column in added.items()}}
        for name, column in added.items():
            array = columns.to_arrow(*column)
            batch = batch.drop_columns(name) if name in batch.column_names else batch
            batch = batch.append_column(name, array)
        return batch

    def _added(self, lists: Sequence[list]) -> dict[str, tuple[list, str]]:
        """The columns to add, each with its type, for those that the method reads."""
        kind = METHODS[self.method].sql_type
        rows = list(zip(*lists, strict=True))
        self._ask([], 0)  # what is wrong with options is no row's fault
        answers = list(answered(self._ask, rows))
        if self.on_error == "stop":
            for number, (row, answer) in enumerate(zip(rows, answers, strict=True), 1):
                if isinstance(answer, Exception):
                    where = f"row {number} of {len(rows):,} in its batch, {shown(row[0])}"
                    raise InputError(f"{where}: {answer}; on_error='null' leaves such rows unanswered")
        added = {self.output: (columns.fitted(answers, kind, self.method), kind)}
        if self.on_error == "null":
            errors = [str(answer) if isinstance(answer, Exception) else None for answer in answers]
            added[f"{self.output}_error"] = (errors, "string")
        return added

    def _ask(self, rows: Sequence[tuple], first: int) -> Sequence:
        """The method's answers to rows, the first of which is `first` in its batch."""
        own, options = METHODS[self.method], dict(self.options)
        pairs = len(self.inputs) > len(self.read)
        by_name = {
            name: list(rows) if pairs else [row[place] for row in rows]
            for place, name in enumerate(self.read)
        }
        lists = [by_name[name] if name in by_name else [options.pop(name)] * len(rows) for name in own.inputs]
        placed = {"first_place": first} if own.first_place else {}
        return getattr(self._model(), self.method)(*lists, **options, **placed)

    def _model(self) -> "Model":
        threads = share_of_cores() if self.threads is None else self.threads
        return _loaded(self.bundle, threads=threads, **self.how)

    @classmethod
    def for_spark(cls, bundle: str | Path, method: str, **options: Any) -> Callable:
        """A function of Spark's columns, those that the method reads, which gives the column of answers.

        Arguments as of Predictor, but for names of columns, which Spark's callers give; with `on_error`
        "null" the column is a struct of the answer and the error.
        """
        with needed_for("for_spark"):
            import pyarrow
            from pyspark.sql.functions import arrow_udf
        predictor, kind = cls(bundle, method, **options), METHODS[method].sql_type

        def ask(batches: Iterator[tuple[pyarrow.Array, ...]]) -> Iterator[pyarrow.Array]:
            for batch in batches:
                arrays = (
                    [batch] if isinstance(batch, pyarrow.Array) else list(batch)
                )  # one column stands alone
                table = predictor(pyarrow.table(arrays, predictor.inputs))
                added = [table[name].combine_chunks() for name in fields]
                yield added[0] if len(fields) == 1 else pyarrow.StructArray.from_arrays(added, list(fields))

        fields = {predictor.output: kind}
        if predictor.on_error == "null":
            fields[f"{predictor.output}_error"] = "string"
        struct = ",".join(f"{name}:{one}" for name, one in fields.items())
        return arrow_udf(ask, kind if len(fields) == 1 else f"struct<{struct}>")


@functools.lru_cache(maxsize=OPEN)
def _loaded(bundle: Path, **how: Any) -> "Model":
    """The Model, which later batches and other Predictors of this process use too."""
    from txexport.runtime import load

    return load(bundle, **how)
