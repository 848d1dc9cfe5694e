"""`lakebed serve` by its file, its environment and its options; and SIGHUP, which reads again."""

from __future__ import annotations

import json
import re
import signal
from base64 import b64encode
from http.client import HTTPConnection
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import boto3
import pytest
from botocore.config import Config

from lakebed.base.config import field_names
from lakebed.node.config import NodeConfig
from tests.cli.conftest import Lakebed
from tests.host.local_clients import until
from tests.s3.endpoint import ACCESS_KEY, SECRET_KEY, Endpoint

pytestmark = pytest.mark.process

BASIC = b64encode(f"{ACCESS_KEY}:{SECRET_KEY}".encode()).decode()


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "root"
    folder.mkdir()
    return folder


def write(root: Path, text: str) -> None:
    (root / "lakebed.toml").write_text(text)


def get(url: str, path: str, **headers: str) -> tuple[int, dict[str, str], bytes]:
    place = urlsplit(url)
    connection = HTTPConnection(place.hostname or "", place.port, timeout=60)
    connection.request("GET", path, headers=headers)
    answer = connection.getresponse()
    body = answer.read()
    connection.close()
    return answer.status, {name.lower(): value for name, value in answer.getheaders()}, body


def test_every_setting_of_a_node_can_be_an_option(lakebed: Lakebed) -> None:
    shown = lakebed("serve", "--help", COLUMNS="200").out
    for name in field_names(NodeConfig):
        flag = "drain-seconds" if name == "drain_s" else name.replace("_", "-")
        assert re.search(rf"--{flag}\b", shown), flag
    defaults = NodeConfig()
    words = " ".join(shown.split())
    for default in (
        defaults.s3_port,
        defaults.http_port,
        defaults.s3_host,
        f"{defaults.drain_s:g}",
    ):
        assert re.search(rf"Default: the setting \w+, or {re.escape(str(default))}\.", words), (
            default
        )


def test_a_dry_run_tells_what_counts_and_who_said_so(lakebed: Lakebed, root: Path) -> None:
    write(root, '[node]\ns3_port = 1\nhttp_port = 2\ndrain_s = "1min"\n')
    arguments = ("--root", root, "--json", "serve", "--dry-run", "--s3-port", "7", "--no-http")
    document = lakebed(*arguments, "--s3", "domain=x", LAKEBED_NODE_HTTP_PORT="5").document()
    found = {
        (one["section"], one["name"]): (one["value"], one["origin"]) for one in document["settings"]
    }
    file = str(root / "lakebed.toml")
    assert found["node", "s3_port"] == (7, "--s3-port")
    assert found["node", "http_port"] == (5, "LAKEBED_NODE_HTTP_PORT")
    assert found["node", "http"] == (False, "--no-http")
    assert found["node", "drain_s"] == (60, file)
    assert found["node", "log_level"] == ("info", "default")
    assert found["s3", "domain"] == ("x", "--s3 domain")
    assert not (root / "store.json").exists()  # nothing was opened


def test_config_covers_the_node(lakebed: Lakebed, root: Path) -> None:
    write(root, "[node]\nlog_format = 'json'\n")
    rows = [line.split() for line in lakebed("--root", root, "config", "show").out.splitlines()]
    assert ["node.log_format", "json", str(root / "lakebed.toml")] in rows
    assert lakebed("--root", root, "config", "check").exit_code == 0
    bad = lakebed("--root", root, "config", "check", LAKEBED_NODE_TLS_CERT="cert.pem")
    assert bad.exit_code == 78
    assert bad.error_line().startswith("LAKEBED_NODE_TLS_CERT: a certificate and its key")
    write(root, "[node]\nhttp_host = '10.0.0.1'\n")
    bad = lakebed("--root", root, "config", "check")
    assert f"{root}/lakebed.toml: [node] http_host 10.0.0.1: without TLS" in bad.error_line()


def test_commands_that_serve_nothing_do_not_mind_the_section(lakebed: Lakebed, root: Path) -> None:
    write(root, "[node]\nhttp_host = '10.0.0.1'\n")
    assert lakebed("--root", root, "aof", "append", "orders").exit_code == 0


def test_a_file_alone_says_how_it_is_served(root: Path, tmp_path: Path) -> None:
    write(root, "[node]\nhttp = false\nlog_format = 'json'\naccess_log = true\n")
    log = tmp_path / "log"
    with Endpoint(root, log=log) as endpoint:
        assert endpoint.http_url == ""
        get(endpoint.url, "/nothing")
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    assert [one["event"] for one in lines] == ["serving", "request", "draining", "drained"]
    assert lines[1]["status"] == 403


class Log:
    """A log file that grows."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._seen = 0

    def next(self, word: str) -> str:
        """The next line with that word."""
        while True:
            lines = self._path.read_text().splitlines()
            for number, line in enumerate(lines[self._seen :], self._seen + 1):
                if word in line:
                    self._seen = number
                    return line


def test_sighup_changes_what_is_logged_and_a_bad_file_changes_nothing(
    root: Path, tmp_path: Path
) -> None:
    write(root, "")
    log = Log(tmp_path / "log")
    with Endpoint(root, log=tmp_path / "log") as endpoint:
        assert " INFO " in log.next("serving")
        write(root, "[node]\nlog_format = 'json'\nlog_level = 'debug'\naccess_log = true\n")
        endpoint.signal(signal.SIGHUP)
        assert json.loads(log.next("settings_reloaded"))["log_level"] == "debug"
        _, headers, _ = get(endpoint.url, "/photos?x=1")
        request = json.loads(log.next('"event": "request"'))
        assert request["request_id"] == headers["x-amz-request-id"]
        _, headers, _ = get(endpoint.http_url, "/v1/state")
        request = json.loads(log.next('"event": "request"'))
        assert request["request_id"] == headers["lakebed-request-id"]
        write(root, "[node]\nlog_level = 'loud'\n")
        endpoint.signal(signal.SIGHUP)
        kept: dict[str, Any] = json.loads(log.next("settings_kept"))
        assert kept["level"] == "error"
        assert "log_level = 'loud'" in kept["why"]
        write(root, "[node]\nlog_format = 'console'\nmetrics_public = true\n")
        endpoint.signal(signal.SIGHUP)
        assert "metrics_public" in log.next("settings_need_a_restart")
        assert " INFO " in log.next("settings_reloaded")
        assert get(endpoint.http_url, "/healthz")[0] == 200


def test_secrets_are_in_no_line_of_the_log(root: Path, tmp_path: Path) -> None:
    log = tmp_path / "log"
    arguments = ("--log-level", "debug", "--access-log", "--log-format", "json")
    with Endpoint(root, *arguments, log=log) as endpoint:
        s3 = boto3.client(
            "s3",
            endpoint_url=endpoint.url,
            aws_access_key_id=ACCESS_KEY,
            aws_secret_access_key=SECRET_KEY,
            region_name="us-east-1",
            config=Config(signature_version="s3v4"),
        )
        s3.create_bucket(Bucket="photos")
        url = s3.generate_presigned_url("list_objects_v2", Params={"Bucket": "photos"})
        assert get(endpoint.url, url.removeprefix(endpoint.url))[0] == 200
        s3.close()
        for secret in (SECRET_KEY, "wrong"):
            key = b64encode(f"{ACCESS_KEY}:{secret}".encode()).decode()
            get(endpoint.http_url, "/v1/state", Authorization=f"Basic {key}")
        until(lambda: log.read_text().count('"event": "request"') == 4)
    text = log.read_text()
    assert SECRET_KEY not in text
    assert BASIC not in text
    (signature,) = re.findall(r"Signature=([^&]+)", url)
    assert signature not in text
    assert "Signature=***" in text
    assert ACCESS_KEY in text
