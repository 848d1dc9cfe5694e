"""`lakebed serve` as its users meet it: started, asked, stopped, and given what cannot work."""

from __future__ import annotations

import json
import signal
import socket
import ssl
import subprocess
import sys
import threading
import warnings
from pathlib import Path
from typing import Any

import boto3
import pytest
from botocore.config import Config

from tests.http.certificates import write_pair
from tests.s3.endpoint import ACCESS_KEY, SECRET_KEY, Endpoint

pytestmark = pytest.mark.process

COMMAND = [sys.executable, "-m", "lakebed.cli"]
DATA = bytes(range(256)) * 40


def client(
    endpoint: Endpoint, *, access_key: str = ACCESS_KEY, secret_key: str = SECRET_KEY, **more: Any
) -> Any:
    return boto3.client(
        "s3",
        endpoint_url=endpoint.url,
        aws_access_key_id=access_key,
        aws_secret_access_key=secret_key,
        region_name="us-east-1",
        config=Config(retries={"max_attempts": 1}, signature_version="s3v4"),
        **more,
    )


def refused(root: Path, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """What a start that cannot work prints."""
    command = [*COMMAND, "--root", str(root), "serve", "--s3-port", "0", *arguments]
    command += [] if "--http-port" in arguments else ["--http-port", "0"]
    return subprocess.run(
        command, capture_output=True, text=True, timeout=60, check=False, env={**variables}
    )


def document_of(process: subprocess.Popen[str]) -> Any:
    """What a node with `--json` prints when it serves."""
    assert process.stdout is not None
    lines: list[str] = []
    while not lines or lines[-1].rstrip() != "}":
        lines.append(process.stdout.readline())
        assert lines[-1], "it does not serve"
    return json.loads("".join(lines))


def is_listening(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), timeout=30).close()
    except OSError:
        return False
    return True


def test_the_first_start_makes_a_key_and_tells_it_once(tmp_path: Path) -> None:
    command = [*COMMAND, "--root", str(tmp_path / "root"), "--json", "serve"]
    command += ["--s3-port", "0", "--http-port", "0"]
    told = []
    for _ in range(2):
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env={})
        assert process.stdout is not None
        with process.stdout:
            told.append(document_of(process))
            if len(told) == 1:
                s3 = boto3.client(
                    "s3",
                    endpoint_url=told[0]["s3"],
                    aws_access_key_id=told[0]["access_key"],
                    aws_secret_access_key=told[0]["secret_key"],
                    region_name=told[0]["region"],
                )
                s3.create_bucket(Bucket="photos")
            process.send_signal(signal.SIGTERM)
            assert process.wait(60) == 0
    assert set(told[0]) == {"s3", "http", "region", "access_key", "secret_key", "connect"}
    assert set(told[1]) == {"s3", "http", "region"}


def test_a_start_that_fails_makes_no_key_and_the_next_one_tells_it(tmp_path: Path) -> None:
    """A key that was made and not told would be of use to nobody, and no other would be made."""
    root = tmp_path / "root"
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        for option in ("--s3-port", "--http-port"):
            found = refused(root, option, port)
            assert (found.returncode, found.stdout) == (75, "")
            assert found.stderr.count("\n") == 1, found.stderr
            assert f"127.0.0.1:{port}: another program listens there" in found.stderr
    everywhere = "0.0.0.0"  # noqa: S104 - it will have a key, so it may
    command = [*COMMAND, "--root", str(root), "--json", "serve", "--s3-host", everywhere]
    command += ["--s3-port", "0", "--http-port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env={}) as process:
        told = document_of(process)
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0
    assert {"access_key", "secret_key", "connect"} < set(told)


def test_keys_of_the_command_line_can_be_used_until_they_are_disabled(tmp_path: Path) -> None:
    root = tmp_path / "root"
    made = subprocess.run(
        [*COMMAND, "--root", str(root), "--json", "s3", "keys", "create", "--label", "one"],
        capture_output=True,
        check=True,
    )
    key = json.loads(made.stdout)
    with Endpoint(root) as endpoint:
        s3 = client(endpoint, access_key=key["access_key"], secret_key=key["secret_key"])
        s3.create_bucket(Bucket="photos")
        listed = subprocess.run(
            [*COMMAND, "--root", str(root), "s3", "keys", "list"], capture_output=True, check=True
        )
        assert key["access_key"].encode() in listed.stdout
        assert key["secret_key"].encode() not in listed.stdout
    disable = [*COMMAND, "--root", str(root), "s3", "keys", "disable", key["access_key"]]
    subprocess.run(disable, check=True, capture_output=True)
    with Endpoint(root) as endpoint:
        s3 = client(endpoint, access_key=key["access_key"], secret_key=key["secret_key"])
        with pytest.raises(s3.exceptions.ClientError, match="InvalidAccessKeyId"):
            s3.list_buckets()


def test_sigterm_lets_requests_under_way_end(tmp_path: Path) -> None:
    """A body that comes slowly is stored, and answered, though the node is to stop."""
    with Endpoint(tmp_path / "root") as endpoint:
        s3 = client(endpoint)
        s3.create_bucket(Bucket="photos")
        has_begun, may_go_on = threading.Event(), threading.Event()

        class Slow:
            """Half of it, and the rest when it may go on."""

            def __init__(self) -> None:
                self._left = [DATA * 10, DATA * 10]

            def __len__(self) -> int:
                return 20 * len(DATA)

            def read(self, _size: int = -1) -> bytes:
                if len(self._left) == 1:
                    has_begun.set()
                    may_go_on.wait(30)
                return self._left.pop(0) if self._left else b""

        answers: list[Any] = []
        url = s3.generate_presigned_url("put_object", Params={"Bucket": "photos", "Key": "slow"})

        def put() -> None:
            from http.client import HTTPConnection

            connection = HTTPConnection("127.0.0.1", endpoint.port, timeout=60)
            body = Slow()
            path = url[len(endpoint.url) :]
            connection.request("PUT", path, body, {"Content-Length": str(len(body))})
            answer = connection.getresponse()
            answers.append((answer.status, answer.read()))
            connection.close()

        putting = threading.Thread(target=put)
        putting.start()
        assert has_begun.wait(30)
        endpoint.signal(signal.SIGTERM)
        while is_listening(endpoint.port):
            pass
        may_go_on.set()
        putting.join(60)
        assert answers == [(200, b"")]
        assert endpoint.wait() == 0
        endpoint.start()
        body = client(endpoint).get_object(Bucket="photos", Key="slow")["Body"].read()
        assert body == DATA * 20


def test_tls_and_a_certificate_that_is_exchanged(tmp_path: Path) -> None:
    write_pair(tmp_path, "first")
    arguments = ("--tls-cert", str(tmp_path / "cert.pem"), "--tls-key", str(tmp_path / "key.pem"))
    with Endpoint(tmp_path / "root", *arguments) as endpoint:
        assert endpoint.url.startswith("https://")
        with warnings.catch_warnings(action="ignore"):  # of a certificate that nobody vouches for
            client(endpoint, verify=False).create_bucket(Bucket="photos")
        write_pair(tmp_path, "second")
        endpoint.signal(signal.SIGHUP)
        wanted = (tmp_path / "cert.pem").read_text()
        while ssl.get_server_certificate(("127.0.0.1", endpoint.port)) != wanted:
            pass


def test_what_cannot_work_is_told_in_one_line(tmp_path: Path) -> None:
    root = tmp_path / "root"
    with Endpoint(root) as endpoint:
        busy = refused(root)
        taken = refused(tmp_path / "other", "--s3-port", str(endpoint.port))
    file = tmp_path / "file"
    file.touch()
    half = refused(tmp_path / "third", LAKEBED_ACCESS_KEY="only-half")
    cases = {
        "lock": busy,
        "another program listens there": taken,
        "is a file": refused(file),
        "LAKEBED_SECRET_KEY is not set": half,
        "belong together": refused(root, "--tls-cert", str(file)),
        "cert": refused(root, "--tls-cert", str(file), "--tls-key", str(file)),
        "write it as NAME=VALUE": refused(root, "--s3", "nonsense"),
        "default_versioning": refused(root, "--s3", "default-versioning=perhaps"),
        "no_such_setting": refused(root, "--s3", "no-such-setting=1"),
    }
    for words, found in cases.items():
        assert found.returncode != 0, words
        assert words.lower() in found.stderr.lower(), found.stderr
        assert found.stderr.count("\n") == 1, found.stderr
        assert found.stdout == ""
