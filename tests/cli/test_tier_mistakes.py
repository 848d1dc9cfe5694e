"""The commands about tiers, when something is wrong: one line, an exit code, and nothing lost."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from lakebed.aof.config import AofConfig, RetentionConfig
from lakebed.aof.manager import AofManager
from lakebed.base.errors import BadConfig
from lakebed.base.simulation.world import World
from lakebed.base.units import KIB
from lakebed.host.store import Store
from lakebed.kernels.disk import real_disk
from tests.cli.in_process import Done, Run, runner
from tests.cli.tiered_stores import (
    LINES,
    SEALED,
    make_root,
    objects,
    tiers_of,
    warm_files,
    write_segments,
)

pytestmark = pytest.mark.thorough

ALL = range(SEALED)
MOVES = ("upload", "evict", "hydrate", "retry-upload")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    make_root(tmp_path / "root")
    return tmp_path / "root"


@pytest.fixture
def run(
    root: Path, monkeypatch: pytest.MonkeyPatch, capsysbinary: pytest.CaptureFixture[bytes]
) -> Run:
    run = runner(root, monkeypatch, capsysbinary)
    write_segments(run)
    return run


def refusal(done: Done, exit_code: int) -> str:
    assert (done.exit_code, done.out) == (exit_code, b"")
    return done.error_line()


@pytest.mark.parametrize("command", ["tiers", *MOVES])
def test_a_log_that_is_not_there_is_one_line(run: Run, root: Path, command: str) -> None:
    assert refusal(run("aof", command, "nope"), 66) == f"{root}: there is no log nope"
    assert not (root / "aof" / "nope").exists()
    refusal(run("aof", command, "../orders"), 64)


@pytest.mark.parametrize("command", MOVES)
@pytest.mark.parametrize("number", ["x", "1.5", "4294967296", "", "\x1b[2J", "0x1"])
def test_a_bad_number_is_a_usage_error(run: Run, command: str, number: str) -> None:
    assert "SEGMENT" in refusal(run("aof", command, "orders", "0", number), 2)
    assert tiers_of(run) == dict.fromkeys(ALL, "0")


@pytest.mark.parametrize("command", MOVES)
def test_a_segment_that_is_not_there_is_told_before_anything_is_moved(
    run: Run, command: str
) -> None:
    run("aof", "upload", "orders", "0")
    done = run("aof", command, "orders", "0", "1", "99")
    assert refusal(done, 66) == "orders: there is no segment 99"
    assert tiers_of(run) == {**dict.fromkeys(ALL, "0"), 0: "0+1+2"}


def test_a_segment_that_is_not_sealed_is_not_moved(run: Run) -> None:
    run("aof", "append", "orders", stdin=b"open\n")
    line = refusal(run("aof", "upload", "orders", str(SEALED)), 64)
    assert (
        line
        == f"orders: segment {SEALED} is not sealed yet; seal it first: lakebed aof seal orders"
    )
    assert run("aof", "upload", "orders").exit_code == 0
    assert tiers_of(run)[SEALED] == "0"


def test_an_interchange_segment_stays_and_the_others_are_moved(
    run: Run, root: Path, tmp_path: Path
) -> None:
    arguments = ("--to", "interchange", "--output", tmp_path / "out", "--lossy")
    assert run("aof", "convert", "orders", "1", *arguments).exit_code == 0
    (converted,) = (tmp_path / "out").glob("*.seg")
    converted.replace(root / "aof" / "orders" / "segments" / converted.name)
    shutil.rmtree(root / "aof" / "orders" / "manifest")  # it was never recorded as sealed
    for command in ("upload", "evict", "hydrate"):
        assert "segment 1 " not in run("aof", command, "orders").out.decode()
        line = refusal(run("aof", command, "orders", "0", "1"), 64)
        assert line.startswith(
            "orders: segment 1 cannot be moved between tiers, because it has the"
        )
    assert tiers_of(run) == {**dict.fromkeys(ALL, "0+1+2"), 1: "0"}
    assert run("aof", "cat", "orders").out == LINES


def test_what_tier_2_does_not_have_is_not_evicted(run: Run) -> None:
    run("aof", "upload", "orders", "0")
    line = refusal(run("aof", "evict", "orders", "0", "2", "--warm"), 64)
    assert (
        line
        == "orders: segment 2 is not in Tier 2 yet; upload it first: lakebed aof upload orders 2"
    )
    assert tiers_of(run)[0] == "0+1+2"


def test_a_pinned_segment_stays(run: Run, root: Path) -> None:
    run("aof", "upload", "orders")
    with Store.open(root, read_only=True) as store:
        pin = store.pins.pin(
            "orders", segment_start=1, segment_end=3, duration_ms=60_000, owner="backup"
        )
    line = refusal(run("aof", "evict", "orders", "0", "1"), 75)
    assert line == (
        f"orders: segment 1 is pinned by backup, pin {pin.pin_id}; "
        "evict it after the pin is released"
    )
    assert run("aof", "evict", "orders").lines()[-1].endswith("; skipped: 2 pinned")
    assert [number for number, tiers in tiers_of(run).items() if tiers[0] == "0"] == [1, 2]


def test_nothing_is_evicted_whose_object_somebody_deleted(run: Run, root: Path) -> None:
    run("aof", "upload", "orders")
    objects(root)[1].unlink()
    told = (
        "orders: the object of segment 1 is missing in Tier 2, or was replaced; "
        "upload it again: lakebed aof repair orders --tier2"
    )
    assert refusal(run("aof", "evict", "orders", "1", "--warm"), 64) == told
    done = run("aof", "evict", "orders", "--warm")
    assert (done.exit_code, done.error_line()) == (64, told)
    assert done.out.decode().splitlines()[-1].startswith(f"orders: {SEALED - 1} segments evicted")
    assert tiers_of(run) == {**dict.fromkeys(ALL, "2"), 1: "0+1+2"}
    assert run("aof", "cat", "orders").out == LINES


def test_one_segment_that_fails_does_not_stop_the_others(run: Run, root: Path) -> None:
    run("aof", "upload", "orders")
    run("aof", "evict", "orders", "--warm")
    for path in objects(root)[1:3]:
        path.unlink()
    done = run("aof", "hydrate", "orders")
    assert done.exit_code == 66
    assert done.out.decode().splitlines()[-1].startswith(f"orders: {SEALED - 2} segments hydrated")
    assert [line.split()[1] for line in done.err.decode().splitlines()] == ["head", "head"]
    document = run("aof", "hydrate", "orders", "1", "2", as_json=True)
    assert document.exit_code == 66
    assert b"Missing" in document.err
    assert tiers_of(run) == {**dict.fromkeys(ALL, "0+2"), 1: "2", 2: "2"}


def test_records_of_a_lost_object_are_an_error_and_not_left_out(run: Run, root: Path) -> None:
    run("aof", "upload", "orders")
    run("aof", "evict", "orders", "1", "--warm")
    objects(root)[1].unlink()
    done = run("aof", "cat", "orders")
    assert done.exit_code != 0
    assert LINES.startswith(done.out)
    assert objects(root)[0].parent.name in done.error_line()


def test_a_tier_2_that_takes_nothing_is_one_line_and_local_copies_stay(
    run: Run, root: Path
) -> None:
    (root / "tier2").symlink_to("/proc")  # where not even root makes a folder
    line = refusal(run("aof", "upload", "orders"), 75)
    assert line.endswith(
        "; check the network, and url and endpoint in section [aof_tier2], and try again"
    )
    assert tiers_of(run) == {**dict.fromkeys(ALL, "0"), 0: "0+1"}
    assert "upload: bucket or network not available" in run("aof", "tiers", "orders").out.decode()
    (root / "tier2").unlink()
    assert run("aof", "retry-upload", "orders").lines()[-1].startswith("orders: 1 segment uploaded")
    assert "upload:" not in run("aof", "tiers", "orders").out.decode()
    assert run("aof", "retry-upload", "orders").lines() == ["orders: 0 segments uploaded"]


def test_if_the_folder_of_tier_2_is_gone_nothing_is_evicted(run: Run, root: Path) -> None:
    run("aof", "upload", "orders")
    (root / "tier2").rename(root / "away")
    assert run("aof", "verify", "orders", "--tier2").out.count(b"the copy of segment") == SEALED
    done = run("aof", "evict", "orders", "--warm")
    assert done.exit_code == 64
    assert done.err.count(b"is missing in Tier 2") == SEALED
    assert tiers_of(run) == dict.fromkeys(ALL, "0+1+2")
    assert len(warm_files(root)) == SEALED
    (root / "away").rename(root / "tier2")
    assert run("aof", "evict", "orders", "--warm").exit_code == 0


@pytest.fixture
def refusing_server() -> Iterator[str]:
    """An S3 endpoint that knows nobody."""

    class Refusing(BaseHTTPRequestHandler):
        def answer(self) -> None:
            body = b"<Error><Code>AccessDenied</Code><Message>no</Message></Error>"
            self.rfile.read(int(self.headers.get("Content-Length", 0)))
            self.send_response(403)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(body)

        do_GET = do_PUT = do_HEAD = do_DELETE = do_POST = answer  # noqa: N815

        def log_message(self, *_: object) -> None:
            """Nothing on standard error."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Refusing)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def test_a_refusal_waits_for_an_operator(
    root: Path,
    refusing_server: str,
    monkeypatch: pytest.MonkeyPatch,
    capsysbinary: pytest.CaptureFixture[bytes],
) -> None:
    for name, value in {
        "URL": "s3://tier2",
        "ENDPOINT": refusing_server,
        "REGION": "us-east-1",
        "ACCESS_KEY_ID": "someone",
        "SECRET_ACCESS_KEY": "hush",
    }.items():
        monkeypatch.setenv(f"LAKEBED_AOF_TIER2_{name}", value)
    run = runner(root, monkeypatch, capsysbinary)
    write_segments(run)
    line = refusal(run("aof", "upload", "orders"), 77)
    assert line.endswith("then run lakebed aof retry-upload orders")
    assert "hush" not in line
    lines = run("aof", "tiers", "orders").lines()
    assert any("upload: not authorised: fix the credentials" in text for text in lines)
    assert lines[-1] == "after fixing the credentials, run lakebed aof retry-upload orders"
    (first, *_) = run("aof", "tiers", "orders", as_json=True).document()["segments"]
    assert [one["reason_code"] for one in first["failures"]] == [2]
    refusal(run("aof", "retry-upload", "orders"), 77)
    assert run("aof", "cat", "orders").out == LINES


@pytest.mark.parametrize("command", MOVES)
def test_without_its_manifest_log_nothing_is_moved(
    root: Path,
    command: str,
    monkeypatch: pytest.MonkeyPatch,
    capsysbinary: pytest.CaptureFixture[bytes],
) -> None:
    monkeypatch.setenv("LAKEBED_AOF_MANIFEST_MANIFEST_LOG_ENABLED", "false")
    run = runner(root, monkeypatch, capsysbinary)
    write_segments(run)
    line = refusal(run("aof", command, "orders"), 78)
    assert line.startswith("orders: cannot move segments, because the manifest log is switched off")
    refusal(run("aof", "repair", "orders", "--tier2"), 78)
    assert "switched off" in refusal(run("aof", "tiers", "orders"), 66)
    assert run("aof", "verify", "orders").exit_code == 0


def test_tiers_of_a_log_whose_manifest_log_was_switched_off_says_so(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    run("aof", "upload", "orders")
    monkeypatch.setenv("LAKEBED_AOF_MANIFEST_MANIFEST_LOG_ENABLED", "false")
    run("aof", "append", "orders", stdin=b"more\n")
    lines = run("aof", "tiers", "orders").lines()
    assert lines[-1] == "the manifest log is switched off: these are its last records"


def test_a_log_with_evicted_segments_does_not_open_without_its_manifest_log(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    run("aof", "upload", "orders").lines()
    run("aof", "evict", "orders").lines()
    with monkeypatch.context() as switched_off:
        switched_off.setenv("LAKEBED_AOF_MANIFEST_MANIFEST_LOG_ENABLED", "false")
        told = refusal(run("aof", "append", "orders", stdin=b"next\n"), BadConfig.exit_code)
        assert f"{SEALED} of its segments, 0 to {SEALED - 1}, are only in colder tiers" in told
    assert run("aof", "append", "orders", stdin=b"next\n").exit_code == 0
    assert run("aof", "cat", "orders").out == LINES + b"next\n"


def test_a_segment_elsewhere_is_not_converted(run: Run, tmp_path: Path) -> None:
    run("aof", "upload", "orders")
    run("aof", "evict", "orders", "1", "--warm")
    arguments = ("--to", "interchange", "--output", tmp_path / "out", "--lossy")
    line = refusal(run("aof", "convert", "orders", "1", *arguments), 66)
    assert line == (
        "orders: segment 1 is in Tier 2; bring it back with lakebed aof hydrate orders 1"
    )


def test_bad_settings_are_one_line_for_readers_too(run: Run, root: Path) -> None:
    (root / "lakebed.toml").write_text('[aof_tier2]\nurl = "s4://x"\n')
    for command in ("tiers", "cat", "upload"):
        assert refusal(run("aof", command, "orders"), 78).startswith(f"{root}/lakebed.toml: ")


def test_verify_says_if_the_manifest_log_cannot_tell_where_segments_are(
    run: Run, root: Path
) -> None:
    run("aof", "upload", "orders")
    run("aof", "evict", "orders", "--warm")
    identity = root / "aof" / "orders" / "log.json"
    text = identity.read_text()
    identity.unlink()
    lost = run("aof", "verify", "orders")
    identity.write_text("{}")
    damaged = run("aof", "verify", "orders")
    for done in (lost, damaged):
        assert done.exit_code == 65
        assert b"segments in colder tiers may be unknown, run lakebed manifest verify: " in done.out
    identity.write_text(text)
    assert run("aof", "verify", "orders", "--tier2").exit_code == 0


def test_with_deletes_owed_objects_are_repaired_and_segments_brought_back(
    run: Run, root: Path
) -> None:
    """Retention removed all but one segment while Tier 2 was out of reach."""
    assert run("aof", "upload", "orders").exit_code == 0
    assert run("aof", "evict", "orders", "--warm").exit_code == 0
    world = World(1)
    config = AofConfig(segment_bytes=64 * KIB, retention=RetentionConfig(count_max=1))
    away = root / "tier2-away"
    with AofManager(root, config=config, disk=real_disk(), runner=world.runner) as manager:
        manager.open("orders")
        (root / "tier2").rename(away)
        (root / "tier2").write_bytes(b"in the way")
        world.runner.advance(10 * 10**9)
    (root / "tier2").unlink()
    away.rename(root / "tier2")
    assert len(objects(root)) == SEALED
    assert run("aof", "repair", "orders", "--tier2").exit_code == 0
    assert run("aof", "hydrate", "orders").exit_code == 0
    assert tiers_of(run)[SEALED - 1] == "0+2"
