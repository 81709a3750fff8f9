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

OPEN = 4  # bundles that a worker keeps open


class Predictor:
    """A method of Model over columns of rows: `embed`, `tag`, `generate` and so on.

    Calling it with columns by name returns them with one more. The bundle, a folder that every worker can
    read, is loaded with the first rows, once a process; only the arguments are pickled.

    `inputs` are the columns that the method reads, by default those with the names of its arguments, as
    `txexport.tasks.METHODS` lists them: "text", or "question" and "context"; two columns of text are pairs
    where the method reads pairs. `output` is the column of answers. With `on_error` "null", the answer of a
    row that fails is null, and the column {output}_error has the message; "stop" raises InputError, which
    names the row. `device`, `dtype`, `engine` and `precision` are as in `load`; so is `threads`, by default
    the worker's share of cores. `options` are the method's; an argument of rows among them, such as
    `context`, is the same for all rows. Samples with a seed depend on a row's index in its batch.

    Raises InputError for another method, and for too many or too few columns.
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
        record = METHODS[method]
        self.read = [name for name in record.inputs if name not in options]
        self.inputs = self.read if inputs is None else [inputs] if isinstance(inputs, str) else list(inputs)
        self.output = record.answer if output is None else output
        if not self.read:
            raise InputError(
                f"{method} has no column to read; give {record.inputs[0]} as one, not as an option"
            )
        if len(self.inputs) != len(self.read) and not (record.pairs and len(self.inputs) == 2):
            expected = f"{len(self.read)} ({', '.join(self.read)})" + (
                ", or 2 for pairs" if record.pairs else ""
            )
            raise InputError(f"inputs are {shown(self.inputs)}, expected {expected} for {method}")

    @property
    def sql_type(self) -> str:
        """The type of an answer in SQL."""
        record = METHODS[self.method]
        timed = record.timed_type if self.options.get("timestamps") is not None else None
        return timed or record.sql_type

    def __call__(self, batch: Any) -> Any:
        """The batch (NumPy arrays by name, or an Arrow table) with the column of answers.

        Raises InputError for a missing column, and for a row that cannot be answered.
        """
        by_name = isinstance(batch, Mapping)
        names = list(batch) if by_name else batch.column_names
        missing = [name for name in self.inputs if name not in names]
        if missing:
            known = ", ".join(names)
            raise InputError(
                f"no column is {shown(missing[0])} among {known}; choose with inputs= which to read"
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
        """The columns to add, each with its type, for the columns that the method reads."""
        kind = self.sql_type
        rows = list(zip(*lists, strict=True))
        self._ask([], 0)  # raises errors of the options, which are not a row's
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
        """The method's answers to rows; `first` is the index of the first one in its batch."""
        record, options = METHODS[self.method], dict(self.options)
        pairs = len(self.inputs) > len(self.read)
        by_name = {
            name: list(rows) if pairs else [row[place] for row in rows]
            for place, name in enumerate(self.read)
        }
        lists = [
            by_name[name] if name in by_name else [options.pop(name)] * len(rows) for name in record.inputs
        ]
        placed = {"first_place": first} if record.first_place else {}
        answers = getattr(self._model(), self.method)(*lists, **options, **placed)
        return [columns.plain(answer) for answer in answers]

    def _model(self) -> "Model":
        threads = share_of_cores() if self.threads is None else self.threads
        return _loaded(self.bundle, threads=threads, **self.how)

    @classmethod
    def for_spark(cls, bundle: str | Path, method: str, **options: Any) -> Callable:
        """A function of the Spark columns that the method reads, which returns the column of answers.

        Arguments are those of Predictor, except the names of columns, which Spark's callers give; with
        `on_error` "null" the column is a struct of the answer and the error.
        """
        with needed_for("for_spark"):
            import pyarrow
            from pyspark.sql.functions import arrow_udf
        predictor = cls(bundle, method, **options)
        kind = predictor.sql_type

        def ask(batches: Iterator[tuple[pyarrow.Array, ...]]) -> Iterator[pyarrow.Array]:
            for batch in batches:
                arrays = (
                    [batch] if isinstance(batch, pyarrow.Array) else list(batch)
                )  # a single column is not in a tuple
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
    """The Model, shared by later batches and other Predictors of the process."""
    from txexport.runtime import load

    return load(bundle, **how)
