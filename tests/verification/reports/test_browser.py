"""The HTML report as a browser shows it: nothing beside the page, nothing cut, no word broken."""

import math

import pytest
from helpers.chromium import MISSING, chromium
from helpers.pages import LAYOUT
from helpers.reports import hostile

from txexport.support.printable import clean
from txexport.verification import CaseReport, Report, TensorCheck, reports
from txexport.verification.agreement import Behaviour

# Tables of checks that must be scrolled, errors that left the line of their case, and the cases there are.
CASES = """(() => {
  const lines = [...document.querySelectorAll("section > details > summary")];
  return {
    cut: [...document.querySelectorAll("details[open] .wide")]
      .filter((e) => e.scrollWidth > e.clientWidth).map((e) => e.textContent),
    fallen: lines.filter((e) => {
      const error = e.querySelector(".error");
      return error && error.getBoundingClientRect().bottom > e.getBoundingClientRect().bottom + 1;
    }).map((e) => e.textContent),
    cases: lines.filter((e) => e.offsetHeight > 0).map((e) => e.innerText),
  };
})()"""


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


@pytest.mark.skipif(MISSING is not None, reason=str(MISSING))
def test_page_fits_a_phone_and_a_desk(tmp_path):
    both = [hostile(), long_names()]
    reports.write(both, tmp_path / "page.html")
    backs = set()
    with chromium() as page:
        for width, dark in ((390, False), (390, True), (1280, False)):
            page.open((tmp_path / "page.html").as_uri(), width=width, dark=dark)
            layout = page.until(LAYOUT)
            backs.add(layout.pop("back"))
            assert layout == {"width": width, "scroll": width, "beyond": [], "scrolled": [], "broken": []}
            measured = page.value(CASES)
            lines = [" ".join(line.split()) for line in measured.pop("cases")]
            assert measured == {"cut": [], "fallen": []}
            cases = [case for report in both for case in report.cases]
            for line, case in zip(lines, cases, strict=True):
                assert " ".join(clean(f"{case.name} {case.reference}").split()) in line
                assert {True: "ok", False: "FAILED"}[case.ok] in line or case.skipped is not None
    assert len(backs) == 2
    assert page.errors == []
