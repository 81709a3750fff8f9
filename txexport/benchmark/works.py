"""The workloads of a benchmark: the given texts, one alone and all together, and inputs of fixed lengths."""

from txexport import bundle
from txexport.dtype_comparison.accuracy import ANSWERS, CHOICES, SEARCH, check_task, prompts
from txexport.dtype_comparison.speed import Work, seconds_of, works_of
from txexport.runtime import Model
from txexport.runtime.preprocessing.text import Item


def text_workloads(model: Model, items: list[Item], new_tokens: int) -> dict[str, tuple[str, Work]]:
    """As `works_of`; for a model of texts, first the answer to the first text, and the answers to all."""
    method = check_task(model.manifest, items)
    workloads: dict[str, tuple[str, Work]] = {}
    if bundle.reads_tokens(model.manifest.graphs):
        least = CHOICES if method == "choose" else 1
        first = "one text" if least == 1 else f"{least} texts"
        workloads[first] = (f"{method}: the first alone", _work(method, items[:least], new_tokens))
        workloads["all texts"] = (f"{method}: all {len(items)}", _work(method, items, new_tokens))
    return workloads | works_of(model, items)


def _work(method: str, items: list[Item], new_tokens: int) -> Work:
    """The seconds a model takes for the items; every answer of a generator has the maximum length."""
    if method != "generate":
        ask, _ = ANSWERS[method]
        return lambda model: seconds_of(lambda: ask(model, items))

    def generate(model: Model) -> float:
        rows, most = prompts(model, items, new_tokens)
        return seconds_of(lambda: model.generate_ids(rows, max_new_tokens=most, eos_token_id=None, **SEARCH))

    return generate
