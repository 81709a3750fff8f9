"""Traced decoders: they generate as transformers, in our runtime, and wrong ones are found."""

import contextlib
import json
from dataclasses import replace

import numpy as np
import onnx
import onnx_ir as ir
import openai
import pytest
import torch
import transformers
from click.testing import CliRunner
from helpers import traced_checkpoints
from helpers.serving import running
from helpers.traced_checkpoints import contradiction, copy_of
from onnx import helper, numpy_helper

import txexport
from txexport import bundle
from txexport.cli.main import main
from txexport.contracts import cache_names
from txexport.errors import BundleError, UnsupportedError
from txexport.verification.checks import IDENTITY, SkipError
from txexport.verification.traced import decoders, originals, steps

pytestmark = pytest.mark.xdist_group("traced")
PROMPTS = [[5, 6, 7, 8, 9, 10], [11], [12, 13, 14]]


@pytest.fixture(scope="session")
def decoder(tmp_path_factory):
    """A decoder's checkpoint, and its traced bundle."""
    folder = tmp_path_factory.mktemp("traced")
    source = traced_checkpoints.persimmon(folder / "model")
    manifest = txexport.export_traced(source, folder / "out")
    assert manifest.traced == "PersimmonForCausalLM"
    return source, folder / "out"


@pytest.mark.parametrize("options", [{}, {"num_beams": 3}, {"repetition_penalty": 1.3}])
def test_generates_as_transformers(decoder, options):
    """A ragged batch, with a cache that joins and leaves as in any bundle."""
    source, out = decoder
    original = transformers.AutoModelForCausalLM.from_pretrained(source)
    model = txexport.load(out, device="cpu")
    answers = model.generate_ids(PROMPTS, max_new_tokens=9, **options)
    for row, answer in zip(PROMPTS, answers, strict=True):
        ids = torch.tensor([row])
        expected = original.generate(
            ids, attention_mask=torch.ones_like(ids), max_new_tokens=9, do_sample=False, **options
        )
        assert answer == expected[0, len(row) :].tolist()


def test_a_server_answers_as_transformers(decoder):
    source, out = decoder
    tokenizer = transformers.AutoTokenizer.from_pretrained(source)
    original = transformers.AutoModelForCausalLM.from_pretrained(source)
    encoded = tokenizer("the cat sat", return_tensors="pt", return_token_type_ids=False)
    ids = original.generate(**encoded, max_new_tokens=8, do_sample=False)[0, encoded.input_ids.shape[1] :]
    with running({"model": out}) as (address, _):
        client = openai.OpenAI(base_url=f"{address}/v1", api_key="any", max_retries=0)
        answer = client.completions.create(model="model", prompt="the cat sat", max_tokens=8, temperature=0)
    assert answer.choices[0].text == tokenizer.decode(ids, skip_special_tokens=True)


def test_is_verified(decoder):
    _, out = decoder
    report = txexport.verify(out)
    assert report.verdict == "equal"
    names = {case.name for case in report.cases}
    assert set(steps.QUICK) | {"nine rows", "64 tokens", "tokens of three beams"} < names
    assert {check.output for case in report.cases for check in case.checks} > {"logits", "present.1.value"}
    assert bundle.read_manifest(out).proof.verdict == "equal"
    quick = {case.name for case in txexport.verify(out, cases="quick").cases}
    assert quick == {*steps.QUICK, IDENTITY, "manifest and copied files"}


def ignore_mask(model):
    """Attend to padding, too."""
    nodes = [helper.make_node("Greater", ["attention_mask", "below"], ["all"])]
    nodes.append(helper.make_node("Cast", ["all"], ["ones"], to=onnx.TensorProto.INT64))
    for node in model.graph.node:
        node.input[:] = ["ones" if name == "attention_mask" else name for name in node.input]
    for place, node in enumerate(nodes):
        model.graph.node.insert(place, node)
    model.graph.initializer.append(numpy_helper.from_array(np.array(-1), "below"))


def drop_a_layer_of_keys(model):
    """Give the first layer's keys of the second one."""
    for node in model.graph.node:
        node.output[:] = ["lost" if name == "present.0.key" else name for name in node.output]
        node.input[:] = ["lost" if name == "present.0.key" else name for name in node.input]
    model.graph.node.append(helper.make_node("Identity", ["present.1.key"], ["present.0.key"]))


@pytest.mark.parametrize(
    ("edit", "right"),
    [
        pytest.param(ignore_mask, {"one pass", "one token", "steps", "pieces"}, marks=pytest.mark.slow),
        (drop_a_layer_of_keys, set()),
    ],
)
def test_a_wrong_graph_is_not_equal(decoder, edit, right, tmp_path):
    source, out = decoder
    folder = copy_of(out, tmp_path / "wrong")
    path = folder / "onnx/model.onnx"
    model = onnx.load(path, load_external_data=False)
    edit(model)
    onnx.save(model, path)
    manifest = bundle.read_manifest(folder)
    graphs = manifest.formats["float32"]
    file = replace(graphs.hub["model"], sha256=bundle.files_sha256(folder)["onnx/model.onnx"])
    replace(manifest, formats={"float32": replace(graphs, hub={"model": file})}).write(
        folder / "txexport.json"
    )
    report = txexport.verify(folder, source=source)
    assert report.verdict == "NOT EQUAL"
    passed = {case.name for case in report.cases if case.ok and case.runtime and "tokens of" not in case.name}
    assert passed == right
    assert IDENTITY in {case.name for case in report.failed}


def test_a_cache_that_is_not_carried_is_told(decoder):
    """The cases themselves: a step that forgets, and one whose positions start anew."""
    source, out = decoder
    judge, model = originals.original(source), txexport.load(out, device="cpu")
    [session] = model.sessions.values()
    empty = steps.empty_cache({name: port.shape for name, port in session.inputs.items()})

    def forgets(**values):
        return session.run({n: np.zeros_like(a) if cache_names.is_past(n) else a for n, a in values.items()})

    def restarts(**values):
        ids = values["input_ids"]
        return session.run(values | {"position_ids": np.arange(ids.shape[1])[None].repeat(len(ids), 0)})

    def doubles(**values):
        outputs = session.run(values)
        twice = {n: np.concatenate([a, a], axis=2) for n, a in outputs.items() if n != "logits"}
        return {"logits": outputs["logits"]} | (twice if values["input_ids"].shape[1] > 8 else outputs)

    def tells_the_last(**values):
        outputs = session.run(values)
        return outputs | {"logits": outputs["logits"][:, -1:]}

    one_pass = next(case for case in steps.plan(judge) if case.name == "one pass")
    for wrong in (doubles, tells_the_last):
        assert not all(check.ok for check in steps.judged(judge, wrong, one_pass, empty))
    assert all(check.ok for check in steps.judged(judge, tells_the_last, one_pass, empty, lacking=True))
    assert not all(check.ok for check in steps.judged(judge, doubles, one_pass, empty, lacking=True))
    for wrong in (forgets, restarts):
        verdicts = {
            case.name: all(check.ok for check in steps.judged(judge, wrong, case, empty))
            for case in steps.plan(judge)[:3]
        }
        assert verdicts == {"one pass": True, "one token": True, "steps": False}


def test_other_commands_tell_what_it_lacks(decoder):
    _, out = decoder
    for run in (lambda: txexport.quantize(out, "int8"), lambda: txexport.inspect(out)):
        with pytest.raises(
            BundleError, match="is a traced bundle of PersimmonForCausalLM, of whose components"
        ):
            run()
    with pytest.raises(BundleError, match="has a task of its own, text-generation; open it with load"):
        txexport.load_traced(out)
    shown = CliRunner().invoke(main, ["inspect", str(out), "--json"])
    assert json.loads(shown.output)["traced"] == "PersimmonForCausalLM"
    assert (
        "past_key_values.0.key float[batch_size, 4" in CliRunner().invoke(main, ["inspect", str(out)]).output
    )


@pytest.mark.parametrize(
    ("name", "edit"),
    [
        ("model_type", lambda one: replace(one, model_type="llama")),
        ("limits", lambda one: replace(one, limits={"decoder": 4096})),
        ("limits", lambda one: replace(one, limits={"decoder": None})),
        ("spec", lambda one: replace(one, spec={"type": "encoder_decoder"})),
        ("form", lambda one: replace(one, form=replace(one.form, inline=True))),
        (
            "stages",
            lambda one: replace(one, stages={"native": [], "hub": [fewer_words(one.stages["hub"][0])]}),
        ),
    ],
)
def test_an_edited_manifest_is_not_equal(decoder, name, edit, tmp_path):
    folder = copy_of(decoder[1], tmp_path / "edited")
    edit(bundle.read_manifest(folder)).write(folder / "txexport.json")
    expected = f"txexport.json: {name} is not as export writes it"
    assert contradiction(folder, decoder[0]) == expected


def fewer_words(stage):
    return replace(stage, facts=replace(stage.facts, vocab_size=50))


@pytest.mark.parametrize(
    "settings",
    [
        {"do_sample": True, "num_return_sequences": 2},
        {"stop_strings": ["x"]},
        {"return_dict_in_generate": True},
    ],
)
def test_settings_of_the_checkpoint_raise_nothing(decoder, settings):
    judge, model = originals.original(decoder[0]), txexport.load(decoder[1], device="cpu")
    judge.model.generation_config = transformers.GenerationConfig(eos_token_id=2, pad_token_id=1, **settings)
    with contextlib.suppress(SkipError):
        assert all(check.ok for check in steps.tokens_checked(judge, model, 1))


def test_ties_are_no_difference_and_others_are(decoder):
    judge = originals.original(decoder[0])
    row, expected = [5, 6, 7], [8, 9]
    assert not steps._ties(judge, row, [8, 10], expected)
    judge.model.lm_head.weight.data[10] = judge.model.lm_head.weight.data[9]
    assert steps._ties(judge, row, [8, 10], expected)


def test_cases_fit_a_short_model(decoder, monkeypatch):
    judge = originals.original(decoder[0])
    monkeypatch.setattr(judge.model.config, "max_position_embeddings", 12)
    assert {case.tokens for case in steps.plan(judge)} == {11, 1, 9, 12}
    monkeypatch.setattr(judge.model.config, "max_position_embeddings", 64)
    monkeypatch.setattr(judge.model.config, "sliding_window", 20, raising=False)
    assert "29 tokens, beyond sliding_window" in {case.name for case in steps.plan(judge)}


def test_states_of_other_dimensions_are_refused():
    value = ir.Value(name="cache.layers.0.keys", shape=ir.Shape([2, 7, 8]))
    with pytest.raises(UnsupportedError, match=r"gives 'cache\.layers\.0\.keys' 3 dimensions, and keys and"):
        decoders.heads_of(value)


def test_states_of_other_kinds_are_refused(tmp_path):
    """Of a decoder that runs over a cache of its own layers alone, too."""
    judge = originals.Original(tmp_path, traced_checkpoints.tiny("lfm3", "Lfm3ForCausalLM"))
    with pytest.raises(UnsupportedError, match=r"keeps 'layers\.0\.conv_states\.0' between steps"):
        decoders.traced_decoder(judge, 18)
