"""Former names work, with a warning that says what to write instead; CHANGELOG.md lists them."""

import re
import warnings
from pathlib import Path

import numpy as np
import pytest
from helpers.project import ROOT

import txexport
from txexport.cli.main import main
from txexport.runtime.methods import FORMER_KEYWORDS, on_bundle
from txexport.runtime.model import FORMER_NAMES


def deprecated() -> dict[str, str]:
    """The table of CHANGELOG.md: former names and what to write instead."""
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    section = text.partition("### Deprecated\n")[2].partition("\n### ")[0]
    return dict(re.findall(r"^\| `([^`]+)`[^|]* \| `([^`]+)`", section, re.MULTILINE))


def test_the_changes_list_every_former_name():
    expected = {f"Model.{old}": f"Model.{new}" for old, new in FORMER_NAMES.items() if old != "hears"}
    speech = 'model.manifest.task == "automatic-speech-recognition"'
    expected |= {"Model.is_speech": speech, "Model.hears": speech}
    expected |= {f"{old}=": f"{new}=" for old, new in FORMER_KEYWORDS.items()}
    expected |= {"verify(third=)": "verify(torch_onnx=)", "verify --third": "verify --torch-onnx"}
    expected |= {"txmodels.model.Model": "txmodels.model.model"}
    assert deprecated() == expected


def test_names_that_the_package_once_exported_are_still_there():
    """Every name that `txexport.__all__` has had; nothing of it was ever removed."""
    assert set(txexport.__all__) >= {
        *("Model", "PrefixStore", "TxexportError", "bench", "compare", "compare_dtypes", "export"),
        *("inspect", "load", "quantize", "serve", "verify", "verify_here"),
    }


def test_former_names_of_a_model_work_and_warn(bundle_of):
    with txexport.load(bundle_of("gpt2"), device="cpu") as model:
        with pytest.warns(DeprecationWarning, match=r"^Model.search is now Model.generate") as seen:
            assert model.search == model.generate_with_scores
        assert Path(seen[0].filename) == Path(__file__)
        with pytest.warns(DeprecationWarning, match=r"^Model.settings is now Model.generation_config$"):
            assert model.settings is model.generation_config
        with pytest.warns(DeprecationWarning, match="is now Model.is_speech|manifest.task ==") as seen:
            assert model.hears is False
        assert "use model.manifest.task ==" in str(seen[1].message)
        with pytest.raises(AttributeError, match=r"^'Model' object has no attribute 'no_such_name'$"):
            _ = model.no_such_name


def test_former_keywords_work_and_warn(bundle_of):
    def only_seven(_, scores):
        return np.where(np.arange(scores.shape[-1]) == 7, scores, -np.inf)

    with txexport.load(bundle_of("gpt2"), device="cpu") as model:
        with pytest.warns(DeprecationWarning, match=r"^rows= is now input_ids=$") as seen:
            tokens = model.generate_ids(rows=[[5, 9]], max_new_tokens=2, logits_processor=only_seven)
        assert Path(seen[0].filename) == Path(__file__)
        with pytest.warns(DeprecationWarning, match=r"^adjust= is now logits_processor=$"):
            assert model.generate_ids([[5, 9]], max_new_tokens=2, adjust=only_seven) == tokens == [[7, 7]]
        with pytest.raises(TypeError, match="rows is the former name of input_ids; pass only input_ids"):
            model.generate_ids([[5]], input_ids=[[5]], rows=[[5]])


def test_only_methods_that_have_the_new_keyword_take_the_former_one():
    method = on_bundle(lambda bundle, *, depth=0: depth)
    holder = type("Holder", (), {"bundle": None, "method": method})()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert holder.method(depth=3) == 3
        with pytest.raises(TypeError, match="unexpected keyword argument 'rows'"):
            holder.method(rows=3)


def test_options_that_were_renamed_are_hidden_and_name_the_new_one():
    parameters = [one for command in main.commands.values() for one in command.params]
    options = [one for one in parameters if one.param_type_name == "option"]
    former = {one.opts[0]: one.deprecated for one in options if one.deprecated}
    assert former == {"--third": "use --torch-onnx"}
    assert all(one.hidden for one in options if one.deprecated)
