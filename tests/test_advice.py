"""Errors advise a next step that works."""

import subprocess
import sys

import pytest

from txexport import load
from txexport.errors import InputError, UnsupportedError
from txexport.families import module
from txexport.runtime.engines.onnxruntime import cuda_present


@pytest.mark.parametrize(
    ("model_type", "nearest"),
    [("bertt", "bert"), ("lfm9", "lfm3"), ("gemma7", "gemma"), ("xlm-robertta", "xlm-roberta")],
)
def test_unknown_family_names_the_nearest_and_the_recipe(model_type, nearest):
    with pytest.raises(UnsupportedError) as caught:
        module(model_type)
    said = str(caught.value)
    assert f"'{model_type}' is not supported; the nearest by name: {nearest}" in said
    assert said.endswith("; docs/contributing/family.md in the repository describes how to add one")
    assert len(said) < 300
    with pytest.raises(UnsupportedError, match="'zzz' is not supported; `txexport families` lists those"):
        module("zzz")


@pytest.mark.parametrize(
    ("name", "option"),
    [("stop", "stop_strings"), ("max_tokens", "max_new_tokens"), ("n", "num_return_sequences")],
)
def test_names_of_other_interfaces_lead_to_ours(name, option, bundle_of):
    model = load(bundle_of("gpt2"), device="cpu")
    with pytest.raises(InputError, match=rf"^no option '{name}'; did you mean {option}\?$"):
        model.generate_ids([[5]], **{name: 1})


def test_another_task_is_advised_where_the_family_has_it(bundle_of):
    with pytest.raises(InputError) as caught:
        load(bundle_of("marian"), device="cpu").embed("the cat")
    assert str(caught.value) == (
        "the bundle is for text2text-generation (use generate); embed needs an export with --task "
        "feature-extraction, of a model that 'txexport families' lists for it"
    )


@pytest.mark.skipif(cuda_present(), reason="CUDA starts here")
def test_nothing_is_logged_before_our_error(bundle_of):
    given = ["embed", str(bundle_of("bert")), "the cat", "--pooling", "mean", "--device", "cuda"]
    done = subprocess.run([sys.executable, "-m", "txexport", *given], capture_output=True, text=True)
    assert done.returncode == 2
    assert done.stderr.startswith("error: ")
    assert done.stderr.count("\n") == 1
