"""verify catches what an export can get wrong: graphs changed on purpose, in several families."""

from dataclasses import replace
from functools import lru_cache
from pathlib import Path

import numpy as np
import onnx
import pytest
from helpers.bundle_edits import graph_path
from helpers.mutation_table import MUTATIONS, OTHERS
from helpers.project import ROOT

from txexport import export, families, verify
from txexport.checkpoints.checkpoint import Checkpoint
from txexport.verification.cases.plan import QUICK, PlannedCase, plan, select
from txexport.verification.checks import SkipError
from txexport.verification.process_state import undisturbed
from txexport.verification.verify_arguments import VerifyArguments
from txexport.verification.verify_plan import VerifyPlan, plan_of
from txexport.verification.verify_run import VerifyRun

JUDGES = {"twin", "transformers"}

IDS = [f"{family}-{cache}-{role}-{mutate.__name__}" for family, cache, role, mutate in MUTATIONS]
FIRST = {row[-1]: name for row, name in zip(reversed(MUTATIONS), reversed(IDS), strict=True)}
# Those of a family are a group, with its rows of test_families: the worker makes a bundle and asks its
# originals once. A run of every test has one of each kind; the others are slow.
GROUPED = [
    pytest.param(
        *row,
        id=name,
        marks=[
            pytest.mark.xdist_group(OTHERS[row[0]].model_type if row[0] in OTHERS else row[0]),
            *([] if FIRST[row[-1]] == name else [pytest.mark.slow]),
        ],
    )
    for row, name in zip(MUTATIONS, IDS, strict=True)
]


@pytest.fixture(scope="module")
def copies(checkpoint_of, tmp_path_factory):
    """A function from a family, a kind of cache and a graph to a bundle of our graphs alone, the graph's file
    there, and the true graph."""
    made: dict[tuple, tuple[Path, Path, bytes]] = {}

    def get(family: str, cache: str | None, role: str, **options: str) -> tuple[Path, Path, bytes]:
        key = (family, cache, role, *options.items())
        if key not in made:
            folder = tmp_path_factory.mktemp("copy") / family
            export(checkpoint_of(OTHERS.get(family, family)), folder, cache=cache, only="native", **options)
            file = graph_path(folder, role)
            made[key] = folder, file, file.read_bytes()
        return made[key]

    return get


@pytest.fixture(scope="module")
def plan_of_copy():
    """A function from a bundle's folder to the plan of its quick cases, which no graph changes."""
    return lru_cache(maxsize=1)(lambda folder: plan_of(VerifyArguments(folder, cases="quick")))


@undisturbed
def missed(verification: VerifyPlan) -> list[str]:
    """The references by which no case sees that a changed graph runs, and runs wrongly.

    A case that is not needed any more is skipped. That the graph is not the exported one would be enough, so
    only cases are run: they must catch it by themselves.
    """
    wrong: set[str] = set()

    def until_wrong(case: PlannedCase) -> PlannedCase:
        def run(runner, reference, inputs):
            if reference.name in wrong:
                raise SkipError("it is caught")
            return case.run(runner, reference, inputs)

        return case if case.run is None else replace(case, run=run)

    [variant] = verification.variants
    variant = replace(variant, cases=[until_wrong(case) for case in variant.cases])
    for report in VerifyRun(verification, variant, lambda _: None).reports():
        if not report.ok and report.exception is None:
            wrong.add(report.reference)
    return [name for name in variant.references if name not in wrong]


@pytest.mark.each_family
@pytest.mark.parametrize(("family", "cache", "role", "mutate"), GROUPED)
def test_changed_mathematics_is_caught(family, cache, role, mutate, copies, plan_of_copy):
    folder, file, good = copies(family, cache, role)
    verification = plan_of_copy(folder)
    judges = {"twin"} if verification.resolved.model_type in families.without_library() else JUDGES
    assert verification.present.keys() == judges
    model = onnx.load_model_from_string(good)
    mutate(model)
    assert model.SerializeToString() != good
    try:
        onnx.save(model, file)
        assert missed(verification) == []
    finally:
        file.write_bytes(good)


IN_FLOAT16 = [
    pytest.param(*row, id=name, marks=pytest.mark.xdist_group(f"mutations of {row[0]} in float16"))
    for row, name in zip(MUTATIONS, IDS, strict=True)
    if row[:2] in (("gpt2", "static"), ("llama", "static"))
    and row[-1].__name__
    not in (
        *("larger_epsilon", "other_gelu"),  # smaller than float16's rounding
        *("later_edge", "later_mask", "unmasked_step", "other_groups"),  # changes of nodes of other graphs
    )
]


@pytest.mark.parametrize(("family", "cache", "role", "mutate"), IN_FLOAT16)
def test_changed_mathematics_is_caught_in_float16(family, cache, role, mutate, copies, plan_of_copy):
    """The bound of graphs that compute in float16 is wide, and still narrower than what these change."""
    folder, file, good = copies(family, cache, role, client="cuda", dtype="float16")
    model = onnx.load_model_from_string(good)
    mutate(model)
    try:
        onnx.save(model, file)
        assert missed(plan_of_copy(folder)) == []
    finally:
        file.write_bytes(good)


def test_the_right_graph_is_not_caught(copies, plan_of_copy):
    folder, _, _ = copies("bert", None, "model")
    assert missed(plan_of_copy(folder)) == ["twin", "transformers"]


def test_mutations_are_many(capsys):
    assert len(set(IDS)) == len(IDS)
    kinds = {mutate for *_, mutate in MUTATIONS}
    model_types = {OTHERS[name].model_type if name in OTHERS else name for name, *_ in MUTATIONS}
    with capsys.disabled():
        print(f"\n{len(MUTATIONS)} mutations, {len(kinds)} kinds, {len(model_types)} families")
    assert len(kinds) >= 40
    assert len(MUTATIONS) >= 80
    said = f"{len(MUTATIONS)} deliberately wrong graphs of {len(model_types)} families"
    for page in ("README.md", "docs/guides/ci.md"):
        assert said in " ".join((ROOT / page).read_text().split())


def flat(value) -> list:
    """A case's arrays, lists and numbers, to be compared."""
    if isinstance(value, np.ndarray):
        return [value.shape, value.dtype.name, value.tobytes()]
    if isinstance(value, dict):
        return flat([*value.items()])
    if hasattr(value, "__dict__"):
        return flat([*vars(value).values()])
    return [flat(part) for part in value] if isinstance(value, list | tuple) else [value]


@pytest.mark.parametrize(("family", "cache"), sorted({row[:2] for row in MUTATIONS}, key=str))
def test_full_holds_every_quick_case_as_it_is(family, cache, checkpoint_of):
    """So what the quick cases catch, the full ones do."""
    spec = families.resolve(Checkpoint(checkpoint_of(OTHERS.get(family, family)))).spec
    quick, full = (plan(spec, static=cache == "static") for _ in range(2))
    chosen = select(quick, "quick")
    assert chosen <= select(full, "full")
    assert chosen <= QUICK
    for one, other in zip(quick, full, strict=True):
        assert (one.name, one.run, flat(one.case)) == (other.name, other.run, flat(other.case))


@pytest.mark.parametrize("family", ["bert", "gpt2", pytest.param("bart", marks=pytest.mark.slow)])
def test_full_cases_catch_it_too(family, copies):
    _, cache, role, mutate = next(row for row in MUTATIONS if row[0] == family)
    folder, file, good = copies(family, cache, role)
    model = onnx.load_model_from_string(good)
    mutate(model)
    try:
        onnx.save(model, file)
        report = verify(folder, allow_edited=True)
    finally:
        file.write_bytes(good)
    assert {case.reference for case in report.failed if case.exception is None} == JUDGES
    assert verify(folder).ok
