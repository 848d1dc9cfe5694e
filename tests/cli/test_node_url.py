"""`--root` with the URL of a node: how it is given, what is refused, and what goes wrong."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from lakebed.cli.main import main
from tests.cli.in_process import Done, Run, runner
from tests.http.certificates import write_pair
from tests.s3.endpoint import ACCESS_KEY, SECRET_KEY, Endpoint

pytestmark = pytest.mark.process

USAGE = 2
NEED_FILES = [
    "serve",
    "serve --dry-run",
    "restore backups",
    "backup backups",
    "config show",
    "config check",
    "aof convert orders 0 --to runtime --output out",
    "aof cat orders --archived",
    "aof cat orders --skip-damage",
    "aof repair orders --tier2 --dry-run",
    "topic consume orders --from-beginning --skip-damage",
]


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Endpoint]:
    with Endpoint(tmp_path_factory.mktemp("node") / "root") as node:
        yield node


@pytest.fixture
def secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAKEBED_ACCESS_KEY", ACCESS_KEY)
    monkeypatch.setenv("LAKEBED_SECRET_KEY", SECRET_KEY)


@pytest.fixture
def bare(monkeypatch: pytest.MonkeyPatch, capsysbinary: pytest.CaptureFixture[bytes]) -> Run:
    """Runs `lakebed` without `--root`."""

    def run(*arguments: str, stdin: bytes = b"") -> Done:
        root, *rest = arguments
        return runner(root, monkeypatch, capsysbinary)(*rest, stdin=stdin)

    return run


def credentials_of(url: str, access_key: str, secret: str) -> str:
    return url.replace("http://", f"http://{access_key}:{secret.replace(' ', '%20')}@")


def test_keys_come_from_the_url(node: Endpoint, bare: Run) -> None:
    url = credentials_of(node.http_url, ACCESS_KEY, SECRET_KEY)
    assert bare(url, "aof", "append", "by-url", stdin=b"one\n").exit_code == 0
    assert bare(url, "aof", "cat", "by-url").out == b"one\n"


@pytest.mark.usefixtures("secrets")
def test_keys_come_from_the_environment(node: Endpoint, bare: Run) -> None:
    assert bare(node.http_url, "topic", "list").lines()[0].startswith("topic")


@pytest.mark.usefixtures("secrets")
@pytest.mark.parametrize("option", ["--root", "--url"])
def test_the_url_may_follow_the_command(
    option: str, node: Endpoint, bare: Run, tmp_path: Path
) -> None:
    done = bare(str(tmp_path), "s3", "buckets", option, node.http_url)
    assert done.exit_code == 0


@pytest.mark.usefixtures("secrets")
def test_the_url_may_be_in_the_environment(
    node: Endpoint, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from lakebed.cli.main import main

    monkeypatch.setenv("LAKEBED_ROOT", node.http_url)
    assert main(["aof", "dump", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["root"] == str(node.root)
    assert main(["completion", "bash"]) == 0  # uses no store
    assert main(["config", "check"]) == USAGE
    assert "needs the files of the store" in capsys.readouterr().err


@pytest.mark.parametrize("command", NEED_FILES)
def test_what_needs_files_is_refused_before_the_node_is_asked(command: str, bare: Run) -> None:
    done = bare("http://127.0.0.1:9", *command.split())
    assert (done.exit_code, done.out) == (USAGE, b"")
    assert done.error_line().endswith(
        "needs the files of the store: run it on the machine of http://127.0.0.1:9, with --root DIR"
    )


@pytest.mark.parametrize("command", ["demo", "completion bash"])
def test_what_uses_no_store_takes_no_url(command: str, bare: Run) -> None:
    done = bare("http://127.0.0.1:9", *command.split())
    assert done.exit_code == USAGE
    assert (
        done.error_line() == f"lakebed {command.split()[0]} does not use a store: leave out --root"
    )


@pytest.mark.parametrize(
    ("url", "problem"),
    [
        ("http://127.0.0.1:{port}/store", "without a path, a query or a fragment"),
        ("http://127.0.0.1:{port}?x=1", "without a path, a query or a fragment"),
        ("http://127.0.0.1:port", "host or port is wrong"),
        ("http://", "without a path, a query or a fragment"),
        ("ftp://127.0.0.1", "must begin with http:// or https://"),
        ("s3://bucket/store", "must begin with http:// or https://"),
        ("http://key@127.0.0.1:{port}", "one of them is missing"),
    ],
)
def test_a_url_that_is_none_is_refused(url: str, problem: str, node: Endpoint, bare: Run) -> None:
    port = node.http_url.rpartition(":")[2]
    done = bare(url.format(port=port), "topic", "list")
    assert done.exit_code == 64
    assert problem in done.error_line()


@pytest.mark.parametrize(
    ("key", "secret"), [(ACCESS_KEY, "wrong-secret"), ("nobody", "wrong-secret")]
)
@pytest.mark.parametrize("command", ["topic list", "topic create more", "s3 ls photos", "verify"])
def test_a_wrong_key_is_reported_without_its_secret(
    key: str, secret: str, command: str, node: Endpoint, bare: Run
) -> None:
    done = bare(credentials_of(node.http_url, key, secret), *command.split())
    assert (done.exit_code, done.out) == (64, b"")
    line = done.error_line()
    assert line.startswith(f"{node.http_url}: the access key is unknown or disabled")
    assert "LAKEBED_ACCESS_KEY" in line
    assert secret not in line


def test_without_a_key_the_advice_is_how_to_set_one(
    node: Endpoint, bare: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("LAKEBED_ACCESS_KEY", "LAKEBED_SECRET_KEY"):
        monkeypatch.delenv(name, raising=False)
    line = bare(node.http_url, "topic", "list").error_line()
    assert line.startswith(
        f"{node.http_url}: the request has no access key; set LAKEBED_ACCESS_KEY"
    )


@pytest.mark.usefixtures("secrets")
@pytest.mark.parametrize("command", ["topic list", "aof append orders", "topic produce orders"])
def test_a_port_where_nobody_listens_is_one_line(
    command: str,
    bare: Run,
    monkeypatch: pytest.MonkeyPatch,
    capsysbinary: pytest.CaptureFixture[bytes],
) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        port = unused.getsockname()[1]
        done = bare(f"http://127.0.0.1:{port}", *command.split(), stdin=b"one\n")
    assert (done.exit_code, done.out) == (75, b"")
    line = done.error_line()
    assert line.startswith(f"127.0.0.1:{port}: connection refused")
    assert line.endswith("check that the node is running, and that --root has its URL")
    monkeypatch.setenv("LAKEBED_ROOT", f"http://127.0.0.1:{port}")
    assert main(["topic", "list"]) == 75
    advice = b"check that the node is running, and that LAKEBED_ROOT has its URL"
    assert advice in capsysbinary.readouterr().err


@pytest.mark.usefixtures("secrets")
def test_a_host_that_does_not_exist_is_one_line(bare: Run) -> None:
    done = bare("http://nobody.invalid:9001", "topic", "list")
    assert done.exit_code == 75
    assert done.error_line().startswith("nobody.invalid:9001: the host name cannot be resolved")


@pytest.mark.usefixtures("secrets")
def test_tls_to_a_port_without_it_is_one_line(node: Endpoint, bare: Run) -> None:
    done = bare(node.http_url.replace("http://", "https://"), "topic", "list")
    assert done.exit_code == 75
    assert "the TLS handshake failed" in done.error_line()


@pytest.mark.usefixtures("secrets")
def test_a_certificate_is_trusted_by_its_authority_alone(tmp_path: Path, bare: Run) -> None:
    write_pair(tmp_path, "localhost")
    pair = ("--tls-cert", str(tmp_path / "cert.pem"), "--tls-key", str(tmp_path / "key.pem"))
    with Endpoint(tmp_path / "root", *pair) as node:
        url = node.http_url.replace("127.0.0.1", "localhost")
        done = bare(url, "topic", "list")
        assert (done.exit_code, done.out) == (75, b"")
        line = done.error_line()
        assert "the server's certificate is not trusted" in line
        assert line.endswith("name the certificates to trust with --ca-file")
        trusted = str(tmp_path / "cert.pem")
        assert bare(url, "--ca-file", trusted, "topic", "list").exit_code == 0
        assert bare(url, "topic", "list", "--ca-file", trusted).exit_code == 0
        missing = bare(url, "--ca-file", str(tmp_path / "no.pem"), "topic", "list")
        assert missing.exit_code == 64
        assert "no.pem: cannot load certificates" in missing.error_line()


def test_a_folder_takes_no_certificates(tmp_path: Path, bare: Run) -> None:
    done = bare(str(tmp_path), "--ca-file", "cert.pem", "topic", "list")
    assert done.exit_code == 64
    assert done.error_line().startswith("--ca-file can only be used with an https:// URL, and ")
    assert done.error_line().endswith(" is a folder")
