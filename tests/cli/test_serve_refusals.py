"""Starts that cannot work: one line that says why, and an exit code that says of what kind."""

from __future__ import annotations

import os
import resource
import shutil
import socket
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from lakebed.host.store import Store
from tests.cli.conftest import Finished, Lakebed
from tests.s3.endpoint import Endpoint

pytestmark = pytest.mark.process

EVERYWHERE = "0.0.0.0"  # noqa: S104
COMMAND = (sys.executable, "-m", "lakebed.cli")
INPUT, DATA, DISK, RETRY, CONFIG = 64, 65, 74, 75, 78  # of sysexits.h


def serve(
    root: Path, *arguments: str, before: Sequence[str] = (), file_bytes_max: int | None = None
) -> Finished:
    """`before`: a command that runs it."""

    def limit() -> None:
        if file_bytes_max is not None:
            resource.setrlimit(resource.RLIMIT_FSIZE, (file_bytes_max, file_bytes_max))

    ports = [] if "--s3-port" in arguments else ["--s3-port", "0"]
    ports += [] if "--http-port" in arguments else ["--http-port", "0"]
    done = subprocess.run(
        [*before, *COMMAND, "--root", str(root), "serve", *ports, *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env={"PATH": os.environ["PATH"]},
        preexec_fn=limit,
    )
    return Finished(done.returncode, done.stdout, done.stderr)


def test_a_second_node_on_one_folder_says_who_has_it(tmp_path: Path) -> None:
    with Endpoint(tmp_path / "root") as endpoint:
        second = serve(tmp_path / "root")
        assert f"locked by process {endpoint.pid}" in second.error_line()
        assert second.exit_code == RETRY
        assert (tmp_path / "root" / "lakebed.sock").exists()  # the first one's is left alone


def test_a_node_does_not_start_on_a_store_that_has_lost_its_metadata(tmp_path: Path) -> None:
    root = tmp_path / "root"
    with Store.open(root, serves=False) as store:
        store.bucket("photos").put("a", b"bytes")
    (root / "meta.db").unlink()
    done = serve(root)
    assert "meta.db: the metadata database is missing" in done.error_line()
    assert "lakebed restore" in done.error_line()
    assert done.exit_code == DATA
    assert not (root / "meta.db").exists()


@pytest.mark.parametrize("option", ["--s3-port", "--http-port"])
def test_a_port_that_is_taken_is_told(tmp_path: Path, option: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = str(other.getsockname()[1])
        done = serve(tmp_path / "root", option, port)
    assert done.error_line() == (
        f"cannot listen on 127.0.0.1:{port}: another program listens there; "
        "stop it, or use another port"
    )
    assert done.exit_code == RETRY


@pytest.mark.parametrize(
    ("host", "why"),
    [("192.0.2.77", "Cannot assign requested address"), ("no.such.host.invalid", "")],
)
def test_an_address_that_is_not_ours_is_told(tmp_path: Path, host: str, why: str) -> None:
    done = serve(tmp_path / "root", "--s3-host", host)
    assert done.error_line().startswith(f"cannot listen on {host}:0: {why}")
    assert done.exit_code == INPUT


def test_both_on_one_port_is_told(tmp_path: Path) -> None:
    done = serve(tmp_path / "root", "--s3-port", "9999", "--http-port", "9999")
    assert (
        done.error_line()
        == "--http-port 9999: the S3 endpoint uses this port (--s3-port): set different ports"
    )
    assert done.exit_code == CONFIG


@pytest.mark.parametrize(
    ("file", "words"),
    [
        ("[node\n", "not valid TOML"),
        ("[node]\ns3_prot = 1\n", "did you mean s3_port?"),
        ("[node]\nlog_level = 'loud'\n", "expected one of debug, info, warning, error"),
        ("[aof]\nsegment_bytes = 3\n", "segment_bytes"),
    ],
)
def test_a_bad_file_is_told_and_nothing_is_made(tmp_path: Path, file: str, words: str) -> None:
    root = tmp_path / "root"
    root.mkdir()
    (root / "lakebed.toml").write_text(file)
    done = serve(root)
    assert words in done.error_line()
    assert done.error_line().startswith(str(root / "lakebed.toml"))
    assert done.exit_code == CONFIG
    assert [one.name for one in root.iterdir()] == ["lakebed.toml"]


def test_a_bad_option_is_told_by_its_name(tmp_path: Path) -> None:
    done = serve(tmp_path / "root", "--log-level", "loud")
    assert done.error_line().startswith("--log-level: log_level = 'loud': expected one of")
    assert done.exit_code == CONFIG


def without_rights(root: Path) -> list[str]:
    """A command that runs another as somebody who may not pass by the folder's rights."""
    if os.geteuid() != 0:
        root.chmod(0o000)
        return []
    setpriv = shutil.which("setpriv")
    if setpriv is None:
        pytest.skip("who is root and has no setpriv may read everything")
    os.chown(root, 65534, 65534)
    root.chmod(0o700)
    without = "-dac_override,-dac_read_search"
    return [setpriv, f"--bounding-set={without}", f"--inh-caps={without}"]


@pytest.mark.parametrize("is_made", [False, True])
def test_a_folder_that_may_not_be_read_is_told(tmp_path: Path, is_made: bool) -> None:
    """As the root itself, and as the folder that the root would be made in."""
    folder = tmp_path / "folder"
    folder.mkdir()
    root = folder if is_made else folder / "below"
    done = serve(root, before=without_rights(folder))
    folder.chmod(0o700)
    assert str(root) in done.error_line()
    assert "Permission denied" in done.error_line()
    assert done.exit_code == DISK


def test_a_file_in_the_folders_place_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    done = serve(tmp_path / "file")
    assert done.error_line() == f"{tmp_path}/file: is a file; the root must be a folder"
    assert done.exit_code == INPUT


@pytest.mark.parametrize("file_bytes_max", [0, 100, 40_000])
def test_a_disk_that_takes_no_more_is_told(tmp_path: Path, file_bytes_max: int) -> None:
    """The limit of a file's size in the place of a full disk: the system refuses the write."""
    done = serve(tmp_path / "root", file_bytes_max=file_bytes_max)
    assert done.error_line().startswith(str(tmp_path / "root"))
    assert done.exit_code in (DISK, RETRY)
    with Endpoint(tmp_path / "root"):
        pass  # what was half made is no hindrance


def test_elsewhere_nobody_is_served_without_a_key_that_counts(
    tmp_path: Path, lakebed: Lakebed
) -> None:
    root = tmp_path / "root"
    made = lakebed("--root", root, "--json", "s3", "keys", "create").document()
    lakebed("--root", root, "s3", "keys", "disable", made["access_key"])
    for arguments in (["--s3-host", EVERYWHERE], ["--http-host", EVERYWHERE, "--http-insecure"]):
        done = serve(root, *arguments)
        assert done.error_line() == (
            f"the node would listen on {EVERYWHERE}, which other machines can reach, but all "
            "access keys are disabled: enable one, or create one with `lakebed s3 keys create`"
        )
        assert done.exit_code == CONFIG
    with Endpoint(root, "--s3-host", EVERYWHERE):
        pass  # the environment has one


def test_half_a_key_in_the_environment_is_told(lakebed: Lakebed, tmp_path: Path) -> None:
    arguments = ("--root", tmp_path / "root", "serve", "--s3-port", "0", "--http-port", "0")
    done = lakebed(*arguments, LAKEBED_ACCESS_KEY="LAKE")
    assert done.error_line().startswith("LAKEBED_SECRET_KEY is not set")
    assert done.exit_code == CONFIG
