"""Pages ranked for queries: vectors and scores of both families against transformers' classes."""

import base64
import io
import json

import httpx
import numpy as np
import pytest
import tiny_adapter
import torch
from click.testing import CliRunner
from helpers import page_families
from helpers.pictured import picture
from helpers.serving import running
from safetensors.numpy import load_file, save_file

import txexport
from txexport.cli.main import main
from txexport.errors import BundleError, CheckpointError, InputError, SpecError, UnsupportedError
from txexport.runtime.tasks import pages as pages_module
from txexport.server.served import Limits

QUERIES = ["what was the total in 2023?", "", "the cat sat on the mat, and  then\nsome more words", "a"]
SIZES = [(31, 40), (100, 20), (24, 24), (13, 57), (200, 1), (7, 3), (1, 1)]
PAGES = [picture(*size) for size in SIZES]
SAME = 1e-5  # of products of vectors of length 1, summed over a query's


@pytest.fixture(scope="module", params=page_families.FAMILIES)
def family(request):
    return request.param


@pytest.fixture(scope="module")
def checkpoint(family, tmp_path_factory):
    folder = tmp_path_factory.mktemp(family)
    page_families.save(folder, family)
    return folder


@pytest.fixture(scope="module")
def bundle(checkpoint, tmp_path_factory):
    folder = tmp_path_factory.mktemp("bundle") / "out"
    txexport.export(checkpoint, folder, only="native")
    return folder


@pytest.fixture(scope="module")
def model(bundle):
    return txexport.load(bundle, device="cpu", threads=1)


@pytest.fixture(scope="module")
def original(checkpoint):
    """The library's processor and model."""
    return page_families.processor_of(checkpoint), page_families.network_of(checkpoint)


@pytest.fixture(scope="module")
def theirs(original, family):
    """The library's vectors of queries and of pages, each kind in one padded batch."""
    processor, network = original
    pages = readable(PAGES, family)
    queries = page_families.vectors_of(network, processor.process_queries(QUERIES))
    return queries, page_families.vectors_of(network, processor.process_images(pages))


def readable(pages, family):
    """The pages without those that the processor of images of any size refuses."""
    return [one for one in pages if family == "colpali" or max(one.size) <= 199 * min(one.size)]


def test_vectors_are_the_librarys(model, theirs, family):
    pages = readable(PAGES, family)
    for ours, expected in zip([model.embed_queries(QUERIES), model.embed_pages(pages)], theirs, strict=True):
        assert [one.shape for one in ours] == [tuple(one.shape) for one in expected]
        for one, other in zip(ours, expected, strict=True):
            assert one.dtype == np.float32
            np.testing.assert_allclose(one, other.numpy(), atol=2e-6, rtol=0)
            np.testing.assert_allclose(np.linalg.norm(one, axis=1), 1, atol=1e-6)
    assert len({len(one) for one in theirs[0]}) > 2  # queries of several lengths in a batch


def test_scores_are_the_librarys(model, original, theirs, family):
    queries, pages = theirs
    each_alone = [original[0].score_retrieval(queries, [page]) for page in pages]
    expected = torch.cat(each_alone, dim=1).numpy()
    ranked = model.rank_pages(QUERIES, readable(PAGES, family))
    assert len({row[0]["corpus_id"] for row in ranked}) > 1
    for row, scores in zip(ranked, expected, strict=True):
        assert sorted(one["corpus_id"] for one in row) == list(range(len(pages)))
        assert [one["score"] for one in row] == sorted((one["score"] for one in row), reverse=True)
        for one in row:
            assert abs(one["score"] - scores[one["corpus_id"]]) < SAME * len(queries[0])


def test_pages_do_not_depend_on_their_batch(model, family):
    """Nor on what is ranked: images, or their vectors."""
    pages = readable(PAGES, family)
    together = model.embed_pages(pages, batch_size=5, batch_tokens=4096)
    for one, page in zip(together, pages, strict=True):
        np.testing.assert_allclose(model.embed_pages(page), one, atol=2e-6, rtol=0)
    by_images = model.rank_pages(QUERIES[0], pages, top_k=2)
    by_vectors = model.rank_pages(QUERIES[0], together, top_k=2)
    assert len(by_images) == len(by_vectors) == 2
    for one, other in zip(by_images, by_vectors, strict=True):
        assert one["corpus_id"] == other["corpus_id"]
        assert abs(one["score"] - other["score"]) < SAME * 40
    assert model.rank_pages([], pages) == []
    assert model.rank_pages(["a"], []) == [[]]
    assert model.embed_pages([]) == model.embed_queries([]) == []


def test_settings_of_the_processor(family, checkpoint, tmp_path):
    """Prefixes of the checkpoint's own, and padding on the other side, which changes no vector."""
    token = "<|vision_start|><|image_pad|><|vision_end|>"
    prompt = "Read it." if family == "colpali" else f"{token}Read it."
    settings = {"query_prefix": "find ", "visual_prompt_prefix": prompt}
    page_families.save(tmp_path / "in", family, padding_side="right", **settings)
    txexport.export(tmp_path / "in", tmp_path / "out", only="native")
    model = txexport.load(tmp_path / "out", device="cpu", threads=1)
    processor, network = (
        page_families.processor_of(tmp_path / "in"),
        page_families.network_of(tmp_path / "in"),
    )
    assert processor.query_prefix == "find "
    for ours, inputs in (
        (model.embed_queries(QUERIES), processor.process_queries(QUERIES)),
        (model.embed_pages(PAGES[:3]), processor.process_images(PAGES[:3])),
    ):
        for one, other in zip(ours, page_families.vectors_of(network, inputs), strict=True):
            np.testing.assert_allclose(one, other.numpy(), atol=2e-6, rtol=0)
    report = txexport.verify(tmp_path / "out", cases=["pages and queries", "image processor"])
    assert [(case.name, case.skipped, case.exception) for case in report.cases] == [
        ("image processor", None, None),
        ("pages and queries", None, None),
    ]


def with_settings(model, folder, **values):
    """A model of a copy of the bundle in `folder` whose processor_config.json has other values."""
    file = folder / "processor_config.json"
    for one in model.folder.rglob("*"):
        if one.is_file():
            target = folder / one.relative_to(model.folder)
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(one.read_bytes())
    file.write_text(json.dumps((json.loads(file.read_text()) if file.exists() else {}) | values))
    return txexport.load(folder, device="cpu", threads=1, check=False)


def test_wrong_settings_are_named(model, family, tmp_path):
    null = with_settings(model, tmp_path / "null", query_prefix=None)
    if family == "colpali":
        with pytest.raises(BundleError, match=r"query_prefix is null|query_prefix is None, expected a text$"):
            null.embed_queries("a")
    else:  # its processor takes null for the default
        np.testing.assert_array_equal(null.embed_queries("a"), model.embed_queries("a"))
    wrong = with_settings(model, tmp_path / "wrong", visual_prompt_prefix=5)
    with pytest.raises(BundleError, match=r"visual_prompt_prefix is 5, expected a text$"):
        wrong.embed_pages(PAGES[0])
    token = model.text.tokenizer.id_to_token(model.bundle.image_token_id)
    twice = with_settings(model, tmp_path / "twice", visual_prompt_prefix=f"{token} and {token}")
    with pytest.raises(BundleError, match=r"visual_prompt_prefix"):
        twice.embed_pages(PAGES[0])


def test_wrong_inputs_are_named(model, family):
    with pytest.raises(InputError, match=r"^image nowhere.png cannot be read"):
        model.embed_pages("nowhere.png")
    with pytest.raises(InputError, match=r"^an image is int, expected a path"):
        model.rank_pages("a", [5])
    with pytest.raises(InputError, match=r"^a text is int, expected str$"):
        model.embed_queries([5])
    with pytest.raises(InputError, match=r"longer than (the model's )?400"):
        model.embed_queries("word " * 500)
    with pytest.raises(InputError, match=r"^page 2 of 2 is \(3, 7\), expected vectors \(T, 20\)"):
        model.rank_pages("a", [np.ones((4, 20), np.float32), np.ones((3, 7), np.float32)])
    with pytest.raises(InputError, match=r"^page 2 of 2 is .*, expected vectors \(T, 20\)"):
        model.rank_pages("a", [np.ones((4, 20), np.float32), PAGES[0]])
    with pytest.raises(InputError, match=r"^page 1 of 1 has NaN or infinity, expected vectors$"):
        model.rank_pages("a", np.full((4, 20), np.nan, np.float32))
    with pytest.raises(InputError, match=r"^top_k is 0"):
        model.rank_pages("a", PAGES[:1], top_k=0)
    with pytest.raises(InputError, match=r"^the bundle is for visual-document-retrieval \(use rank_pages\)"):
        model.embed("a")
    if family == "colqwen2":
        with pytest.raises(InputError, match=r"aspect ratio above 200; crop it$"):
            model.embed_pages(picture(300, 1))


NAMES = {  # those of checkpoints that earlier releases of the library wrote
    "colpali": [("language_model.model.", "language_model."), ("tower.", "tower.vision_model.")],
    "colqwen2": [("vlm.", "vlm.model.")],
}
HEAD = {"colpali": "vlm.language_model.lm_head.weight", "colqwen2": "vlm.lm_head.weight"}


def test_names_of_earlier_releases(family, checkpoint, model, tmp_path):
    """Published checkpoints have these, and a head that nothing reads."""
    page_families.save(tmp_path / "in", family)
    file = tmp_path / "in/model.safetensors"
    tensors = load_file(file)
    for new, old in NAMES[family]:
        tensors = {name.replace(new, old): array for name, array in tensors.items()}
    assert len({*tensors} & {*load_file(file)}) < len(tensors)
    save_file(tensors | {HEAD[family]: np.ones((3, 4), np.float32)}, file, {"format": "pt"})
    txexport.export(tmp_path / "in", tmp_path / "out", only="native")
    other = txexport.load(tmp_path / "out", device="cpu", threads=1)
    np.testing.assert_array_equal(other.embed_pages(PAGES[0]), model.embed_pages(PAGES[0]))
    report = txexport.verify(tmp_path / "out", cases="quick")
    assert report.ok
    assert "transformers" in report.references


def test_an_adapter_over_a_converted_checkpoint(checkpoint, bundle, tmp_path):
    """As peft saves one for vectors; the projection is adapted too."""
    leaves = ["q_proj", "v_proj", "embedding_proj_layer"]
    matrices = tiny_adapter.lora(checkpoint, *leaves)
    for part, sizes in (("A", (3, 48)), ("B", (20, 3))):
        matrices[f"embedding_proj_layer.lora_{part}.weight"] = tiny_adapter.random(*sizes)
    task = "FEATURE_EXTRACTION"
    adapter = tiny_adapter.write(tmp_path / "lora", matrices, task_type=task, target_modules=leaves)
    with pytest.raises(CheckpointError, match=r"has no config.json; export its base with --adapter$"):
        txexport.export(adapter, tmp_path / "out")
    with pytest.raises(UnsupportedError, match=r"^task 'feature-extraction' is not supported for col"):
        txexport.export(checkpoint, tmp_path / "out", adapter=adapter, task="feature-extraction")
    txexport.export(checkpoint, tmp_path / "out", adapter=adapter, only="native")
    report = txexport.verify(tmp_path / "out", cases="quick")
    assert report.ok
    assert "transformers" in report.references
    models = (txexport.load(one, device="cpu", threads=1) for one in (bundle, tmp_path / "out"))
    first, second = (model.embed_queries("a") for model in models)
    assert np.abs(first - second).max() > 0.01


def test_what_runs_it_and_what_does_not(checkpoint, family, tmp_path):
    """The speed and the loss of a number format; OpenVINO's graph reads tokens and pixels at once."""
    txexport.export(checkpoint, tmp_path / "out", dtype="int8")
    result = CliRunner().invoke(main, ["compare-dtypes", str(tmp_path / "out"), "--json"])
    assert result.exit_code == 0, result.output
    assert "worst cosine" in result.output
    measured = txexport.bench(tmp_path / "out", rounds=1)
    assert {one.candidate.engine for one in measured.candidates} == {"onnxruntime"}
    reasons = ("visual-document-retrieval", "no bfloat16 on this cpu")
    assert all(any(one in why for one in reasons) for why in measured.left_out.values()), measured.left_out
    with pytest.raises(UnsupportedError, match=r"is for visual-document-retrieval, whose graphs OpenVINO"):
        txexport.load(tmp_path / "out", engine="openvino")


def test_another_size_of_images_is_refused(checkpoint, tmp_path):
    with pytest.raises(UnsupportedError, match=r"^image_size is not supported for col.*; leave it out$"):
        txexport.export(checkpoint, tmp_path / "out", image_size=36)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"model_type": "qwen3_vl"}, r"vlm_config is of a 'qwen3_vl', expected '(paligemma|qwen2_vl)'$"),
        ({"image_token_id": 10**6, "image_token_index": 10**6}, r"image_token_id is 1000000, expected 0 to"),
        ({"text_config": None}, r"VisionLanguageSpec|VisualRetrieverSpec|tensor|describes"),
    ],
)
def test_configs_that_are_not_read(family, checkpoint, values, message, tmp_path):
    page_families.save(tmp_path / "in", family)
    file = tmp_path / "in/config.json"
    config = json.loads(file.read_text())
    file.write_text(json.dumps(config | {"vlm_config": config["vlm_config"] | values}))
    with pytest.raises((UnsupportedError, CheckpointError, SpecError), match=message):
        txexport.export(tmp_path / "in", tmp_path / "out")


@pytest.mark.parametrize(("model_type", "name"), [("paligemma", "ColPali"), ("qwen2_vl", "ColQwen2")])
def test_models_of_another_library_are_refused_by_name(model_type, name, checkpoint_of, tmp_path):
    source = checkpoint_of(model_type)
    for one in source.iterdir():
        (tmp_path / one.name).write_bytes(one.read_bytes())
    file = tmp_path / "config.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | {"architectures": [name]}))
    with pytest.raises(UnsupportedError, match=rf"'{name}' is not supported: .*converted for transformers"):
        txexport.export(tmp_path, tmp_path / "out")


def encoded(image):
    file = io.BytesIO()
    image.save(file, "PNG")
    return file.getvalue()


def test_the_server_gives_the_same(bundle, model):
    pages = PAGES[:3]
    files = [encoded(page) for page in pages]
    limits = Limits(cache_tokens=4096, max_new_tokens=5, max_waiting=9, max_body=200_000, timeout=60)
    sent = [base64.b64encode(file).decode() for file in files]
    with running({"col": bundle}, limits) as (address, _), httpx.Client(base_url=address) as client:

        def ask(method, **body):
            return client.post(f"/v1/tasks/{method}", json={"model": "col", **body}, timeout=60)

        answers = ask("embed_pages", images=sent).json()
        for answer, expected in zip(answers, model.embed_pages(files), strict=True):
            np.testing.assert_allclose(np.array(answer), expected, atol=2e-6)
        answer = ask("embed_queries", texts=QUERIES[0]).json()
        np.testing.assert_allclose(np.array(answer), model.embed_queries(QUERIES[0]), atol=2e-6)
        ranked = ask("rank_pages", queries=QUERIES[0], images=sent, top_k=2).json()
        expected = model.rank_pages(QUERIES[0], files, top_k=2)
        assert [one["corpus_id"] for one in ranked] == [one["corpus_id"] for one in expected]
        wrong = ask("rank_pages", queries="a", images=["bm90IGFuIGltYWdl"])
        assert wrong.status_code == 400
        assert "cannot be read" in wrong.json()["error"]["message"]
        assert ask("rank_pages", queries="a").status_code == 400


def test_commands(bundle, model, tmp_path):
    files = []
    for number, page in enumerate(PAGES[:3]):
        files.append(str(tmp_path / f"{number}.png"))
        page.save(files[-1])
    expected = model.rank_pages(QUERIES[0], files)

    def run(*arguments):
        return CliRunner().invoke(main, [*arguments[:1], str(bundle), *arguments[1:]])

    images = [part for file in files for part in ("--image", file)]
    for source in (images, ["--vectors", str(tmp_path / "pages.npz")]):
        if source is not images:
            assert run("embed-pages", *files, "--output", source[1]).exit_code == 0
        result = run("rank-pages", QUERIES[0], *source, "--json")
        assert result.exit_code == 0, result.output
        answer = json.loads(result.output)
        assert [one["corpus_id"] for one in answer["pages"]] == [one["corpus_id"] for one in expected]
        assert {one["page"] for one in answer["pages"]} == ({*files} if source is images else {"1", "2", "3"})
    result = run("embed-queries", *QUERIES[:1], "--json")
    assert np.array(json.loads(result.output)["embeddings"]).shape == model.embed_queries(QUERIES[0]).shape
    assert "20" in run("embed-pages", *files).output
    assert run("rank-pages", "a").exit_code == 2
    assert "give --image FILE for each page, or --vectors FILE" in run("rank-pages", "a").output


def test_a_command_reads_each_page_once(bundle, tmp_path, monkeypatch):
    """However many queries, windows and queries that fail."""
    read: list[int] = []
    features = pages_module._features
    monkeypatch.setattr(pages_module, "_features", lambda *one: read.append(1) or features(*one))
    PAGES[0].save(tmp_path / "page.png")
    queries = [*["a house"] * 9, "house " * 400]
    options = ["--window", "4", "--on-error", "skip", *["--image", str(tmp_path / "page.png")] * 3]
    result = CliRunner().invoke(main, ["rank-pages", str(bundle), *queries, *options])
    assert "error: input 10: a query of" in result.output
    assert len(read) == 3


def test_a_bundle_for_another_task_is_named_before_pages_are_read(bundle_of):
    """By the command's own name, and without a look at the images."""
    command = ["rank-pages", str(bundle_of("bert")), "a house", "--image", "nowhere.png"]
    result = CliRunner().invoke(main, command)
    assert result.exit_code != 0
    assert "rank_pages needs an export with --task visual-document-retrieval" in " ".join(
        result.output.split()
    )


def test_files_and_queries_that_are_none_are_named(bundle, model, tmp_path):
    np.savez(tmp_path / "bytes.npz", np.zeros((3, 4), np.uint8))
    np.savez(tmp_path / "none.npz")
    for file, what in (("bytes", "arr_0 of another kind"), ("none", "nothing")):
        command = ["rank-pages", str(bundle), "a house", "--vectors", str(tmp_path / f"{file}.npz")]
        result = CliRunner().invoke(main, command)
        assert f"has {what}, expected vectors" in " ".join(result.output.split())
    token = model.bundle.files.text.tokenizer.id_to_token(model.bundle.image_token_id)
    with pytest.raises(InputError, match=r"a query has .*, which stands for an image; leave it out"):
        model.embed_queries(f"a {token} house")
