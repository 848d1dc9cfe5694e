"""`lakebed aof`, each command and each mistake, in the tests' own process."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path

import pytest

from lakebed.aof.config import AofConfig, FlushConfig
from lakebed.aof.format import SEGMENT_HEADER
from lakebed.aof.interchange import INTERCHANGE_HEADER
from lakebed.aof.record_id import RecordId
from lakebed.base.errors import NoSpace, OutcomeUnknown
from lakebed.base.units import KIB, TIB
from lakebed.cli.aof2_admin import main as admin
from lakebed.host.store import Store
from tests.cli.in_process import Run, runner

LINES = b"first\nsecond\nthird\n"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "root"


@pytest.fixture
def run(
    root: Path, monkeypatch: pytest.MonkeyPatch, capsysbinary: pytest.CaptureFixture[bytes]
) -> Run:
    monkeypatch.setenv("LAKEBED_AOF_SEGMENT_BYTES", "64KiB")  # less to read than by default
    return runner(root, monkeypatch, capsysbinary)


def segment_files(root: Path, log: str = "orders") -> list[Path]:
    return sorted((root / "aof" / log / "segments").glob("*.seg"))


def flip(path: Path, offset: int) -> None:
    with path.open("r+b") as file:
        file.seek(offset)
        byte = file.read(1)[0]
        file.seek(offset)
        file.write(bytes([byte ^ 0x40]))


# append and cat


def test_what_is_appended_is_printed_again(run: Run) -> None:
    assert run("aof", "append", "orders", stdin=LINES).lines() == [
        "orders: appended 3 records, the last is 0:128"
    ]
    assert run("aof", "cat", "orders").out == LINES


def test_ten_thousand_lines_of_any_bytes_come_back_as_they_were(run: Run) -> None:
    lines = b"".join(
        bytes(byte for byte in number.to_bytes(4, "big") * 3 if byte != 10) + b"\r\x00\xff\n"
        for number in range(10_000)
    )
    document = run("aof", "append", "orders", stdin=lines, as_json=True).document()
    assert document["records"] == 10_000
    assert run("aof", "cat", "orders").out == lines


def test_the_last_line_needs_no_newline(run: Run) -> None:
    run("aof", "append", "orders", stdin=b"one\ntwo")
    assert run("aof", "cat", "orders").out == b"one\ntwo\n"


def test_nothing_to_append_creates_an_empty_log(run: Run) -> None:
    assert run("aof", "append", "orders").lines() == ["orders: appended 0 records"]
    assert run("aof", "cat", "orders").out == b""
    assert run("aof", "verify", "orders").lines() == ["orders: 0 segments, 0 records, all whole"]


def test_an_empty_line_is_an_error_with_its_number_and_earlier_lines_are_kept(run: Run) -> None:
    done = run("aof", "append", "orders", stdin=b"one\ntwo\n\nfour\n")
    assert done.error_line() == (
        "line 3 is empty: a record must have at least one byte; "
        "kept before it: 2 records, the last is 0:96"
    )
    assert (done.exit_code, done.out) == (64, b"")
    assert run("aof", "cat", "orders").out == b"one\ntwo\n"


def test_a_line_too_long_for_a_record_is_an_error_with_its_number(run: Run) -> None:
    largest = 64 * 1024 - 64 - 96 - 24
    fitting, too_long = b"x" * largest, b"y" * (largest + 1)
    done = run("aof", "append", "orders", stdin=fitting + b"\n" + too_long + b"\nz\n")
    assert done.error_line().startswith(
        f"line 2 is longer than the maximum record of {largest} bytes; kept before it: 1 record"
    )
    assert done.exit_code == 64
    assert run("aof", "cat", "orders").out == fitting + b"\n"


def test_a_log_goes_on_over_many_segments(run: Run, root: Path) -> None:
    lines = b"".join(b"%06d%s\n" % (number, b"x" * 200) for number in range(2000))
    run("aof", "append", "orders", stdin=lines)
    assert len(segment_files(root)) == 8
    assert run("aof", "cat", "orders").out == lines
    assert run("aof", "verify", "orders").exit_code == 0


def test_the_ext_id_is_kept(run: Run) -> None:
    run("aof", "append", "orders", "--ext-id", "18446744073709551615", stdin=b"one\n")
    assert run("aof", "cat", "orders", "--show", "ext-ids").out == b"18446744073709551615\tone\n"


def test_files_are_appended_by_line_or_whole(run: Run, tmp_path: Path) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    one.write_bytes(b"a\nb\n")
    two.write_bytes(b"c\n\n")
    run("aof", "append", "whole", "--file", one, "--file", two, "--whole")
    assert run("aof", "cat", "whole").out == b"a\nb\n\nc\n\n\n"
    done = run("aof", "append", "orders", "--file", one, "--file", two)
    assert done.error_line().startswith(f"{two}: line 2 is empty")
    assert run("aof", "cat", "orders").out == b"a\nb\nc\n"


def test_a_missing_file_is_told_before_anything_is_appended(run: Run, root: Path) -> None:
    done = run("aof", "append", "orders", "--file", "missing")
    assert (done.exit_code, done.error_line()) == (66, "missing: no such file or folder")
    assert not root.exists()


def test_a_range_is_half_open_and_can_be_reversed(run: Run) -> None:
    run("aof", "append", "orders", stdin=LINES)
    assert run("aof", "cat", "orders", "--from", "0:96").out == b"second\nthird\n"
    assert run("aof", "cat", "orders", "--to", "0:96").out == b"first\n"
    assert run("aof", "cat", "orders", "--from", "0:160").out == b""
    assert run("aof", "cat", "orders", "--max", "2").out == b"first\nsecond\n"
    assert run("aof", "cat", "orders", "--reverse", "--max", "2").out == b"third\nsecond\n"
    assert run("aof", "cat", "orders", "--reverse", "--from", "0:96").out == b"third\nsecond\n"
    assert run("aof", "cat", "orders", "--show", "ids", "--max", "1").out == b"0:64\tfirst\n"


def test_a_time_finds_the_first_record_that_is_not_older(run: Run, root: Path) -> None:
    with Store.open(root) as store:
        log = store.log("orders")
        for second in (1, 2, 3):
            log.append_record(b"%d" % second, timestamp=second * 10**9)
        log.flush()
    assert run("aof", "cat", "orders", "--from-time", "1970-01-01T00:00:02Z").out == b"2\n3\n"
    assert run("aof", "cat", "orders", "--from-time", "2500000000").out == b"3\n"
    assert run("aof", "cat", "orders", "--from-time", "1970-01-02").out == b""


def test_json_of_cat_is_one_object_a_line(run: Run) -> None:
    run("aof", "append", "orders", "--ext-id", "7", stdin=b"text\n\xff\n")
    text, binary = map(json.loads, run("aof", "cat", "orders", as_json=True).out.splitlines())
    assert (text["record_id"], text["ext_id"], text["payload"]) == ("0:64", 7, "text")
    assert binary["payload_base64"] == "/w=="


def test_tail_prints_the_last_records(run: Run) -> None:
    run("aof", "append", "orders", stdin=LINES)
    assert run("aof", "tail", "orders", "-n", "2").out == b"second\nthird\n"
    assert run("aof", "tail", "orders").out == LINES
    assert run("aof", "tail", "orders", "-n", "0").out == b""


# segments, seal, dump


def test_segments_tell_what_is_sealed(run: Run) -> None:
    run("aof", "append", "orders", stdin=LINES)
    assert run("aof", "seal", "orders").lines() == ["orders: segment 0 is sealed, 160 bytes"]
    assert run("aof", "seal", "orders").lines() == ["orders: there is no record to seal"]
    run("aof", "append", "orders", stdin=b"fourth\n")
    heading, first, second = run("aof", "segments", "orders").lines()
    assert heading.startswith("id  base offset  created ")
    assert heading.split()[-5:] == ["sealed", "bytes", "records", "state", "tiers"]
    assert first.split()[0:2] + first.split()[4:] == ["0", "0", "160", "3", "sealed", "0"]
    assert second.split()[0:2] + second.split()[3:] == ["1", "256", "-", "96", "1", "active", "0"]
    document = run("aof", "segments", "orders", as_json=True).document()
    assert [segment["records"] for segment in document["segments"]] == [3, 1]
    assert document["segments"][1]["sealed_at_ns"] is None


def test_segments_in_the_archive_are_listed(run: Run, root: Path) -> None:
    root.mkdir()
    (root / "lakebed.toml").write_text("[aof_retention]\ncount_max = 1\narchive = true\n")
    for line in (b"one\n", b"two\n", b"three\n"):
        run("aof", "append", "orders", stdin=line)
        run("aof", "seal", "orders")
    document = run("aof", "segments", "orders", as_json=True).document()
    states = {segment["id"]: segment["state"] for segment in document["segments"]}
    assert states[2] == "sealed"
    assert states[0] == "archived"


def test_dump_shows_state_counters_and_residency(run: Run, root: Path) -> None:
    run("aof", "append", "orders", stdin=LINES)
    run("aof", "append", "events", stdin=b"e\n")
    document = run("aof", "dump", as_json=True).document()
    assert set(document) == {"root", "store", "pins", "logs", "problems"}
    assert document["store"]["version"] == 1
    events, orders = document["logs"]
    assert (events["log"], orders["log"]) == ("events", "orders")
    assert orders["state"] == {
        "oldest": "0:64",
        "durable_end": "0:160",
        "coordinator_watermark": 0,
        "writer_epoch": 1,
    }
    assert orders["counters"]["records"] == 3
    assert orders["residency"]["tier0"] == {"segments": 1, "bytes": 160}
    assert [line.split()[0] for line in run("aof", "dump").lines()] == ["log", "events", "orders"]
    assert len(run("aof", "dump", "orders", as_json=True).document()["logs"]) == 1


def test_a_damaged_log_hides_none_of_the_others_from_dump(run: Run, root: Path) -> None:
    run("aof", "append", "orders", stdin=LINES)
    run("aof", "append", "events", stdin=b"e\n")
    segment_files(root)[0].write_bytes(b"short")
    done = run("aof", "dump", as_json=True)
    assert done.exit_code == 65
    assert [log["log"] for log in done.document()["logs"]] == ["events"]
    assert "too short" in done.document()["problems"]["orders"]


def test_the_alias_dumps_a_root(
    run: Run, root: Path, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    run("aof", "append", "orders", stdin=LINES)
    wanted = run("aof", "dump", as_json=True).out
    assert admin(["dump", "--root", str(root), "--json"]) == 0
    assert capsysbinary.readouterr().out == wanted


# verify and repair


def test_verify_names_the_file_and_the_place_of_flipped_bytes(run: Run, root: Path) -> None:
    run("aof", "append", "orders", stdin=LINES)
    run("aof", "seal", "orders")
    (path,) = segment_files(root)
    flip(path, 96 + 24)
    done = run("aof", "verify", "orders")
    assert (done.exit_code, done.err) == (65, b"")
    first, *_ = done.out.decode().splitlines()
    assert first.startswith(f"{path}: at byte 96: corrupt: ")
    document = json.loads(run("aof", "verify", "orders", as_json=True).out)
    assert document["ok"] is False
    assert document["problems"][0]["offset"] == 96
    assert run("aof", "cat", "orders").exit_code == 65


def test_verify_finds_a_damaged_footer(run: Run, root: Path) -> None:
    run("aof", "append", "orders", stdin=LINES)
    run("aof", "seal", "orders")
    run("aof", "append", "orders", stdin=b"more\n")
    path, _ = segment_files(root)
    flip(path, path.stat().st_size - 50)
    done = run("aof", "verify", "orders")
    assert done.exit_code == 65
    assert "the segment must be sealed, but its footer is missing or damaged" in done.out.decode()


def test_verify_finds_a_missing_segment(run: Run, root: Path) -> None:
    for line in (b"one\n", b"two\n", b"three\n"):
        run("aof", "append", "orders", stdin=line)
        run("aof", "seal", "orders")
    _, second, third = segment_files(root)
    second.unlink()
    done = run("aof", "verify", "orders")
    assert done.exit_code == 65
    assert done.out.decode() == f"{third}: corrupt: missing before it: segment 1\n"


def test_verify_and_repair_find_a_segment_that_miscounts_the_records_before_it(
    run: Run, root: Path
) -> None:
    run("aof", "append", "orders", stdin=LINES)
    run("aof", "seal", "orders")
    run("aof", "append", "orders", stdin=b"more\n")
    path = segment_files(root)[1]
    with path.open("r+b") as file:
        header = SEGMENT_HEADER.unpack(file.read(SEGMENT_HEADER.size))
        file.seek(0)
        file.write(SEGMENT_HEADER.pack(header._replace(base_record_count=0)))
    told = "counts 0 records before it, but 3 is expected after segment 0"
    for command in (("verify",), ("aof", "verify", "orders")):
        done = run(*command)
        assert (done.exit_code, path.name in done.out.decode()) == (65, True)
        assert told in done.out.decode()
    for options in (["--dry-run"], []):
        assert told in run("aof", "repair", "orders", *options).out.decode()


def test_damage_is_skipped_on_request_and_told(run: Run, root: Path) -> None:
    run("aof", "append", "orders", stdin=LINES)
    run("aof", "seal", "orders")
    flip(segment_files(root)[0], 96 + 24)
    done = run("aof", "cat", "orders", "--skip-damage")
    assert (done.exit_code, done.out) == (65, b"first\nthird\n")
    assert "at byte 96" in done.error_line()


def test_repair_saves_what_is_damaged_in_a_sealed_segment(run: Run, root: Path) -> None:
    run("aof", "append", "orders", stdin=LINES)
    run("aof", "seal", "orders")
    (path,) = segment_files(root)
    flip(path, 96 + 24)
    before = path.read_bytes()
    foreseen = run("aof", "repair", "orders", "--dry-run", as_json=True).document()
    assert foreseen["torn_bytes"] == 0
    assert str(path) in foreseen["problems"][0]
    assert list((root / "quarantine").iterdir()) == []
    document = run("aof", "repair", "orders", as_json=True).document()
    saved = root / "quarantine" / f"aof-orders-{0:020}-96.bin"
    assert str(saved) in document["quarantined"]
    assert saved.read_bytes() == before[96:128]
    assert path.read_bytes() == before
    again = run("aof", "repair", "orders", as_json=True).document()
    assert again["quarantined"] == document["quarantined"]


def test_repair_cuts_torn_bytes_and_tells_how_many(run: Run, root: Path) -> None:
    run("aof", "append", "orders", stdin=LINES)
    (path,) = segment_files(root)
    with path.open("r+b") as file:
        file.seek(160)
        file.write(b"torn")
    # The durable end says that these bytes are not part of the log.
    assert run("aof", "verify", "orders").exit_code == 0
    (root / "aof" / "orders" / "durable_end").unlink()
    done = run("aof", "verify", "orders")
    assert done.exit_code == 65
    assert f"{path}: at byte 160: torn: " in done.out.decode()
    foreseen = run("aof", "repair", "orders", "--dry-run").lines()
    assert foreseen == ["orders: 4 torn bytes would be cut"]
    assert run("aof", "repair", "orders").lines() == ["orders: 4 torn bytes cut"]
    assert run("aof", "repair", "orders").lines() == ["orders: nothing to repair"]
    assert run("aof", "verify", "orders").exit_code == 0
    assert run("aof", "cat", "orders").out == LINES


# convert


def test_a_segment_is_converted_there_and_back(run: Run, root: Path, tmp_path: Path) -> None:
    with Store.open(root) as store:
        log = store.log("orders")
        for number in range(3):
            log.append_record(b"record %d" % number, timestamp=(number + 1) * 10**6)
        log.seal_current_segment()
    out, back = tmp_path / "out", tmp_path / "back"
    refused = run("aof", "convert", "orders", "0", "--to", "interchange", "--output", out)
    assert "lossy" in refused.error_line()
    assert refused.exit_code == 64
    to_out = ["--to", "interchange", "--output", out, "--lossy"]
    assert run("aof", "convert", "orders", "0", *to_out).exit_code == 0
    (exported,) = out.iterdir()
    assert run("aof", "convert", "orders", "0", *to_out).exit_code == 73
    done = run("aof", "convert", "orders", exported, "--to", "runtime", "--output", back)
    assert done.exit_code == 0
    (imported,) = back.iterdir()
    assert imported.name == exported.name == segment_files(root)[0].name
    assert INTERCHANGE_HEADER.unpack(exported.read_bytes()).stream_id == log.stream_id
    to_other = ["--to", "interchange", "--output", tmp_path / "seventh", "--lossy"]
    assert run("aof", "convert", "orders", "0", *to_other, "--stream-id", "7").exit_code == 0
    (other_id,) = (tmp_path / "seventh").iterdir()
    assert INTERCHANGE_HEADER.unpack(other_id.read_bytes()).stream_id == 7
    kept = root.parent / "other" / "aof" / "orders" / "segments"
    kept.mkdir(parents=True)
    imported.rename(kept / imported.name)
    with Store.open(root.parent / "other", read_only=True) as other:
        records = list(other.log("orders").read())
    assert [record.payload for record in records] == [b"record 0", b"record 1", b"record 2"]
    assert records[0].record_id == RecordId.from_parts(0, 64)


# mistakes


@pytest.mark.parametrize(
    "command",
    [
        ["cat"],
        ["tail"],
        ["tail", "-f"],
        ["segments"],
        ["verify"],
        ["seal"],
        ["repair"],
        ["repair", "--dry-run"],
        ["dump"],
        ["convert", "--to", "runtime", "--output", "out", "--"],
    ],
    ids=" ".join,
)
def test_a_log_that_does_not_exist_is_one_line_and_nothing_is_created(
    run: Run, root: Path, command: list[str]
) -> None:
    arguments = [*command, "nope", *(["0"] if "convert" in command else [])]
    done = run("aof", *arguments)
    assert (done.exit_code, done.out) == (66, b"")
    assert "no such root" in done.error_line()
    assert not root.exists()
    root.mkdir()
    done = run("aof", *arguments)
    assert (done.exit_code, done.out) == (66, b"")
    assert done.error_line() == f"{root}: there is no log nope"
    assert list(root.iterdir()) == []


@pytest.mark.parametrize(
    "name", ["", "..", ".", "a/b", "/etc", "a\nb", "\x1b[2J", "x" * 201, "ü", "\udcff", ".hidden"]
)
@pytest.mark.parametrize("command", ["append", "cat", "seal", "dump"])
def test_a_hostile_name_is_one_line(run: Run, root: Path, command: str, name: str) -> None:
    root.mkdir()
    done = run("aof", command, "--", name)
    assert (done.exit_code, done.out) == (64, b"")
    assert done.error_line().startswith("log name ")
    assert list(root.iterdir()) == []


@pytest.mark.parametrize(
    ("options", "message", "exit_code"),
    [
        (["--from", "x"], "not a record id", 64),
        (["--from", "1:2:3"], "not a record id", 64),
        (["--to", "99999999999999999999999"], "not a record id", 64),
        (["--from", "7:64"], "segment 7 does not exist", 66),
        (["--from", "0:65"], "multiples of 8", 66),
        (["--from", "0:72"], "0:72", 66),
        (["--from", "0:96", "--to", "0:64"], "before the start", 64),
        (["--from-time", "yesterday"], "not a time", 64),
        (["--from-time", "0001-01-01"], "not a time", 64),
        (["--from", "0:64", "--from-time", "5"], "cannot be combined", 64),
        (["--max", "-1"], "--max", 2),
        (["--show", "everything"], "--show", 2),
    ],
    ids=lambda value: str(value)[:30],
)
def test_a_wrong_option_of_cat_is_one_line(
    run: Run, options: list[str], message: str, exit_code: int
) -> None:
    run("aof", "append", "orders", stdin=LINES)
    done = run("aof", "cat", "orders", *options)
    assert message in done.error_line()
    assert (done.exit_code, done.out) == (exit_code, b"")


def test_a_segment_that_does_not_exist_cannot_be_converted(run: Run, tmp_path: Path) -> None:
    run("aof", "append", "orders", stdin=LINES)
    options = ["--to", "interchange", "--output", tmp_path / "out", "--lossy"]
    assert run("aof", "convert", "orders", "7", *options).exit_code == 66
    assert run("aof", "convert", "orders", "nowhere.seg", *options).exit_code == 66
    not_sealed = run("aof", "convert", "orders", "0", *options)
    assert (not_sealed.exit_code, "not sealed" in not_sealed.error_line()) == (64, True)


def test_beside_a_program_that_has_the_store_open_everything_works(run: Run, root: Path) -> None:
    with Store.open(root, config=AofConfig()) as store:
        store.log("orders").flush(store.log("orders").append_record(b"one"))
        for command in (["append"], ["seal"], ["repair"], ["repair", "--dry-run"]):
            done = run("aof", *command, "orders", stdin=b"two\n")
            assert (done.exit_code, done.err) == (0, b"")
        assert run("aof", "cat", "orders").out == b"one\ntwo\n"
        assert run("aof", "verify", "orders").exit_code == 0
        assert run("aof", "dump").exit_code == 0


FULL = AofConfig(segment_bytes=64 * KIB, flush=FlushConfig(reserve_bytes=TIB))


@pytest.mark.parametrize("is_beside_a_writer", [False, True])
def test_an_append_to_a_full_disk_does_not_ask_to_be_repeated(
    run: Run, root: Path, *, is_beside_a_writer: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The writer has the records queued: who appends them again may have them twice."""
    with contextlib.ExitStack() as stack:
        if is_beside_a_writer:
            stack.enter_context(pytest.raises(NoSpace))  # by the store, when it is closed
            stack.enter_context(Store.open(root, config=FULL))
        else:
            monkeypatch.setenv("LAKEBED_AOF_FLUSH_RESERVE_BYTES", "1TiB")
        done = run("aof", "append", "orders", stdin=b"one\ntwo\n")
        assert done.exit_code == OutcomeUnknown.exit_code
        assert b"2 records were appended, up to 0:96; those before 0:64 are durable" in done.err
        assert b"check before appending them again" in done.err


def test_a_newer_store_and_a_damaged_version_file_are_refused(run: Run, root: Path) -> None:
    run("aof", "append", "orders", stdin=LINES)
    (root / "store.json").write_text('{"format": "lakebed store", "version": 2, "created_ms": 0}')
    for command in ("append", "cat"):
        done = run("aof", command, "orders")
        assert "version" in done.error_line()
        assert done.exit_code == 65
    (root / "store.json").write_text("{")
    assert run("aof", "cat", "orders").exit_code == 65


def test_a_wrong_setting_is_one_line(run: Run, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("LAKEBED_AOF_SEGMENT_BYTES")
    root.mkdir()
    (root / "lakebed.toml").write_text("[aof]\nsegment_bytes = 100000\n")
    done = run("aof", "append", "orders", stdin=LINES)
    assert "not a power of two" in done.error_line()
    assert done.exit_code == 78
