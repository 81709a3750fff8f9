"""A bundle is replaced atomically, with concurrent exports and after a kill."""

import contextlib
import errno
import json
import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import tiny_checkpoint
from click.testing import CliRunner
from helpers.project import ROOT

from txexport import bundle
from txexport.bundle import swap
from txexport.cli.main import main
from txexport.errors import BundleError, CheckpointError
from txexport.exporter import bundle_writing, export, staging
from txexport.inspection import inspect
from txexport.runtime import load
from txexport.verification import verify


def test_existing_folder_is_refused_and_force_replaces_only_a_bundle(checkpoint_of, tmp_path):
    out = tmp_path / "out"
    export(checkpoint_of("bert"), out)
    before = (out / "txexport.json").read_bytes()
    with pytest.raises(BundleError, match="exists; choose another folder, or --force"):
        export(checkpoint_of("gpt2"), out)
    assert (out / "txexport.json").read_bytes() == before
    export(checkpoint_of("gpt2"), out, force=True)
    assert bundle.read(out).model_type == "gpt2"
    assert [path.name for path in tmp_path.iterdir()] == ["out"]
    with pytest.raises(BundleError, match=r"out/onnx/sub is within the bundle .*; choose a folder outside"):
        export(checkpoint_of("bert"), out / "onnx/sub")
    precious = tmp_path / "thesis"
    precious.mkdir()
    (precious / "chapter1.txt").write_text("all of it")
    with pytest.raises(BundleError, match="exists and is not a bundle; choose another folder"):
        export(checkpoint_of("bert"), precious, force=True)
    assert (precious / "chapter1.txt").read_text() == "all of it"


def test_force_loses_nothing_that_is_not_the_bundle_s(checkpoint_of, tmp_path):
    out = tmp_path / "out"
    export(checkpoint_of("bert"), out)
    (out / "notes.txt").write_text("mine")
    with pytest.raises(BundleError, match=r"holds files that no export wrote \(notes\.txt\); move them away"):
        export(checkpoint_of("bert"), out, force=True)
    (out / "notes.txt").unlink()
    (out / "onnx" / "model.onnx").unlink()  # an incomplete bundle may be replaced
    export(checkpoint_of("bert"), out, force=True)
    shutil.copytree(checkpoint_of("gpt2"), out / "nested")
    with pytest.raises(BundleError, match="holds the checkpoint itself"):
        export(out / "nested", out, force=True)
    assert (out / "nested" / "model.safetensors").is_file()


def test_force_takes_links_and_folders_for_what_no_export_wrote(checkpoint_of, tmp_path):
    out, precious = tmp_path / "out", tmp_path / "thesis"
    export(checkpoint_of("bert"), out)
    precious.mkdir()
    (precious / "model.onnx").write_text("all of it")
    (out / "onnx" / "model.onnx").unlink()
    for name, target in (("notes", precious), ("model.onnx", precious / "model.onnx"), ("dead", "nowhere")):
        (out / name).symlink_to(target)
        with pytest.raises(
            BundleError, match=rf"holds files that no export wrote \({name}\); move them away"
        ):
            export(checkpoint_of("bert"), out, force=True)
        (out / name).unlink()
    (out / "drafts").mkdir()
    with pytest.raises(BundleError, match=r"holds files that no export wrote \(drafts\); move them away"):
        export(checkpoint_of("bert"), out, force=True)
    assert (precious / "model.onnx").read_text() == "all of it"


def test_force_reaches_nothing_outside_whatever_the_manifest_lists(checkpoint_of, tmp_path):
    out = tmp_path / "out"
    export(checkpoint_of("bert"), out)
    (tmp_path / "thesis.txt").write_text("all of it")
    manifest = json.loads((out / "txexport.json").read_text())
    manifest["companions"]["../thesis.txt"] = "0" * 64
    (out / "txexport.json").write_text(json.dumps(manifest))
    with pytest.raises(BundleError, match="cannot be read; remove the folder yourself"):
        export(checkpoint_of("bert"), out, force=True)
    assert (tmp_path / "thesis.txt").read_text() == "all of it"


@pytest.mark.parametrize("exchange", [True, False], ids=["exchange", "renames"])
def test_what_appears_in_the_old_bundle_at_the_last_moment_is_kept(
    exchange, checkpoint_of, tmp_path, monkeypatch
):
    out, precious, put = tmp_path / "out", tmp_path / "thesis", swap.put
    export(checkpoint_of("bert"), out)
    precious.mkdir()
    (precious / "chapter1.txt").write_text("all of it")

    def late(partial, target):
        (out / "1_notes").mkdir()
        (out / "1_notes" / "mine.txt").write_text("mine")
        (out / "thesis").symlink_to(precious)
        (out / "config.json").unlink()
        (out / "config.json").symlink_to(precious / "chapter1.txt")
        put(partial, target)

    if not exchange:
        without_exchange(monkeypatch)
    monkeypatch.setattr("txexport.bundle.swap.put", late)
    said = r"has files that no export wrote \(1_notes, config\.json, thesis\); move them away"
    with pytest.warns(UserWarning, match=said) as caught:
        export(checkpoint_of("gpt2"), out, force=True)
    monkeypatch.setattr("txexport.bundle.swap.put", put)
    assert bundle.read(out).model_type == "gpt2"
    [kept] = tmp_path.glob(".out.txexport-replaced-*")
    assert str(kept) in str(caught[0].message)
    assert (kept / "1_notes" / "mine.txt").read_text() == "mine"
    assert (precious / "chapter1.txt").read_text() == "all of it"
    with pytest.warns(UserWarning, match=said):  # as long as they are there
        export(checkpoint_of("gpt2"), out, force=True)
    for name in ("thesis", "config.json"):
        (kept / name).unlink()
    (kept / "1_notes" / "mine.txt").unlink()
    export(checkpoint_of("gpt2"), out, force=True)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out", "thesis"]


def without_exchange(monkeypatch):
    """As on a system that cannot exchange two folders."""
    monkeypatch.setattr("txexport.bundle.swap.exchange", lambda a, b: False)


def test_second_rename_that_fails_puts_the_old_bundle_back(checkpoint_of, tmp_path, monkeypatch):
    out, rename = tmp_path / "out", os.rename
    export(checkpoint_of("bert"), out)

    def failing(source, target):
        if ".txexport-partial-" in str(source):
            monkeypatch.setattr("txexport.bundle.swap.os.rename", rename)
            raise OSError(errno.EIO, "Input/output error")
        rename(source, target)

    without_exchange(monkeypatch)
    monkeypatch.setattr("txexport.bundle.swap.os.rename", failing)
    with pytest.raises(BundleError, match="Input/output error; it is unchanged"):
        export(checkpoint_of("gpt2"), out, force=True)
    assert bundle.read(out).model_type == "bert"
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_a_folder_that_takes_the_place_between_the_renames_costs_no_bundle(
    checkpoint_of, tmp_path, monkeypatch
):
    out, rename = tmp_path / "out", os.rename
    export(checkpoint_of("bert"), out)

    def squatted(source, target):
        rename(source, target)
        if source == out:
            out.mkdir()
            (out / "thesis.txt").write_text("all of it")

    without_exchange(monkeypatch)
    monkeypatch.setattr("txexport.bundle.swap.os.rename", squatted)
    with (
        pytest.warns(UserWarning, match=r"the bundle that was at .*out is now at .*\.out\.txexport-old-"),
        pytest.raises(BundleError, match="could not be written: Directory not empty"),
    ):
        export(checkpoint_of("gpt2"), out, force=True)
    assert (out / "thesis.txt").read_text() == "all of it"
    [old] = tmp_path.glob(".out.txexport-old-*")
    assert bundle.read(old).model_type == "bert"


AWAY = f".out.txexport-old-{os.getpid()}-1"  # as a kill between the renames leaves it; its process id lives


def test_kill_between_the_renames_loses_nothing(checkpoint_of, tmp_path):
    """Not even where another process has the id of the killed export."""
    out = tmp_path / "out"
    export(checkpoint_of("bert"), out)
    out.rename(tmp_path / AWAY)
    with pytest.raises(BundleError, match="exists"):
        export(checkpoint_of("gpt2"), out)
    assert bundle.read(out).model_type == "bert"
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


READERS = {
    "load": lambda out: load(out, device="cpu").manifest,
    "manifest": bundle.read,
    "inspect": inspect,
    "verify": lambda out: verify(out, reference="twin", cases="quick"),
    "command": lambda out: json.loads(CliRunner().invoke(main, ["inspect", str(out), "--json"]).stdout),
}


@pytest.mark.parametrize("empty", [False, True], ids=["nothing there", "an empty folder there"])
@pytest.mark.parametrize("reader", READERS)
def test_whoever_reads_a_bundle_puts_it_back(reader, empty, bundle_of, tmp_path):
    out = tmp_path / "out"
    shutil.copytree(bundle_of("bert"), tmp_path / AWAY)
    if empty:
        out.mkdir()
    assert READERS[reader](out)
    assert [path.name for path in tmp_path.iterdir()] == ["out"]
    assert bundle.read(out).model_type == "bert"


def test_a_bundle_that_cannot_be_put_back_is_one_line(bundle_of, tmp_path, monkeypatch):
    def forbidden(*_):
        raise PermissionError(errno.EACCES, "Permission denied")

    old = shutil.copytree(bundle_of("bert"), tmp_path / AWAY)
    monkeypatch.setattr("txexport.bundle.swap.os.rename", forbidden)
    with pytest.raises(BundleError, match="could not be moved back: Permission denied; rename it") as caught:
        load(tmp_path / "out")
    assert str(old) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_reader_waits_while_an_export_is_between_its_renames(bundle_of, tmp_path, monkeypatch):
    out, old = tmp_path / "out", tmp_path / AWAY
    shutil.copytree(bundle_of("bert"), old)
    waits = []

    def wait(seconds):
        waits.append(seconds)
        if len(waits) == 3:
            old.rename(out)

    with swap.locked(out):
        monkeypatch.setattr("txexport.bundle.swap.time.sleep", wait)
        assert bundle.read(out).model_type == "bert"
        assert waits == [swap.WAIT] * 3
        out.rename(old)
        with pytest.raises(BundleError, match=r"another export is writing .*out; try again"):
            bundle.read(out)
    assert old.is_dir()


def test_folders_of_the_user_beside_it_are_not_touched(checkpoint_of, tmp_path):
    mine = [
        tmp_path / name
        for name in (".out.old", ".out.partial-2024-1", ".out.txexport-old", ".out.txexport-old-2024-thesis")
    ]
    for folder in mine:
        folder.mkdir()
        (folder / "mine.txt").write_text("precious")
    for _ in range(2):
        export(checkpoint_of("bert"), tmp_path / "out", force=True)
    assert [(folder / "mine.txt").read_text() for folder in mine] == ["precious"] * 4


def test_two_exports_at_once_do_not_mix(checkpoint_of, tmp_path, monkeypatch):
    """The first completes, and the second fails at once."""
    out, write = tmp_path / "out", bundle_writing._write_graphs

    def interrupted(*arguments):
        monkeypatch.setattr("txexport.exporter.bundle_writing._write_graphs", write)
        for force in (False, True):
            with pytest.raises(BundleError, match=r"another export is writing .*out; wait for it"):
                export(checkpoint_of("gpt2"), out, force=force)
        return write(*arguments)

    monkeypatch.setattr("txexport.exporter.bundle_writing._write_graphs", interrupted)
    export(checkpoint_of("bert"), out)
    assert [path.name for path in tmp_path.iterdir()] == ["out"]
    assert verify(out).ok
    assert bundle.read(out).model_type == "bert"


def test_leftovers_go_whatever_process_has_their_id_now(checkpoint_of, tmp_path):
    """In a container every export is process 1."""
    for number in (1, os.getpid()):
        (tmp_path / f".out.txexport-partial-{number}-5").mkdir()
        (tmp_path / f".out.txexport-partial-{number}-5" / "half").write_text("half")
    export(checkpoint_of("bert"), tmp_path / "out")
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_without_locks_nothing_is_written_nor_removed(checkpoint_of, tmp_path, monkeypatch):
    """A file system without locks cannot tell a running export on another host from a killed one."""
    fcntl = pytest.importorskip("fcntl", reason="Windows locks otherwise")

    def unsupported(*_):
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    running = tmp_path / ".out.txexport-partial-1-1"
    running.mkdir()
    monkeypatch.setattr(fcntl, "flock", unsupported)
    with pytest.raises(BundleError, match="could not be written: No locks available; it is unchanged"):
        export(checkpoint_of("bert"), tmp_path / "out")
    assert running.is_dir()
    assert not (tmp_path / "out").exists()


@pytest.mark.skipif(sys.platform == "win32", reason="Windows removes no file that another has open")
@pytest.mark.parametrize("way", ["removed", "killed while removing", "another host still sees it"])
def test_a_lock_file_that_was_given_up_while_it_was_opened_is_no_lock(way, tmp_path, monkeypatch):
    out, lock, take = tmp_path / "out", tmp_path / ".out.txexport-lock", swap._take
    first = swap.locked(out)
    first.__enter__()
    if way.startswith("another"):
        os.link(lock, tmp_path / ".nfs0001")
    if way.startswith("killed"):
        monkeypatch.setattr("txexport.bundle.swap.os.ftruncate", lambda *_: None)
    given_up = os.stat(lock).st_ino

    def late(file):
        monkeypatch.setattr(swap, "_take", take)
        assert os.fstat(file).st_ino == given_up
        first.__exit__(None, None, None)
        return take(file)

    monkeypatch.setattr(swap, "_take", late)
    with swap.locked(out):
        with pytest.raises(BundleError, match="another export is writing"), swap.locked(out):
            pass
        assert lock.is_file()
    assert not lock.exists()


def test_a_lock_file_that_is_something_else_is_left_alone(checkpoint_of, tmp_path):
    lock, notes = tmp_path / ".out.txexport-lock", tmp_path / "notes.txt"
    lock.write_text("mine")
    with pytest.raises(BundleError, match="is not empty, so it is no lock file; move it away"):
        export(checkpoint_of("bert"), tmp_path / "out")
    assert lock.read_text() == "mine"
    lock.unlink()
    notes.touch()
    lock.symlink_to(notes)
    with pytest.raises(BundleError, match="could not be written"):
        export(checkpoint_of("bert"), tmp_path / "out")
    assert notes.read_bytes() == b""
    assert sorted(path.name for path in tmp_path.iterdir()) == [".out.txexport-lock", "notes.txt"]


def test_odd_paths(checkpoint_of, tmp_path, monkeypatch):
    empty = tmp_path / "made by mktemp"
    empty.mkdir()
    export(checkpoint_of("bert"), f"{empty}/")
    assert bundle.read(empty).model_type == "bert"
    monkeypatch.chdir(empty)
    export(checkpoint_of("gpt2"), ".", force=True)
    assert bundle.read(empty).model_type == "gpt2"
    (tmp_path / "link").symlink_to(empty)
    export(checkpoint_of("bert"), tmp_path / "link", force=True)
    assert (tmp_path / "link").is_symlink()
    assert bundle.read(empty).model_type == "bert"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["link", "made by mktemp"]
    export(checkpoint_of("bert"), tmp_path / "a" / "b" / "c")
    file = tmp_path / "file"
    file.touch()
    with pytest.raises(BundleError, match="exists and is not a bundle"):
        export(checkpoint_of("bert"), file)
    with pytest.raises(BundleError, match="could not be written: File exists"):
        export(checkpoint_of("bert"), file / "below")


def test_failed_export_leaves_the_old_bundle_and_nothing_else(checkpoint_of, tmp_path, monkeypatch):
    out = tmp_path / "out"
    export(checkpoint_of("bert"), out)
    before = (out / "txexport.json").read_bytes()
    monkeypatch.setattr("txexport.exporter.bundle_plan.models", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        export(checkpoint_of("bert"), out, force=True)
    assert (out / "txexport.json").read_bytes() == before
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_full_disk_is_one_line_and_leaves_nothing(checkpoint_of, tmp_path, monkeypatch):
    def full(*_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("txexport.exporter.bundle_writing.onnx.save", full)
    with pytest.raises(BundleError, match="could not be written: No space left on device") as caught:
        export(checkpoint_of("bert"), tmp_path / "out")
    assert "\n" not in str(caught.value)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["model.safetensors", "config.json", "tokenizer.json"])
def test_source_that_cannot_be_read_is_named_and_not_the_bundle(name, checkpoint_of, tmp_path, monkeypatch):
    """An error of the checkpoint's disk must not name the bundle's."""
    source = checkpoint_of("bert")

    def failing(path, *arguments, **options):
        if path == source / name:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return open(path, *arguments, **options)

    @contextlib.contextmanager
    def placed(*arguments):
        with staging.placed(*arguments) as folder:
            monkeypatch.setattr(Path, "open", failing)
            yield folder

    monkeypatch.setattr(bundle_writing, "placed", placed)
    with pytest.raises(CheckpointError, match=f"^{re.escape(str(source / name))} cannot be read: Input"):
        export(source, tmp_path / "out")
    assert list(tmp_path.iterdir()) == []


SLOW_EXPORT = """
import sys, time
from txexport.cli.main import main
from txexport.exporter import bundle_writing
def slowly(*arguments):
    print("half way", flush=True)
    time.sleep(60)
bundle_writing._write_graphs = slowly
main(["export", *sys.argv[1:]])
"""


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no SIGTERM to send")
@pytest.mark.parametrize("kill", [signal.SIGTERM, signal.SIGINT, signal.SIGKILL])
def test_killed_export_leaves_nothing_half_written(kill, checkpoint_of, tmp_path):
    source, out = checkpoint_of("bert"), tmp_path / "out"
    command = [sys.executable, "-c", SLOW_EXPORT, str(source), str(out)]
    process = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # which a shell's "&" ignores
    )
    assert process.stdout.readline() == "half way\n"
    with pytest.raises(BundleError, match="another export is writing"):
        export(source, out)
    process.send_signal(kill)
    assert process.wait(timeout=30) != 0
    assert not out.exists()
    if kill != signal.SIGKILL:
        assert list(tmp_path.iterdir()) == []
    export(source, out)  # and a kill that nothing can catch leaves nothing that hinders the next
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def killed(tmp_path: Path, *mode: str) -> dict[str, int]:
    """The results of helpers/kills.py, in a process whose forks copy no threads."""
    for name, seed in (("a", 0), ("b", 1)):
        tiny_checkpoint.save(tmp_path / name, "bert", seed=seed, num_hidden_layers=1)
    command = [sys.executable, str(ROOT / "tests/helpers/kills.py"), str(tmp_path), *mode]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


POSIX = pytest.mark.skipif(sys.platform == "win32", reason="Windows has neither fork nor SIGKILL")


@POSIX
@pytest.mark.parametrize("count", [8, pytest.param(200, marks=pytest.mark.slow)])
def test_kills_at_random_leave_the_old_bundle_or_the_new(count, tmp_path):
    seen = killed(tmp_path, "random", str(count), "13")
    assert seen.get("old", 0) + seen.get("new", 0) == count
    if count == 200:  # of a few, none may be killed while it writes
        assert seen["with leftovers"] > 0


@POSIX
@pytest.mark.slow
@pytest.mark.parametrize("way", ["exchange", "renames"])
def test_kills_before_every_call_of_the_swap_leave_the_old_bundle_or_the_new(way, tmp_path):
    seen = killed(tmp_path, "steps", way)
    if seen.get("no exchange here"):
        pytest.skip("this system cannot let two folders change places")
    assert seen["old"] > 10
    assert seen["new"] > 10
    assert seen["put back"] == (way == "renames")  # with an exchange one of the two exists at any time
