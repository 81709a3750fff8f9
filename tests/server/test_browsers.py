"""Pages of the named origins may send requests, and probes say whether a server can answer."""

import httpx
import pytest
from helpers.serving import LIMITS, running

from txexport.errors import InputError
from txexport.server import serve

PAGE, OTHER = "https://example.com", "https://elsewhere.org"
ASKED = {"model": "encoder", "input": "A kitten sleeps."}


def preflight(address, origin):
    headers = {
        "Origin": origin,
        "Access-Control-Request-Method": "POST",
        "Access-Control-Request-Headers": "authorization, content-type",
    }
    return httpx.options(f"{address}/v1/embeddings", headers=headers)


def test_a_page_of_a_named_origin_is_answered_and_others_are_not(folders):
    with running({"encoder": folders["encoder"]}, keys=["k"], origins=[PAGE]) as (address, _):
        allowed = preflight(address, PAGE)
        assert allowed.status_code == 200
        assert allowed.headers["access-control-allow-origin"] == PAGE
        assert "POST" in allowed.headers["access-control-allow-methods"]
        assert "authorization" in allowed.headers["access-control-allow-headers"].lower()
        assert "access-control-allow-origin" not in preflight(address, OTHER).headers
        headers = {"Origin": PAGE, "Authorization": "Bearer k"}
        answer = httpx.post(f"{address}/v1/embeddings", json=ASKED, headers=headers)
        assert (answer.status_code, answer.headers["access-control-allow-origin"]) == (200, PAGE)
        refused = httpx.post(f"{address}/v1/embeddings", json=ASKED, headers={"Origin": PAGE})
        assert (refused.status_code, refused.headers["access-control-allow-origin"]) == (401, PAGE)


def test_without_origins_no_page_is_answered(server):
    assert "access-control-allow-origin" not in preflight(server[0], PAGE).headers


@pytest.mark.parametrize("origin", ["example.com", "https://example.com/", "https://*.example.com", ""])
def test_an_origin_in_another_form_is_refused(origin, folders):
    with pytest.raises(
        InputError, match=r"^cors has '.*', expected an origin such as https://example.com, or \*$"
    ):
        serve(folders["encoder"], cors=[origin])


def test_probes_tell_a_full_server_from_a_broken_one(folders, monkeypatch):
    def status(path):
        answer = httpx.get(f"{address}{path}")
        return answer.status_code, answer.json()

    with running({"encoder": folders["encoder"]}, LIMITS, keys=["k"]) as (address, served):
        for path in ("/health", "/healthz", "/readyz"):
            assert status(path) == (200, {"status": "ok"}), path
        monkeypatch.setattr(served["encoder"].calls, "most_waiting", 0)
        assert status("/readyz") == (503, {"status": "unavailable", "models": {"encoder": "full"}})
        assert status("/healthz")[0] == 200
        served["encoder"].calls.stop()
        stopped = {"status": "unavailable", "models": {"encoder": "stopped"}}
        for path in ("/health", "/healthz", "/readyz"):
            assert status(path) == (503, stopped), path
