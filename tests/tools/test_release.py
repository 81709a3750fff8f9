"""A release's metadata agrees everywhere, and builds are reproducible."""

import hashlib
import json
import re
import subprocess
import tomllib

import pytest
import yaml
from helpers.project import ROOT
from releasing import licences
from releasing.dependencies import Package

import txexport

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def of_yaml(path: str):
    return yaml.safe_load((ROOT / path).read_text(encoding="utf-8"))


def pythons() -> list[str]:
    """The Python versions in the classifiers."""
    named = (
        re.fullmatch(r"Programming Language :: Python :: (3\.\d+)", one) for one in PROJECT["classifiers"]
    )
    return [one[1] for one in named if one is not None]


def test_version_is_the_same_everywhere():
    assert of_yaml("CITATION.cff")["version"] == PROJECT["version"]
    assert txexport.__version__ == PROJECT["version"]
    site = tomllib.loads((ROOT / "docs/zensical.toml").read_text(encoding="utf-8"))["project"]
    assert site["copyright"].startswith(f"txexport {PROJECT['version']}, ")


def test_every_extra_is_explained():
    text = (ROOT / "docs/guides/export.md").read_text(encoding="utf-8")
    table = text.partition("## What to install")[2].partition("\n\n`gpu` instead")[0]
    named = {
        one
        for cell in re.findall(r"^\| (`[^|]+`) \|", table, re.MULTILINE)
        for one in re.findall(r"[\w-]+", cell)
    }
    assert named - {"pip", "install"} == PROJECT["optional-dependencies"].keys() - {"gpu"}


def test_pythons_that_are_named_are_tested():
    jobs = of_yaml(".github/workflows/tests.yml")["jobs"]
    assert jobs["tests"]["strategy"]["matrix"]["python"] == pythons()
    assert PROJECT["requires-python"] == f">={pythons()[0]}"
    set_up = next(step for step in jobs["uses"]["steps"] if "setup-python" in step.get("uses", ""))
    assert set_up["with"]["python-version"].split() == pythons()
    assert jobs["uses"]["steps"][-1]["run"].split() == [
        "tools/release",
        *(f"python{one}" for one in pythons()),
    ]


@pytest.mark.parametrize(
    "path", sorted((ROOT / ".github/workflows").glob("*.yml")), ids=lambda path: path.stem
)
def test_workflows_may_do_no_more_than_they_must(path):
    """Only the publishing job has an identity token, and no job stores credentials."""
    values = of_yaml(str(path.relative_to(ROOT)))
    assert values["permissions"] == {"contents": "read"}
    for name, job in values["jobs"].items():
        assert set(job.get("permissions", {})) <= (
            {"attestations", "id-token", "pages"} if name in ("publish", "deploy") else set()
        )
        assert job["runs-on"]
        for step in job["steps"]:
            if step.get("uses", "").startswith("actions/checkout"):
                assert step["with"]["persist-credentials"] is False
            assert "secrets." not in str(step)
            command = step.get("run", "").split()
            if command and command[0].startswith("tools/"):
                assert (ROOT / command[0]).is_file()


def test_actions_are_pinned_by_commit():
    """A tag can be moved to other code; a commit cannot. Dependabot proposes the commits of new versions."""
    commits: dict[str, set[str]] = {}
    for path in [*(ROOT / ".github/workflows").glob("*.yml"), ROOT / "examples/ci/parity.yml"]:
        for line in path.read_text(encoding="utf-8").splitlines():
            if re.search(r"\buses: \S+/", line):
                pin = re.fullmatch(r" +(?:- )?uses: ([\w/-]+)@([0-9a-f]{40}) # v\d+\.\d+\.\d+", line)
                assert pin is not None, (path.name, line)
                commits.setdefault(pin[1], set()).add(pin[2])
    assert len(commits) == 8
    assert {name: len(pins) for name, pins in commits.items()} == dict.fromkeys(commits, 1)
    [update] = of_yaml(".github/dependabot.yml")["updates"]
    assert update["package-ecosystem"] == "github-actions"


def test_published_files_are_attested_by_the_job_that_pypi_trusts():
    publish = of_yaml(".github/workflows/release.yml")["jobs"]["publish"]
    assert publish["permissions"] == {"attestations": "write", "id-token": "write"}
    assert publish["environment"]["name"] == "pypi"
    assert publish["steps"][-1]["uses"].startswith("pypa/gh-action-pypi-publish@")
    assert publish["steps"][-1]["with"] == {"attestations": True}
    materials = next(step["with"] for step in publish["steps"] if "actions/attest@" in step.get("uses", ""))
    assert materials == {"subject-path": "dist/*", "sbom-path": "sbom.cdx.json"}


def test_source_distribution_has_what_a_packager_needs():
    hatch = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["hatch"]["build"]
    included = hatch["targets"]["sdist"]["include"]
    assert all((ROOT / path.removeprefix("/")).exists() for path in included)
    assert {"/tests", "/CHANGELOG.md", "/SECURITY.md", "/CITATION.cff"} <= set(included)
    assert all((ROOT / path).is_dir() for path in hatch["targets"]["wheel"]["packages"])


def package(name: str, requires=(), extras=(), **metadata) -> Package:
    metadata |= {"requires_dist": requires}
    return Package(name, "1.0", metadata, frozenset(extras), None, {"python_version": "3.11"})


@pytest.mark.parametrize(
    ("metadata", "expected"),
    [
        ({"license_expression": "mit", "license": "GPL"}, "MIT"),
        ({"license": "Apache 2.0"}, "Apache-2.0"),
        ({"license": "MPL-2.0 AND MIT"}, "MPL-2.0 AND MIT"),
        ({"license": "Copyright 2001\nAll", "classifier": ["License :: OSI Approved :: MIT License"]}, "MIT"),
        ({"classifier": ["License :: OSI Approved", "License :: OSI Approved :: MIT License"]}, None),
        ({"license": "Do what you like"}, None),
        ({}, None),
    ],
)
def test_a_licence_is_the_one_that_the_metadata_states(metadata, expected):
    assert licences.expression(package("one", **metadata)) == expected


@pytest.mark.parametrize(
    ("text", "is_allowed"),
    [
        ("MIT", True),
        ("GPL-3.0-only", False),
        ("GPL-3.0-only OR MIT", True),
        ("GPL-3.0-only AND MIT", False),
        ("MIT AND GPL-3.0-only OR MIT", True),
        ("MIT AND (GPL-3.0-only OR MIT)", True),
        ("(GPL-3.0-only OR MIT) AND (GPL-3.0-only AND MIT)", False),
        ("Apache-2.0 WITH LLVM-exception", True),
        ("MIT WITH LLVM-exception", False),
    ],
)
def test_a_licence_is_allowed_if_what_it_combines_is(text, is_allowed):
    assert licences.allowed(text) is is_allowed


def test_an_unknown_or_forbidden_licence_stops_a_release():
    packages = {
        name: package(name, **metadata)
        for name, metadata in {
            "plain": {"license_expression": "MIT"},
            "silent": {},
            "odd": {"license": "Beerware 42"},
            "strict": {"license_expression": "AGPL-3.0-or-later"},
            "nvidia-cublas": {"license": "Proprietary"},
        }.items()
    }
    hint = "add it to tools/releasing/licences.toml, or drop it"
    assert licences.complaints(packages) == [
        f"silent 1.0 states no licence; {hint}",
        f"odd 1.0 states the licence 'Beerware 42'; {hint}",
        "strict 1.0 has the licence AGPL-3.0-or-later, which is not allowed",
    ]
    assert all(licences.allowed(one["licence"]) for one in licences.RULES["packages"].values())
    assert all(one["reason"] for one in licences.RULES["packages"].values())
    assert all(licences.spdx(name) for name in licences.RULES["names"])


def test_dependencies_are_those_of_the_extras_and_of_this_python():
    lines = ["a>=1", "b; extra == 'x'", "c; extra == 'y'", "d; python_version < '3.11'"]
    assert package("txexport", lines, {"x", "y"}).requires() == ["a", "b", "c"]
    assert package("txexport", lines, {"x", "y"}).requires("x") == ["a", "b"]
    assert package("txexport", lines).requires() == ["a"]


@pytest.mark.slow
def test_two_builds_are_the_same_bytes():
    done = subprocess.run([ROOT / "tools/release"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "two builds are the same: " in done.stdout
    assert done.stdout.count("PASSED") == 2
    assert re.search(r"^licences of \d+ packages are allowed: ", done.stdout, re.MULTILINE)
    [file] = (ROOT / "build/release").glob(f"txexport-{PROJECT['version']}.cdx.json")
    materials = json.loads(file.read_text(encoding="utf-8"))
    root = materials["metadata"]["component"]
    [wheel] = (ROOT / "dist").glob("*.whl")
    assert root["hashes"] == [{"alg": "SHA-256", "content": hashlib.sha256(wheel.read_bytes()).hexdigest()}]
    names = {one["name"] for one in materials["components"]}
    required = [re.match(r"[\w.-]+", line)[0] for line in PROJECT["dependencies"]]
    required += [
        re.match(r"[\w.-]+", line)[0] for lines in PROJECT["optional-dependencies"].values() for line in lines
    ]
    assert {re.sub(r"[-_.]+", "-", name).lower() for name in required} - {"txexport"} <= names
