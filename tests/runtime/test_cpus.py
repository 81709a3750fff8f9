"""Threads are as many as a container may use: more only wait for each other."""

import os

import onnxruntime
import pytest

import txexport
from txexport.runtime import cpus
from txexport.runtime.engines import onnxruntime as engine


@pytest.fixture
def machine(monkeypatch, tmp_path):
    """A machine of 64 processors, of which the process may run on 48; gives a function that writes files."""
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: set(range(48)), raising=False)
    monkeypatch.setattr(os, "cpu_count", lambda: 64)

    def write(files):
        for name, text in files.items():
            path = tmp_path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        return tmp_path

    return write


GROUPS, MINE = "sys/fs/cgroup", "proc/self/cgroup"
V1 = "5:memory:/a\n4:cpu,cpuacct:/docker/abc\n0::/\n"


@pytest.mark.parametrize(
    ("files", "count"),
    [
        pytest.param({}, 48, id="no groups"),
        pytest.param({MINE: "0::/\n", f"{GROUPS}/cpu.max": "max 100000\n"}, 48, id="no limit"),
        pytest.param({MINE: "0::/\n", f"{GROUPS}/cpu.max": "400000 100000\n"}, 4, id="v2"),
        pytest.param({MINE: "0::/\n", f"{GROUPS}/cpu.max": "250000 100000\n"}, 2, id="a half is none"),
        pytest.param({MINE: "0::/\n", f"{GROUPS}/cpu.max": "50000 100000\n"}, 1, id="below one"),
        pytest.param({MINE: "0::/\n", f"{GROUPS}/cpu.max": "6400000 100000\n"}, 48, id="more than there are"),
        pytest.param({MINE: "0::/\n", f"{GROUPS}/cpu.max": "?\n"}, 48, id="damaged"),
        pytest.param({MINE: "0::/\n", f"{GROUPS}/cpu.max": "100000 0\n"}, 48, id="no period"),
        pytest.param(
            {
                MINE: "0::/a.slice/b.scope\n",
                f"{GROUPS}/a.slice/cpu.max": "300000 100000\n",
                f"{GROUPS}/a.slice/b.scope/cpu.max": "800000 100000\n",
            },
            3,
            id="v2, the group around it",
        ),
        pytest.param(
            {MINE: "0::/outside/here\n", f"{GROUPS}/cpu.max": "500000 100000\n"}, 5, id="v2, the host's name"
        ),
        pytest.param(
            {
                MINE: V1,
                f"{GROUPS}/cpu,cpuacct/docker/abc/cpu.cfs_quota_us": "600000\n",
                f"{GROUPS}/cpu,cpuacct/docker/abc/cpu.cfs_period_us": "100000\n",
            },
            6,
            id="v1",
        ),
        pytest.param(
            {
                MINE: V1,
                f"{GROUPS}/cpu/cpu.cfs_quota_us": "35000\n",
                f"{GROUPS}/cpu/cpu.cfs_period_us": "5000\n",
            },
            7,
            id="v1, the host's name",
        ),
        pytest.param(
            {
                MINE: V1,
                f"{GROUPS}/cpu/cpu.cfs_quota_us": "-1\n",
                f"{GROUPS}/cpu/cpu.cfs_period_us": "100000\n",
            },
            48,
            id="v1, no limit",
        ),
        pytest.param(
            {
                MINE: "3:memory:/\n0::/x\n",
                f"{GROUPS}/unified/x/cpu.max": "900000 100000\n",
                f"{GROUPS}/memory/cpu.max": "100000 100000\n",
            },
            9,
            id="both versions",
        ),
    ],
)
def test_a_container_has_what_its_groups_and_its_affinity_leave(machine, files, count):
    assert cpus.available(machine(files)) == count


def test_a_system_without_affinity_has_all_processors(machine, monkeypatch, tmp_path):
    monkeypatch.delattr(os, "sched_getaffinity", raising=False)
    assert cpus.available(tmp_path) == 64


@pytest.mark.parametrize(("given", "processors", "threads"), [(None, 3, 3), (None, 64, None), (5, 3, 5)])
def test_a_session_has_as_many_threads(bundle_of, monkeypatch, given, processors, threads):
    """On a machine of one's own their number is left to ONNX Runtime, which counts cores."""
    options, made = [], engine.session_options
    monkeypatch.setattr(os, "cpu_count", lambda: 64)
    monkeypatch.setattr(cpus, "available", lambda: processors)
    monkeypatch.setattr(engine, "session_options", lambda exact: options.append(made(exact)) or options[-1])
    txexport.load(bundle_of("bert"), device="cpu", threads=given).close()
    default = onnxruntime.SessionOptions().intra_op_num_threads
    assert [option.intra_op_num_threads for option in options] == [threads or default]
