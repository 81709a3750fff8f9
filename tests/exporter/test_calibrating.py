"""export --texts: calibrated integers instead of the search's; records and errors."""

import hashlib
import json
import shutil
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from helpers.bundle_edits import stored
from helpers.project import loaded_after
from safetensors.numpy import load_file

import txexport
from txexport import bundle
from txexport.cli.main import main
from txexport.errors import BundleError, InputError
from txexport.support.paths import sha256
from txexport.verification import verify
from txexport.verification.checks import CALIBRATED

TEXTS = [f"the cat sat on the mat {'and the dog ' * n}" for n in range(12)]
CONTENTS = ["exported graphs", "every weight", "manifest and copied files"]


@pytest.fixture(scope="module")
def bert(checkpoint_of, tmp_path_factory) -> Path:
    """BERT in float32, in int4 by texts, and in int4-128 by them."""
    folder = tmp_path_factory.mktemp("calibrated") / "bert"
    txexport.export(checkpoint_of("bert"), folder, dtype=["float32", "int4", "int4-128"], texts=TEXTS)
    return folder


def test_inspect_tells_by_what_it_was_calibrated(bert, bundle_of, tmp_path):
    """As a table, as a page, and as JSON; nothing is shown for an uncalibrated bundle."""
    calibration = bundle.read(bert).form.calibrated["int4"]
    line = f"int4: calibrated on {len(TEXTS)} texts of {calibration.tokens} tokens"
    told = CliRunner().invoke(main, ["inspect", str(bert), "--html", str(tmp_path / "page.html")])
    assert told.exit_code == 0
    for output in (told.stdout, (tmp_path / "page.html").read_text()):
        assert line in " ".join(output.split())
    values = txexport.inspect(bert).to_dict()["bundle"]["calibrated"]
    assert values["int4"] == asdict(calibration)
    plain = CliRunner().invoke(main, ["inspect", str(bundle_of("bert"))])
    assert "calibrated" not in plain.stdout


def parts(folder: Path, dtype: str) -> dict[str, np.ndarray]:
    """The parts stored in a dtype's only file."""
    [path] = bundle.read(folder).of_dtype(dtype).data
    return load_file(folder / path)


def files(folder: Path) -> dict[str, str]:
    """Digests of all files."""
    paths = [path for path in folder.rglob("*") if path.is_file()]
    return {path.relative_to(folder).as_posix(): sha256(path) for path in paths}


@pytest.mark.parametrize("dtype", ["int4", "int4-128"])
def test_integers_alone_are_others_than_the_search_s(dtype, bert, checkpoint_of, tmp_path):
    txexport.export(checkpoint_of("bert"), tmp_path / "plain", dtype=dtype)
    ours, plain = parts(bert, dtype), parts(tmp_path / "plain", dtype)
    assert ours.keys() == plain.keys()
    other = {name for name in ours if ours[name].tobytes() != plain[name].tobytes()}
    left = bundle.read(bert).form.calibrated[dtype].searched
    blocks = {name.removesuffix(".zero") for name in ours if name.endswith(".zero")}
    assert other == blocks - set(left) != set()
    assert files(bert).keys() >= files(tmp_path / "plain").keys()  # temporary files are removed


def test_what_is_recorded(bert):
    recorded = json.loads((bert / "txexport.json").read_text())["form"]["calibrated"]
    assert [*recorded] == ["int4", "int4-128"]
    tokens = sum(len(one) for one in txexport.load(bert).text.encode(TEXTS, 40))
    for one in recorded.values():
        assert (one["texts"], one["tokens"]) == (12, tokens)
        assert one["sha256"] == hashlib.sha256(json.dumps(TEXTS).encode()).hexdigest()


def test_it_loses_less_of_such_texts(bert, checkpoint_of, tmp_path):
    txexport.export(checkpoint_of("bert"), tmp_path / "plain", dtype=["float32", "int4"])
    others = [f"a dog sat on {'the mat and ' * n} the cat" for n in range(1, 9)]
    lost = {}
    for name, folder in (("calibrated", bert), ("plain", tmp_path / "plain")):
        truth, found = (
            np.concatenate([txexport.load(folder, dtype=dtype).embed(others, pooling="mean", truncate=True)])
            for dtype in ("float32", "int4")
        )
        lost[name] = np.linalg.norm(found - truth)
    assert lost["calibrated"] < 0.9 * lost["plain"]


def test_quantize_gives_what_export_would_and_keeps_it(checkpoint_of, tmp_path):
    """A dtype added later leaves calibrated integers unchanged, though there are no texts then."""
    file = tmp_path / "texts.txt"
    file.write_text("\n".join(TEXTS), encoding="utf-8")
    txexport.export(checkpoint_of("gpt2"), tmp_path / "one")
    txexport.quantize(tmp_path / "one", "int4", texts=file)
    txexport.quantize(tmp_path / "one", "int8")
    txexport.export(checkpoint_of("gpt2"), tmp_path / "all", dtype=["float32", "int4", "int8"], texts=TEXTS)
    assert files(tmp_path / "one") == files(tmp_path / "all")
    with pytest.raises(
        InputError,
        match=r"^texts calibrate int4, int4-fast, int4-128 and int4-128-fast only, not float16; ",
    ):
        txexport.quantize(tmp_path / "one", "float16", texts=file)
    data = tmp_path / "one" / "onnx" / "model_q4.onnx_data"
    content = bytearray(data.read_bytes())
    content[-1] ^= 1
    data.write_bytes(content)
    with pytest.raises(
        BundleError, match=r"model_q4.onnx_data is not the file that was exported; export again$"
    ):
        txexport.quantize(tmp_path / "one", "float16")


@pytest.mark.parametrize(
    ("family", "form"),
    [
        ("bart", {}),
        ("bart", {"client": "web", "single_file": True}),
        ("bert", {"single_file": True}),
        ("gpt2", {"only": "native"}),
    ],
    ids=str,
)
def test_every_layout_has_them(family, form, checkpoint_of, tmp_path):
    """In any combination of graphs: those of the encoder too, once in every file, and verify finds them."""
    txexport.export(checkpoint_of(family), tmp_path / "out", dtype="int4", texts=TEXTS, **form)
    calibration = bundle.read(tmp_path / "out").form.calibrated["int4"]
    assert not any(".q.weight" in name or ".up.weight" in name for name in calibration.searched)
    (tmp_path / "texts.txt").write_text("\n".join(TEXTS), encoding="utf-8")
    options = {"reference": "twin", "cases": [*CONTENTS, CALIBRATED], "texts": tmp_path / "texts.txt"}
    report = verify(tmp_path / "out", **options)
    assert [(case.name, case.summary) for case in report.failed] == []
    assert report.verdict == "equal"
    if form.get("single_file"):
        txexport.quantize(tmp_path / "out", "int8")
        assert verify(tmp_path / "out", **options).ok


def test_matrices_that_few_vectors_reach_stay_as_searched(checkpoint_of, tmp_path):
    """Experts that no token selects; and the image encoder of a model that reads texts too."""
    txexport.export(checkpoint_of("mixtral"), tmp_path / "few", dtype="int4", texts=["the"])
    txexport.export(checkpoint_of("mixtral"), tmp_path / "many", dtype="int4", texts=TEXTS)
    few, many = (
        set(bundle.read(tmp_path / name).form.calibrated["int4"].searched) for name in ("few", "many")
    )
    assert sum(".experts." in name for name in few) > 20 > len(many)
    txexport.export(checkpoint_of("clip"), tmp_path / "clip", dtype="int4", texts=TEXTS)
    left = bundle.read(tmp_path / "clip").form.calibrated["int4"].searched
    assert left
    assert all(name.startswith(("vision", "text_projection")) for name in left)


def test_what_is_kept_and_what_is_int8_are_not_calibrated(checkpoint_of, tmp_path):
    txexport.export(checkpoint_of("gpt2"), tmp_path / "out", dtype="int4", texts=TEXTS, keep="*.layers.0.*")
    txexport.export(checkpoint_of("gpt2"), tmp_path / "plain", dtype="int4", keep="*.layers.0.*")
    ours, plain = stored(tmp_path / "out"), stored(tmp_path / "plain")
    other = {name for name in ours if ours[name].tobytes() != plain[name].tobytes()}
    assert other
    assert all(".layers.1." in name for name in other)


@pytest.mark.parametrize(
    ("family", "options", "why"),
    [
        (
            "bert",
            {"dtype": "int8"},
            r"^texts calibrate int4, int4-fast, int4-128 and int4-128-fast only, not int8; leave them out$",
        ),
        (
            "bert",
            {},
            r"^texts calibrate int4, int4-fast, int4-128 and int4-128-fast only, not float32; ",
        ),
        (
            "vit",
            {"dtype": "int4"},
            r"^texts need a model that reads texts; this one is for image-feature-extrac",
        ),
        (
            "whisper",
            {"dtype": "int4"},
            r"^texts need a model that reads texts; this one is for automatic-speech",
        ),
        ("bert", {"dtype": "int4", "texts": []}, r"^there are no texts, expected at least one$"),
        (
            "bert",
            {"dtype": "int4", "texts": [3]},
            r"^texts is \[3\], expected a text or a path or a list of ",
        ),
        (
            "gpt2",
            {"dtype": "int4", "texts": [("a", "b")]},
            r"^a decoder takes one text per line, without a tab",
        ),
    ],
)
def test_what_is_refused(family, options, why, checkpoint_of, tmp_path):
    with pytest.raises(InputError, match=why):
        txexport.export(checkpoint_of(family), tmp_path / "out", **{"texts": TEXTS, **options})
    assert not (tmp_path / "out").exists()


def test_a_tokenizer_is_needed(checkpoint_of, tmp_path):
    source = shutil.copytree(checkpoint_of("gpt2"), tmp_path / "source")
    (source / "tokenizer.json").unlink()
    with pytest.raises(BundleError, match=r"has no tokenizer\.json"):
        txexport.export(source, tmp_path / "out", dtype="int4", texts=TEXTS)


def test_progress_goes_from_texts_to_weights(checkpoint_of, tmp_path):
    told = []
    txexport.export(
        checkpoint_of("bert"),
        tmp_path / "out",
        dtype="int4",
        texts=TEXTS,
        progress=lambda *one: told.append(one),
    )
    assert len({total for _, total in told}) == 1
    shares = [done / total for done, total in told]
    assert shares == sorted(shares)
    assert shares[-1] == 1
    assert sum(0 < share < 0.5 for share in shares) > 5


def test_no_pytorch_is_needed(checkpoint_of, tmp_path):
    code = (
        f"import txexport; txexport.export({str(checkpoint_of('bert'))!r}, {str(tmp_path / 'out')!r}, "
        "dtype='int4', texts=['the cat sat on the mat'])"
    )
    assert not loaded_after(code) & {"torch", "transformers"}
