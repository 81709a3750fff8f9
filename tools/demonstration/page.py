"""The page of tools/demo: one file with pictures and sound in it, and links to the reports."""

import base64
import mimetypes
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from demonstration.scenes import Scene
from txexport.support import markup

STYLE = Path(__file__).with_name("page.css").read_text(encoding="utf-8")
EQUAL = ": equal to "  # in the verdict of `verify`


@dataclass(frozen=True)
class Step:
    """A command and its output."""

    command: str
    output: str


@dataclass(frozen=True)
class Message:
    """A message of a conversation; `role` is user, assistant or tool."""

    role: str
    text: str


@dataclass(frozen=True)
class Run:
    """A scene that was run: steps, of which the second is `verify`, its report beside the page, seconds."""

    scene: Scene
    steps: Sequence[Step]
    report: str
    seconds: float
    messages: Sequence[Message] = ()


def page(runs: Sequence[Run], folder: Path) -> str:
    """The page of scenes, whose pictures are in `folder`."""
    equal = sum(EQUAL in _verdict(one) for one in runs)
    rows = [
        [
            f'<a href="#{one.scene.name}">{markup.text(one.scene.title)}</a>',
            _badge(one),
            f'<a href="{markup.plain(one.report)}">report</a>',
            f"{one.seconds:.0f} s",
        ]
        for one in runs
    ]
    body = "".join(
        [
            f'<h1 class="{"pass" if equal == len(runs) else "fail"}">{equal} of {len(runs)} models: equal to '
            "their originals</h1>\n",
            "<p>Each checkpoint was exported to ONNX, compared with its original in transformers, and run "
            "with ONNX Runtime.</p>\n",
            markup.table(["", "verdict", "", "time"], rows),
            *(_section(one, folder) for one in runs),
        ]
    )
    return markup.page("txexport: the demonstration", f"<main>\n{body}</main>", STYLE)


def _verdict(one: Run) -> str:
    return one.steps[1].output.split("\n", 1)[0]


def _badge(one: Run) -> str:
    equal = EQUAL in _verdict(one)
    return f'<span class="badge {"pass" if equal else "fail"}">{"equal" if equal else "not equal"}</span>'


def _section(one: Run, folder: Path) -> str:
    """A scene: what happened, the verdict, what it drew, read or answered, its commands."""
    scene = one.scene
    parts = [
        f'<section id="{scene.name}">\n<h2>{markup.text(scene.title)} {_badge(one)}</h2>\n',
        f"<p>{markup.text(scene.story)}</p>\n",
        f'<p class="verdict">{markup.text(_verdict(one))}. '
        f'<a href="{markup.plain(one.report)}">Every error beside its bound</a></p>\n',
    ]
    if scene.picture is not None:
        source = _embedded(folder / scene.picture)
        parts.append(f'<img src="{source}" alt="{markup.plain(scene.title)}">\n')
    if scene.sound is not None:
        parts.append(f'<audio controls src="{_embedded(scene.sound)}"></audio>\n')
    if scene.image is not None:
        parts.append(f'<img src="{_embedded(scene.image)}" alt="{markup.plain(scene.title)}">\n')
    if scene.sound is not None or scene.image is not None:
        parts += [f"<blockquote>{markup.text(step.output.strip())}</blockquote>\n" for step in one.steps[2:]]
    if one.messages:
        items = "".join(
            f'<li class="{message.role}"><b>{message.role}</b>{markup.text(message.text)}</li>\n'
            for message in one.messages
        )
        parts.append(f'<ol class="chat">\n{items}</ol>\n')
    commands = "".join(
        f"<pre><b>$ {markup.plain(step.command)}</b>\n{markup.plain(step.output.rstrip())}</pre>\n"
        for step in one.steps
    )
    answered = scene.picture or scene.image or scene.sound or one.messages
    shown = "" if answered else " open"
    return "".join(
        [*parts, f"<details{shown}><summary>Commands</summary>\n{commands}</details>\n</section>\n"]
    )


def _embedded(file: Path) -> str:
    """The file as a URL that holds it."""
    kind = {".wav": "audio/wav"}.get(file.suffix) or mimetypes.guess_type(file.name)[0]
    return f"data:{kind};base64,{base64.b64encode(file.read_bytes()).decode()}"
