"""The Caddyfile: Caddy finds no fault with it, and a node takes what Caddy forwards."""

from __future__ import annotations

import http.client
import io
import re
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from botocore.auth import S3SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

from lakebed.node.config import NodeConfig
from tests.clients.nodes import s3_client
from tests.s3.endpoint import Endpoint
from tests.tidy.repository import ROOT

CADDYFILE = ROOT / "examples" / "caddy" / "Caddyfile"
KNOWN = {"reverse_proxy", "flush_interval", "transport", "compression", "keepalive", "import"}
# What Caddy adds to a request that it forwards.
FORWARDED = {"X-Forwarded-For": "192.0.2.7", "X-Forwarded-Proto": "https", "Via": "1.1 Caddy"}
CADDY = str(Path(sys.executable).with_name("caddy"))


def lines() -> list[str]:
    text = CADDYFILE.read_text(encoding="utf-8")
    return [line for line in text.splitlines() if line.strip() and not line.strip().startswith("#")]


def test_it_is_laid_out_as_caddy_does_and_uses_few_directives() -> None:
    depth = 0
    for line in lines():
        depth -= line.strip() == "}"
        assert line == "\t" * depth + line.strip(), line
        if depth and line.strip() != "}":
            assert line.split()[0] in KNOWN, line
        depth += line.endswith("{")
    assert depth == 0


def test_both_listeners_have_a_name_and_no_body_is_held_back() -> None:
    places = re.findall(r"^\timport to_node (\S+)$", "\n".join(lines()), re.MULTILINE)
    config = NodeConfig()
    assert places == [
        f"{config.s3_host}:{config.s3_port}",
        f"{config.http_host}:{config.http_port}",
    ]
    assert "\t\tflush_interval -1" in lines()
    assert "\t\t\tcompression off" in lines()


@pytest.mark.process
def test_caddy_finds_no_fault(tmp_path: Path) -> None:
    command = [CADDY, "adapt", "--validate", "--adapter", "caddyfile", "--config", str(CADDYFILE)]
    for one in (command, [CADDY, "fmt", "--diff", str(CADDYFILE)]):
        done = subprocess.run(
            one, env=caddy_environment(tmp_path), capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr


@pytest.mark.process
def test_boto3_works_through_caddy(tmp_path: Path) -> None:
    body = bytes(range(256)) * 40_000
    with Endpoint(tmp_path / "root") as endpoint, caddy(endpoint, tmp_path) as url:
        client = s3_client(endpoint, url=url)
        client.create_bucket(Bucket="photos")
        for name in ("plain", "a b/ü+%2F", "//double"):
            client.put_object(Bucket="photos", Key=name, Body=body)
            assert client.get_object(Bucket="photos", Key=name)["Body"].read() == body
        client.upload_fileobj(io.BytesIO(body * 2), "photos", "parts")
        found = client.list_objects_v2(Bucket="photos")["Contents"]
        assert {one["Key"]: one["Size"] for one in found}["parts"] == 2 * len(body)
        client.close()


@pytest.mark.process
def test_what_was_signed_for_the_name_of_the_proxy_is_accepted(tmp_path: Path) -> None:
    with Endpoint(tmp_path / "root") as endpoint:
        assert forwarded(endpoint, "PUT", "/photos") == (200, b"")
        assert forwarded(endpoint, "PUT", "/photos/a%20b/%C3%BC", b"figs" * 50_000)[0] == 200
        assert forwarded(endpoint, "GET", "/photos/a%20b/%C3%BC") == (200, b"figs" * 50_000)
        other = forwarded(endpoint, "GET", "/photos/a%20b/%C3%BC", host="other.example.com")
        assert other[0] == 403


@pytest.mark.process
def test_who_comes_through_the_proxy_gets_no_metrics(tmp_path: Path) -> None:
    with Endpoint(tmp_path / "root") as endpoint:
        assert asked(endpoint.http_url, "GET", "/metrics", {})[0] == 200
        assert asked(endpoint.http_url, "GET", "/metrics", FORWARDED)[0] == 401
        assert asked(endpoint.http_url, "GET", "/healthz", FORWARDED)[0] == 200


def caddy_environment(home: Path) -> dict[str, str]:
    return {"HOME": str(home), "XDG_DATA_HOME": str(home)}


@contextmanager
def caddy(endpoint: Endpoint, folder: Path) -> Iterator[str]:
    """Caddy with the Caddyfile, in front of that node: without certificates, on a free port."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        url = f"http://127.0.0.1:{free.getsockname()[1]}"
    text = CADDYFILE.read_text(encoding="utf-8").replace("s3.example.com {", f"{url} {{")
    text = text.replace("127.0.0.1:9000", endpoint.url.removeprefix("http://"))
    text = text.partition("lakebed.example.com {")[0]
    config = folder / "Caddyfile"
    config.write_text("{\n\tadmin off\n\tauto_https off\n}\n" + text, encoding="utf-8")
    command = [CADDY, "run", "--adapter", "caddyfile", "--config", str(config)]
    with subprocess.Popen(
        command, env=caddy_environment(folder), stderr=subprocess.PIPE, text=True
    ) as started:
        assert started.stderr is not None
        said = ""
        while "serving initial configuration" not in said:
            said = started.stderr.readline()
            assert said, "caddy ended"
        try:
            yield url
        finally:
            started.terminate()
            started.communicate(timeout=60)


def forwarded(
    endpoint: Endpoint, method: str, path: str, body: bytes = b"", *, host: str = "s3.example.com"
) -> tuple[int, bytes]:
    """Signed by who asks s3.example.com, sent on to the node with the Host `host`."""
    request = AWSRequest(method, f"https://s3.example.com{path}", data=body)
    key = Credentials(endpoint.access_key, endpoint.secret_key)
    S3SigV4Auth(key, "s3", endpoint.region).add_auth(request)
    headers = {**dict(request.headers), "Host": host, **FORWARDED}
    return asked(endpoint.url, method, path, headers, body)


def asked(
    url: str, method: str, path: str, headers: dict[str, str], body: bytes = b""
) -> tuple[int, bytes]:
    place = urlsplit(url)
    connection = http.client.HTTPConnection(place.hostname or "", place.port, timeout=60)
    connection.request(method, path, body or None, headers)
    answer = connection.getresponse()
    found = answer.status, answer.read()
    connection.close()
    return found
