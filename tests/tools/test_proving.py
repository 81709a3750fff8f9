"""Exhaustive runs, mutants and changed settings: families whole, what must fail, and the recorded pages."""

from itertools import pairwise
from pathlib import Path
from typing import Literal

import numpy as np
import onnx
import pytest
import tiny_checkpoint
from helpers.project import ROOT
from onnx import helper, numpy_helper
from proving import configs, exhaustive, mutants, pages
from proving.changes import Value, changes
from proving.config_fates import KNOWN
from proving.config_values import changed, others
from proving.enumerated import batches, mask_batches, masks, splits, steps_of

from txexport import bundle, verify
from txexport.contracts.names import ATTENTION_MASK, CACHE_LENGTHS, INPUT_IDS
from txexport.families import bert

# These read no text or batch alone.
SKIPPED = {"sam", "sam2", "sam2_video", "owlvit", "owlv2", "clipseg", "grounding-dino"}


def test_everything_is_enumerated():
    assert len(masks(6)) == len(set(masks(6))) == 63
    assert len(splits(8)) == len(set(splits(8))) == 128
    assert all(sum(one) == 8 for one in splits(8))
    assert len(batches([1, 2, 3], 3)) == 3 + 6 + 10
    assert sum(len(mask) == 1 for _, mask in mask_batches()) == 1 + sum(2**n - 1 for n in range(1, 7))
    assert steps_of([(3, 5), (8,)]).tolist() == [[3, 8], [5, 0]]


@pytest.mark.parametrize("kind", ["bert", "gpt2"])
def test_every_case_of_two_families_is_right(kind):
    outcome = exhaustive.tried(kind)
    assert outcome["failed"] == []
    recorded = pages.record("exhaustive")["families"][kind]
    assert outcome["graphs"] == recorded["graphs"]
    assert outcome["numbers"] == recorded["numbers"]


@pytest.mark.slow
@pytest.mark.parametrize("kind", tiny_checkpoint.FAMILIES)
def test_every_case_of_each_family_is_right(kind):
    outcome = exhaustive.tried(kind)
    assert outcome["failed"] == []
    assert any(number for kinds in outcome["graphs"].values() for number in kinds.values()) != (
        kind in SKIPPED
    )


def edited(folder: Path, name: str, nodes: list[onnx.NodeProto]) -> None:
    """Let the graph of our runtime read NAME.changed, which the nodes compute, in place of an input."""
    file = folder / bundle.read(folder).native["model"].file
    model = onnx.load(file, load_external_data=False)
    for node in model.graph.node:
        node.input[:] = [f"{name}.changed" if one == name else one for one in node.input]
    for place, node in enumerate(nodes):
        model.graph.node.insert(place, node)
    file.write_bytes(model.SerializeToString())


def number(value: object, name: str) -> onnx.NodeProto:
    """A constant."""
    return helper.make_node("Constant", [], [name], value=numpy_helper.from_array(np.array(value, np.int64)))


def ignore_one_mask(folder: Path) -> None:
    """Ignore the mask of a row whose real tokens are the first, the third and the sixth."""
    nodes = [
        helper.make_node("Shape", [ATTENTION_MASK], ["m.shape"]),
        *[number(value, f"m.{value}") for value in (0, 1, 2, 37)],
        helper.make_node("Gather", ["m.shape", "m.1"], ["m.length"]),
        helper.make_node("Range", ["m.0", "m.length", "m.1"], ["m.places"]),
        helper.make_node("Pow", ["m.2", "m.places"], ["m.powers"]),
        helper.make_node("Mul", [ATTENTION_MASK, "m.powers"], ["m.bits"]),
        number([1], "m.axes"),
        helper.make_node("ReduceSum", ["m.bits", "m.axes"], ["m.code"], keepdims=1),
        helper.make_node("Equal", ["m.code", "m.37"], ["m.this"]),
        helper.make_node("Where", ["m.this", "m.1", ATTENTION_MASK], [f"{ATTENTION_MASK}.changed"]),
    ]
    edited(folder, ATTENTION_MASK, nodes)


def five_after_three(folder: Path) -> None:
    """Write five tokens that follow three one slot too late."""
    if bundle.read(folder).cache != "static":
        return
    nodes = [
        helper.make_node("Shape", [INPUT_IDS], ["m.shape"]),
        *[number(value, f"m.{value}") for value in (1, 3, 5)],
        helper.make_node("Gather", ["m.shape", "m.1"], ["m.length"]),
        helper.make_node("Equal", ["m.length", "m.5"], ["m.five"]),
        helper.make_node("Equal", [CACHE_LENGTHS, "m.3"], ["m.three"]),
        helper.make_node("And", ["m.five", "m.three"], ["m.this"]),
        helper.make_node("Cast", ["m.this"], ["m.late"], to=onnx.TensorProto.INT64),
        helper.make_node("Add", [CACHE_LENGTHS, "m.late"], [f"{CACHE_LENGTHS}.changed"]),
    ]
    edited(folder, CACHE_LENGTHS, nodes)


@pytest.mark.parametrize(
    ("kind", "change", "wrong"),
    [("bert", ignore_one_mask, {"masks": 2}), ("gpt2", five_after_three, {"rewinds": 15})],
)
def test_a_mistake_at_one_mask_or_split_is_seen(kind, change, wrong, bundle_of):
    outcome = exhaustive.tried(kind, change)
    [(graphs, counts)] = outcome["wrong"].items()
    assert graphs.startswith("native")
    assert counts.items() >= wrong.items(), counts


def test_a_graph_without_its_mistake_is_verified(bundle_of):
    assert verify(bundle_of("bert"), cases="quick").ok


def test_changes_are_of_every_kind():
    two = numpy_helper.from_array(np.array([2.0], np.float32))
    nodes = [
        helper.make_node("Constant", [], ["two"], value=two),
        helper.make_node("Sub", ["x", "two"], ["y"]),
        helper.make_node("Softmax", ["y"], ["z"], axis=-1),
    ]
    values = {name: Value("float32", (2, 3)) for name in "xyz"}
    every = [*changes(helper.make_model(helper.make_graph(nodes, "g", [], [])), values)]
    assert [(one.kind, one.text) for one in every] == [
        ("number moved", "value [2.03125]"),
        ("node dropped", "x passed on"),
        ("operator exchanged", "Add instead"),
        ("operator exchanged", "Mul instead"),
        ("inputs swapped", "inputs swapped"),
        ("node dropped", "y passed on"),
        ("operator exchanged", "over another axis"),
        ("number moved", "axis 0"),
        ("number moved", "axis -2"),
    ]
    assert all(one.model != other.model for one, other in pairwise(every))


@pytest.mark.parametrize("kind", ["bert", pytest.param("llama", marks=pytest.mark.slow)])
def test_every_survivor_has_a_reason(kind):
    outcome = mutants.tried(kind)
    recorded = pages.record("mutants")["families"][kind]
    assert outcome["counts"] == recorded["counts"]
    assert all(one["reason"] for one in outcome["survivors"])


def test_other_values_of_a_setting():
    assert others(True, None) == [False]
    assert others(8, None) == [9, 4]
    assert others(1e-12, None) == [0.01]
    assert others("gelu", None) == ["relu", "gelux"]
    assert others("mean", Literal["mean", "cls"]) == ["cls", "meanx"]
    assert others(None, int | None) == [3]
    assert others(["a", "b"], None) == [["a"], ["ax", "b"], ["b", "a"]]
    values = {"size": 1, "inner": {"size": 2, "other": 3}}
    assert changed(values, ("inner", "size"), 5) == {"size": 1, "inner": {"size": 5, "other": 3}}


@pytest.mark.parametrize("kind", ["bert", pytest.param("t5", marks=pytest.mark.slow)])
def test_every_setting_of_a_family_is_read_as_transformers_reads_it(kind):
    outcome = configs.tried(kind)
    recorded = pages.record("configs")["families"][kind]
    assert outcome["failed"] == []
    assert (outcome["keys"], outcome["values"]) == (recorded["keys"], recorded["values"])


def test_a_setting_that_is_not_read_or_read_otherwise_is_wrong(monkeypatch):
    def unread(config, task, names, spec=bert.spec):
        return spec(config.replaced(hidden_act="gelu"), task, names)

    def halved(config, task, names, spec=bert.spec):
        epsilon = config.number("layer_norm_eps")
        return spec(config.replaced(layer_norm_eps=epsilon / 2 if epsilon > 1e-3 else epsilon), task, names)

    monkeypatch.setattr(bert, "spec", unread)
    assert configs.tried("bert")["failed"][0].startswith('hidden_act = "relu": ')
    monkeypatch.setattr(bert, "spec", halved)
    assert configs.tried("bert")["failed"][0].startswith("layer_norm_eps = 0.01: ")


@pytest.mark.parametrize(
    ("name", "page"),
    [("exhaustive", pages.exhaustive), ("mutants", pages.mutants), ("configs", pages.configs)],
)
def test_the_pages_are_those_of_the_records(name, page):
    assert (ROOT / f"docs/reference/{name}.md").read_text() == page(pages.record(name))


def test_every_family_was_tried():
    recorded = pages.record("exhaustive")["families"]
    assert recorded.keys() == tiny_checkpoint.FAMILIES.keys()
    assert [name for name, one in recorded.items() if one.get("failed") or one.get("error")] == []


def test_every_setting_of_every_family_was_tried():
    recorded = pages.record("configs")["families"]
    assert recorded.keys() == tiny_checkpoint.FAMILIES.keys()
    failed = [(name, one.partition(" = ")[0]) for name in recorded for one in recorded[name]["failed"]]
    assert failed == [*KNOWN]
