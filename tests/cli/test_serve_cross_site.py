"""Pages of other sites, and names that others made point here, against a node as it is served."""

from __future__ import annotations

import json
from http.client import HTTPConnection
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from tests.cli.test_serve_http import basic
from tests.host.local_clients import Client
from tests.s3.endpoint import Endpoint

pytestmark = pytest.mark.process

JSON = {"Content-Type": "application/json"}
EVIL = {"Origin": "https://evil.example", "Sec-Fetch-Site": "cross-site"}
FORM = {"Content-Type": "application/x-www-form-urlencoded"}
TRUNCATE = "/v1/topics/jobs/partitions/0/truncate"


class Browser:
    """Sends the access key with every request, as one that remembers it does."""

    def __init__(self, url: str) -> None:
        place = urlsplit(url)
        self.host = f"{place.hostname}:{place.port}"
        self._connection = HTTPConnection(self.host, timeout=60)

    def ask(
        self, method: str, path: str, body: str = "", headers: dict[str, str] | None = None
    ) -> tuple[int, Any]:
        sent = {**basic(), **(headers or {})}
        self._connection.request(method, path, body or None, sent)
        answer = self._connection.getresponse()
        data = answer.read()
        if "json" in answer.headers.get("Content-Type", ""):
            return answer.status, json.loads(data)
        return answer.status, data

    def close(self) -> None:
        self._connection.close()


def test_a_page_of_another_origin_changes_and_reads_nothing(tmp_path: Path) -> None:
    with Endpoint(tmp_path / "root") as endpoint:
        local = Client(endpoint.root)
        local.ask("PUT", "/v1/topics/jobs", {"partitions": 1})
        local.ask("POST", "/v1/topics/jobs/messages", {"values": ["eA=="]})
        browser = Browser(endpoint.http_url)
        truncate = json.dumps({"before": 1})
        for headers in ({**JSON, **EVIL}, {**JSON, "Origin": "null"}, {**FORM, **EVIL}):
            status, problem = browser.ask("POST", TRUNCATE, truncate, headers)
            assert (status, problem["code"]) == (403, "cross-site")
        status, problem = browser.ask("POST", "/v1/keys", "{}", {**JSON, **EVIL})
        assert (status, problem["code"]) == (403, "cross-site")
        assert browser.ask("GET", "/v1/keys", headers=EVIL)[0] == 403
        assert browser.ask("GET", "/metrics", headers=EVIL)[0] == 403
        local.close()
        own = {**JSON, "Origin": f"http://{browser.host}", "Sec-Fetch-Site": "same-origin"}
        status, topic = browser.ask("GET", "/v1/topics/jobs", headers=own)
        assert (status, topic["partitions"][0]["start_offset"]) == (200, 0), "nothing was truncated"
        assert browser.ask("GET", "/v1/keys", headers=own) == (200, {"keys": []})
        assert browser.ask("POST", TRUNCATE, truncate, own)[0] == 200
        browser.close()


@pytest.mark.parametrize("kind", ["application/x-www-form-urlencoded", "text/plain", None])
def test_a_form_of_an_old_browser_that_names_no_origin_changes_nothing(
    tmp_path: Path, kind: str | None
) -> None:
    with Endpoint(tmp_path / "root") as endpoint:
        browser = Browser(endpoint.http_url)
        assert browser.ask("PUT", "/v1/logs/orders", headers=JSON)[0] == 200
        headers = {} if kind is None else {"Content-Type": kind}
        for path in ("/v1/keys", "/v1/logs/orders/records"):
            status, problem = browser.ask("POST", path, "{}", headers)
            assert (status, problem["code"]) == (415, "unsupported-media"), path
        if kind is not None:
            assert browser.ask("POST", "/v1/logs/orders/seal", headers=headers)[0] == 415
        assert browser.ask("GET", "/v1/keys") == (200, {"keys": []})
        browser.close()


def test_a_name_that_is_not_the_nodes_is_refused_until_it_is_set(tmp_path: Path) -> None:
    foreign, proxied = {"Host": "rebound.example"}, {"Host": "lake.example.com"}
    with Endpoint(tmp_path / "root", "--http-names", "lake.example.com") as endpoint:
        browser = Browser(endpoint.http_url)
        for path in ("/metrics", "/readyz", "/v1/state", "/v1/health", "/v1/openapi.json"):
            status, problem = browser.ask("GET", path, headers=foreign)
            assert (status, problem["code"]) == (403, "cross-site"), path
            assert "http_names" in problem["detail"]
            assert browser.ask("GET", path, headers=proxied)[0] == 200, path
        assert browser.ask("GET", "/healthz", headers=foreign) == (200, b"ok\n")
        port = browser.host.rpartition(":")[2]
        for host in (f"localhost:{port}", f"LOCALHOST.:{port}", f"[::1]:{port}", "10.0.0.7"):
            assert browser.ask("GET", "/metrics", headers={"Host": host})[0] == 200, host
        browser.close()
