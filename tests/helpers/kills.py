"""Kill exports at every step, each in a fork of this process, which has imported all they need.

python tests/helpers/kills.py FOLDER random COUNT SEED          at random moments
python tests/helpers/kills.py FOLDER steps exchange|renames     before every system call on the bundle

FOLDER has two checkpoints, `a` and `b`; `out` is a bundle of one of them when an export of the other is
killed. After each kill a third process must find a complete bundle of either; the next export must leave no
other files. Results are printed as JSON; any other outcome is an AssertionError. POSIX only.
"""

import json
import os
import random
import re
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path

import txexport
from txexport import bundle
from txexport.bundle import swap


def fork(action: Callable[[], object]) -> int:
    """Fork a child that runs `action` and exits with 0, or with 1 where it raises; return its id."""
    child = os.fork()
    if child:
        return child
    try:
        action()
        os._exit(0)
    except BaseException:
        sys.excepthook(*sys.exc_info())
        os._exit(1)


def ended(child: int) -> int:
    """Wait for a child; its exit code, or minus the signal that ended it."""
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def whole(out: Path) -> None:
    """Raise unless the bundle at `out` equals one that an export wrote, byte for byte, and loads."""
    manifest = bundle.read(out)
    bundle.check(out, manifest)
    graphs = {graph.file: graph.sha256 for graph in manifest.every_graph}
    weights = {path: data.sha256 for path, data in manifest.data.items()}
    written = graphs | weights | manifest.companions
    assert bundle.files_sha256(out) == written | {bundle.MANIFEST: manifest.sha256}
    assert sorted(bundle.present(out)) == sorted(manifest.files)
    assert txexport.load(out, device="cpu", threads=1).manifest == manifest


def standing(folder: Path) -> str:
    """The checkpoint of the bundle at `out`, by `whole` and by its manifest."""
    assert ended(fork(partial(whole, folder / "out"))) == 0, sorted(folder.iterdir())
    return Path(bundle.read(folder / "out").source.path).name


def other(name: str) -> str:
    return "b" if name == "a" else "a"


def export(folder: Path, name: str) -> None:
    txexport.export(folder / name, folder / "out", force=True, only="native")


def export_and_look(folder: Path, name: str) -> float:
    """Export undisturbed, which must leave no other files; return the seconds it took."""
    begun = time.monotonic()
    assert ended(fork(partial(export, folder, name))) == 0
    taken = time.monotonic() - begun
    assert sorted(path.name for path in folder.iterdir()) == ["a", "b", "out"]
    assert standing(folder) == name
    return taken


def killed_at_random(folder: Path, count: int, seed: int) -> Counter[str]:
    """Kill `count` exports after a random time, up to slightly more than one takes."""
    seen: Counter[str] = Counter()
    draw = random.Random(seed)
    before = "a"
    longest = max(export_and_look(folder, name) for name in ("b", "a"))
    for _ in range(count):
        child = fork(partial(export, folder, other(before)))
        time.sleep(draw.uniform(0, 1.1 * longest))
        os.kill(child, signal.SIGKILL)
        assert ended(child) in (0, -signal.SIGKILL)
        seen["with leftovers"] += len(list(folder.iterdir())) > 3
        after = standing(folder)
        seen["old" if after == before else "new"] += 1
        before = after
        if draw.random() < 0.5:  # else the next export to be killed has leftovers to remove
            before = other(before)
            export_and_look(folder, before)
    export_and_look(folder, before)
    return seen


def kill_before(step: int, folder: Path, name: str) -> None:
    """Export, and be killed before the `step`-th call on the lock, the bundle or its neighbours.

    Calls within the folder being written are not counted: they are many, and equivalent.
    """
    beside = re.compile(rf"{re.escape(str(folder))}(/\.?out.*)?")
    within = re.compile(rf"{re.escape(str(folder))}/\.out\.txexport-partial-[^/]*/.*")
    left = step

    def hook(event: str, arguments: tuple) -> None:
        nonlocal left
        paths = [os.fspath(a) for a in arguments if isinstance(a, str | Path)]
        ours = any(beside.fullmatch(path) and not within.fullmatch(path) for path in paths)
        if event in ("fcntl.flock", "os.truncate") or (ours and event.startswith(("open", "os."))):
            left -= 1
            if left < 0:
                os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(hook)
    export(folder, name)


def killed_at_every_step(folder: Path, way: str) -> Counter[str]:
    """Kill an export before every call, with the system's exchange of folders or without it."""
    if way == "renames":
        swap.exchange = lambda a, b: False
    elif not swap_works(folder):
        return Counter({"no exchange here": 1})
    seen: Counter[str] = Counter()
    before, step, code = "a", 0, -signal.SIGKILL
    export_and_look(folder, before)
    while code == -signal.SIGKILL:
        code = ended(fork(partial(kill_before, step, folder, other(before))))
        missing = not (folder / "out").exists()
        after = standing(folder)
        seen["old" if after == before else "new"] += 1
        seen["put back"] += missing
        before, step = other(after), step + 1
        export_and_look(folder, before)
    assert code == 0
    return seen


def swap_works(folder: Path) -> bool:
    return swap.exchange(folder / "a", folder / "b") and swap.exchange(folder / "a", folder / "b")


if __name__ == "__main__":
    place, mode, *rest = sys.argv[1:]
    export(Path(place), "a")  # imports everything
    whole(Path(place) / "out")
    if mode == "random":
        found = killed_at_random(Path(place), int(rest[0]), int(rest[1]))
    else:
        found = killed_at_every_step(Path(place), *rest)
    print(json.dumps(found))
