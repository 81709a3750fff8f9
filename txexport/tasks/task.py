"""The records of a task and of a method of Model."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from txexport.contracts import DYNAMIC, ONE_PASS, STATIC, Contract
from txexport.spec import Architecture, HeadKind

CACHED = (STATIC, DYNAMIC)
TIMED = "array<struct<start:double,end:double,text:string>>"
TRANSCRIPT = f"struct<text:string,segments:{TIMED},words:{TIMED},language:string>"
VECTORS = "array<array<float>>"  # of tokens or words
VECTOR, LABELS = "array<float>", "array<struct<label:string,score:double>>"


class GlobalTokens(StrEnum):
    """The tokens that attend to all others and that all attend to (Beltagy et al. 2020, 3.1)."""

    NONE = "none"
    FIRST = "first"
    QUESTION = "question"  # those before a pair's separator
    CHOICE = "choice"  # those after it


@dataclass(frozen=True)
class Task:
    """A row: a task by the name that model hubs use, for models of certain architectures.

    A name may have several rows, each for other `architectures`. `head` is the model's head, or one of the
    `other_heads`. `auto_class` is the class of transformers that loads the original, `auto_classes` has
    exceptions by model type. `methods` are the methods of Model that serve the task, the main one first;
    `related` ones are documented beside them. `contracts` are those that an export may choose from, the first
    one by default. `global_tokens` are the tokens with global attention, in models that have it.
    """

    name: str
    architectures: tuple[Architecture, ...]
    head: HeadKind
    auto_class: str
    methods: tuple[str, ...]
    contracts: tuple[Contract, ...] = (ONE_PASS,)
    auto_classes: Mapping[str, str] = field(default_factory=dict)
    global_tokens: GlobalTokens = GlobalTokens.NONE
    related: tuple[str, ...] = ()
    other_heads: tuple[HeadKind, ...] = ()

    @property
    def command(self) -> str:
        """The main command of the command line."""
        return command_of(self.methods[0])

    @property
    def caches(self) -> bool:
        """Tell whether the graphs generate tokens with a cache of keys and values."""
        return all(contract.cache is not None for contract in self.contracts)

    def judge(self, model_type: str) -> str:
        """The class of transformers that loads the original of a model type."""
        return self.auto_classes.get(model_type, self.auto_class)


@dataclass(frozen=True)
class Method:
    """A method of Model as batches, the command line and the server call it.

    `inputs` are the arguments with one value for each input; the method takes a list of each. `answer` is the
    name of an answer's column and `sql_type` its type in SQL, or with the option `timestamps` `timed_type`.
    With `pairs`, an input may be a pair of texts. With `first_place`, the method takes the position of the
    first input, on which sampling depends. A method with an `endpoint` has that path on the server, the
    others have /v1/tasks/NAME. With `crossed`, each text of one argument is read with each of another.
    """

    name: str
    inputs: tuple[str, ...]
    answer: str
    sql_type: str
    pairs: bool = False
    first_place: bool = False
    endpoint: str | None = None
    crossed: bool = False
    timed_type: str | None = None

    @property
    def command(self) -> str:
        """The command of the command line."""
        return command_of(self.name)


def command_of(method: str) -> str:
    """The command that runs a method."""
    return method.replace("_", "-")
