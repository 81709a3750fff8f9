"""The HTML report as a browser shows it on a phone: nothing beside the page, nothing over something else."""

import json
import math
import re
import shutil
import subprocess
from html import escape, unescape
from pathlib import Path

import pytest
from helpers.reports import hostile

from txexport.printable import clean
from txexport.verification import CaseReport, Report, TensorCheck, reports
from txexport.verification.agreement import Behaviour

WIDTH = 390
CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)

# Chromium's own window is never narrower than 500 pixels, a frame in it may be.
HOST = """<!doctype html><script type="application/json" id="measured"></script>
<iframe style="width: {width}px; height: 844px; border: 0" srcdoc="{page}"></iframe>"""

# Measures the page: what reaches beyond the window, tables of checks that must be scrolled, errors that left
# the line of their case, and the cases that can be seen.
MEASURE = """<script>
const inner = [...document.querySelectorAll("main *")].filter((e) => !e.closest(".wide, pre, svg"));
const lines = [...document.querySelectorAll("summary")];
parent.document.getElementById("measured").textContent = JSON.stringify({
  width: innerWidth,
  scroll: document.documentElement.scrollWidth,
  beyond: inner.filter((e) => e.getBoundingClientRect().right > innerWidth).map((e) => e.tagName),
  cut: [...document.querySelectorAll("details[open] .wide")]
    .filter((e) => e.scrollWidth > e.clientWidth).map((e) => e.textContent),
  fallen: lines.filter((e) => {
    const error = e.querySelector(".error");
    return error && error.getBoundingClientRect().bottom > e.getBoundingClientRect().bottom + 1;
  }).map((e) => e.textContent),
  cases: lines.filter((e) => e.offsetHeight > 0).map((e) => e.innerText),
});
</script></body>"""


def long_names() -> Report:
    """Names as real ones are: a deep folder, weights of deep layers, a comparison with another folder."""
    other = "/home/somebody/projects/models/exported-by-another-tool/decoder_model_merged.onnx"
    checks = [
        TensorCheck("decoder.layers.31.feed_forward.experts.127.gate.weight", 123_456_789, 3.1e-7, 1e-5),
        TensorCheck("past_key_values.31.decoder.key", 1_234_567, math.inf, 1e-5),
        TensorCheck("prediction_logits", 12, 2.5e-2, 1e-5, 3.1e-7, Behaviour(86, 85, 1, 860, 859)),
    ]
    names = ["longest sequence, one step from its end", "two equal rows, several tokens a step", "one token"]
    cases = [CaseReport(name, other, checks, seconds=1.0) for name in names]
    cases += [CaseReport("raised", "twin", exception="InputError: " + "unbrokenword" * 20)]
    cases += [CaseReport("left padding", "transformers", skipped="a static cache pads on the right")]
    hashes = {"model-00001-of-00002.safetensors": "0123456789abcdef" * 4}
    where = {"platform": "Linux-6.18.44-x86_64-with-glibc2.36", "processor": "A long name of one, 128 cores"}
    folder = "/home/somebody/projects/models/" + "a-bundle-with-a-long-name" * 3
    return Report(folder, "mixtral", "text-generation", "cpu", {"numpy": "2"}, cases, where, hashes, hashes)


def shown(path: Path, *options: str) -> subprocess.CompletedProcess:
    """What Chromium makes of a page, and what it says of it."""
    assert CHROMIUM is not None
    profile = path.with_suffix(".profile")
    command = [
        CHROMIUM,
        "--headless=new",
        "--no-sandbox",
        "--disable-gpu",
        "--hide-scrollbars",
        f"--user-data-dir={profile}",
    ]
    command += [f"--window-size={WIDTH},844", "--enable-logging=stderr", *options, path.as_uri()]
    return subprocess.run(command, capture_output=True, text=True, timeout=240, check=True)


@pytest.mark.skipif(CHROMIUM is None, reason="no Chromium is installed to show the page in")
def test_page_fits_a_phone(tmp_path):
    both = [hostile(), long_names()]
    reports.write(both, tmp_path / "page.html")
    text = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert text.count("</body>") == 1
    page = escape(text.replace("</body>", MEASURE))
    (tmp_path / "host.html").write_text(HOST.format(width=WIDTH, page=page), encoding="utf-8")
    done = shown(tmp_path / "host.html", "--dump-dom")
    assert "CONSOLE" not in done.stderr, done.stderr
    measured = json.loads(unescape(re.search(r'id="measured">(.*?)</script>', done.stdout, re.S)[1]))
    lines = [" ".join(line.split()) for line in measured.pop("cases")]
    assert measured == {"width": WIDTH, "scroll": WIDTH, "beyond": [], "cut": [], "fallen": []}
    cases = [case for report in both for case in report.cases]
    for line, case in zip(lines, cases, strict=True):
        assert " ".join(clean(f"{case.name} {case.reference}").split()) in line
        assert {True: "ok", False: "FAILED"}[case.ok] in line or case.skipped is not None
