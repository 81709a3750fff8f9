"""python -m demonstration: run the scenes in the folder demo, and write demo/index.html about them."""

import contextlib
import io
import json
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from demonstration.page import Message, Run, Step, page
from demonstration.scenes import QUESTIONS, REQUEST, RESULT, SCENES, TOOL, Scene
from txexport import load
from txexport.cli.main import main


class Copied(io.StringIO):
    """Text that is printed, too."""

    def __init__(self) -> None:
        super().__init__()
        self.printed = sys.stdout

    def write(self, text: str) -> int:
        """Print and keep the text."""
        size = super().write(text)  # refuses bytes, as click expects of a text stream
        print(text, end="", file=self.printed, flush=True)
        return size


def shown(arguments: Sequence[str]) -> str:
    """The command as it is typed."""
    return " ".join(["txexport", *(f'"{word}"' if " " in word else word for word in arguments)])


def run(arguments: Sequence[str], output: io.StringIO) -> Step:
    """Run a command in this process, which imports PyTorch only once.

    Raises SystemExit with its exit code if that is not 0.
    """
    print(f"\n$ {shown(arguments)}", flush=True)
    try:
        with contextlib.redirect_stdout(output):
            main.main([*arguments], prog_name="txexport")
    except SystemExit as end:
        if end.code:
            raise
    return Step(shown(arguments), output.getvalue())


def conversation(bundle: str) -> list[Message]:
    """The messages of `txexport chat`, which reads the questions as its standard input."""
    output, typed = io.StringIO(), sys.stdin
    sys.stdin = io.TextIOWrapper(io.BytesIO("\n".join(QUESTIONS).encode()))
    try:
        run(["chat", bundle, "--json"], output)
    finally:
        sys.stdin = typed
    turns = [json.loads(line) for line in output.getvalue().splitlines()]
    return [
        Message(role, turn[key])
        for turn in turns
        for role, key in (("user", "message"), ("assistant", "answer"))
    ]


def called(bundle: str) -> list[Message]:
    """The messages of a question for which the model calls a function."""
    messages = [{"role": "user", "content": REQUEST}]
    with load(bundle) as model:
        messages.append({"role": "assistant", "content": model.chat(messages, tools=[TOOL])})
        messages.append({"role": "tool", "content": RESULT})
        messages.append({"role": "assistant", "content": model.chat(messages, tools=[TOOL])})
    return [Message(message["role"], message["content"]) for message in messages]


def tell(scene: Scene, folder: Path) -> Run:
    """Export, verify and run a checkpoint; print what happened."""
    print(f"\n\n{scene.title}", flush=True)
    bundle, report, began = str(folder / "bundles" / scene.name), f"reports/{scene.name}.html", time.monotonic()
    verify = ["verify", bundle, "--quiet", "--report", str(folder / report), *scene.verify]
    commands = [["export", scene.checkpoint, bundle, "--force", *scene.export], verify]
    commands += [
        [word.format(bundle=bundle, folder=folder) for word in command] for command in scene.commands
    ]
    steps = [run(command, Copied()) for command in commands]
    messages: list[Message] = []
    if scene.chats:
        messages = conversation(bundle) + called(bundle)
        print("\n".join(f"{message.role}: {message.text}" for message in messages))
    seconds = time.monotonic() - began
    print(f"\n-> {scene.story} ({seconds:.0f} s)")
    return Run(scene, steps, report, seconds, messages)


def demonstrate(scenes: Sequence[Scene], folder: Path) -> None:
    """Run the scenes and write the page about them, folder/index.html."""
    for part in ("bundles", "reports"):
        (folder / part).mkdir(parents=True, exist_ok=True)
    runs = [tell(scene, folder) for scene in scenes]
    (folder / "index.html").write_text(page(runs, folder), encoding="utf-8")
    seconds = sum(one.seconds for one in runs)
    print(f"\n{len(runs)} models, all equal to their originals, in {seconds:.0f} s: open {folder}/index.html")


if __name__ == "__main__":
    demonstrate(SCENES, Path("demo"))
