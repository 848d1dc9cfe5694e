"""`lakebed manifest`, each command as it should be, in the tests' own process."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from lakebed.aof.identity import load_identity
from lakebed.aof.manifest.format import CompressionStarted
from lakebed.aof.manifest.records import (
    ManifestRecord,
    Payload,
    RecordType,
    Tier2DeleteQueued,
    Unknown,
    UploadDone,
    UploadFailed,
)
from lakebed.aof.paths import LogPaths
from lakebed.cli.manifest_inspect import main as alias
from lakebed.cli.manifest_text import parse_type
from lakebed.cli.values import duration_text, size_text
from lakebed.host.store import Store
from lakebed.kernels.disk import real_disk
from tests.cli.in_process import Run
from tests.cli.manifest_stores import (
    CONFIG,
    KEY,
    OTHER_RECORDS,
    append_all,
    append_raw,
    contents,
    fill_chunks,
    journal_of,
    segment_files,
    write_chunks,
    write_segment,
    write_segments,
)


def stream_of(root: Path, log: str = "orders") -> str:
    return load_identity(real_disk(), LogPaths(root, log)).stream


def cells(line: str) -> list[str]:
    return [cell for cell in line.split("  ") if cell]


# inspect


def test_inspect_lists_chunks_snapshots_and_records(run: Run, root: Path) -> None:
    write_segments(root, 2)
    first, _, chunks, chunk, _, snapshots, snapshot, _, records, *rows = run(
        "manifest", "inspect", "orders"
    ).lines()
    assert first == f"orders: stream {stream_of(root)}"
    assert chunks.split() == ["chunk", "state", "uploaded", "records", "committed", "base",
                              "record", "crc"]  # fmt: skip
    assert chunk.split() == ["0", "open", "no", "6", "456", "0", "ok"]
    assert snapshots.split()[:3] == ["snapshot", "state", "position"]
    assert snapshot.split()[:6] == ["1", "whole", "0:392", "5", "3", "0"]
    assert records.split() == ["position", "time", "type", "segment", "offset", "what"]
    assert [row.split()[0] for row in rows] == ["0:64", "0:120", "0:200", "0:256", "0:336", "0:392"]
    opened, sealed, *_, marker = map(cells, rows)
    assert [cell.strip() for cell in opened[2:]] == [
        "SegmentOpened", "0", "0", "opened: base offset 0, writer epoch 1"
    ]  # fmt: skip
    assert [cell.strip() for cell in sealed[2:5]] == ["SealSegment", "0", "96"]
    assert sealed[5].strip().startswith("sealed: 96 B, crc ")
    assert sealed[5].endswith(", ext id 0, watermark 1")
    assert marker[-1].strip() == "snapshot 1 holds everything before 0:392"
    assert "manifest" in marker


def test_inspect_as_json_is_one_document(run: Run, root: Path) -> None:
    write_segments(root, 2)
    document = run("manifest", "inspect", "orders", as_json=True).document()
    assert (document["log"], document["stream_id"]) == ("orders", stream_of(root))
    assert document["manifest_log_enabled"] is True
    (chunk,) = document["chunks"]
    assert {name: chunk[name] for name in ("state", "sealed", "uploaded", "records", "crc_ok")} == {
        "state": "open", "sealed": False, "uploaded": False, "records": 6, "crc_ok": True,
    }  # fmt: skip
    assert document["snapshots"][0]["position"] == "0:392"
    opened, sealed, *_, marker = document["records"]
    assert (opened["position"], opened["chunk"], opened["offset"]) == ("0:64", 0, 64)
    assert opened["payload"] == {"base_offset": 0, "epoch": 1}
    assert len(sealed["payload"]["segment_crc64"]) == 16
    assert (sealed["type"], sealed["type_number"], sealed["flags"]) == ("SealSegment", 1, 0)
    assert sealed["time"].endswith("Z")
    assert isinstance(sealed["time_ms"], int)
    assert (marker["segment_id"], opened["segment_id"]) == (None, 0)
    assert document["damages"] == document["ignored_files"] == []
    assert document["next"] is None


def test_every_type_is_told_in_words(run: Run, root: Path) -> None:
    write_segments(root, 1)
    append_all(root, OTHER_RECORDS)
    later_ms = 4_000_000_000_000
    append_raw(root, ManifestRecord(Unknown(77, b"\xab" * 40), 0, 0, later_ms))
    append_raw(root, ManifestRecord(CompressionStarted(6), 0, 0, later_ms, flags=1))
    document = run("manifest", "inspect", "orders", as_json=True).document()
    assert {record["type_number"] for record in document["records"]} == {*RecordType, 77}
    *records, flagged = document["records"]
    told = {record["type"]: record["what"] for record in records}
    assert flagged["what"] == "compression started: job 6 (flags 0x0001)"
    assert told["CompressionStarted"] == "compression started: job 5"
    assert told["CompressionFailed"] == "compression failed: a passing error, it is tried again"
    assert told["CompressionDone"] == "compressed: 1.5 KiB, no dictionary"
    assert told["UploadStarted"] == f"upload started: {KEY}"
    assert told["UploadFailed"] == f"upload failed: bucket or network not available: {KEY}"
    assert told["UploadDone"] == f"uploaded: {KEY}, etag e1"
    assert told["HydrationStarted"] == "hydration started: from tier 2"
    assert told["HydrationFailed"].startswith("hydration failed: the object is not there")
    assert told["HydrationDone"] == "in tier 0 again: 128 B"
    assert told["LocalEvicted"] == "evicted: 128 B reclaimed"
    assert told["Tier2DeleteQueued"] == "delete of the object queued: aof2/s/old.zst"
    assert told["Tier2Deleted"] == "object deleted: aof2/s/old.zst"
    assert told["CustomEvent"] == "custom event of schema 9: 2 bytes, 0102"
    assert told["Unknown(77)"] == f"type 77 is not known: 40 bytes, {'ab' * 32}…"
    (unknown,) = [one for one in document["records"] if one["type_number"] == 77]
    assert unknown["payload"] == {"record_type": 77, "data": "ab" * 40}
    assert (document["unknown_records"], document["flagged_records"]) == (1, 1)
    lines = run("manifest", "inspect", "orders").lines()
    assert {"1 record of an unknown type", "1 record with flags"} <= set(lines)
    notes = run("manifest", "verify", "orders", as_json=True).document()["notes"]
    assert [note.rpartition(": ")[0].rpartition(": ")[2] for note in notes[:2]] == [
        "records of unknown types",
        "records with flags",
    ]


@pytest.mark.parametrize(
    ("options", "positions"),
    [
        (["--type", "SealSegment"], ["0:120", "0:256"]),
        (["--type", "seal-segment"], ["0:120", "0:256"]),
        (["--type", "seal_segment"], ["0:120", "0:256"]),
        (["--type", "1"], ["0:120", "0:256"]),
        (["--type", "77"], []),
        (["--segment", "1"], ["0:200", "0:256"]),
        (["--segment", "18446744073709551615"], ["0:392"]),
        (["--segment", "1", "--type", "SegmentOpened"], ["0:200"]),
        (["--from", "0:256"], ["0:256", "0:336", "0:392"]),
        (["--from", "0:201", "--limit", "1"], ["0:256"]),
        (["--chunk", "0", "--limit", "2"], ["0:64", "0:120"]),
    ],
    ids=" ".join,
)
def test_records_are_chosen(run: Run, root: Path, options: list[str], positions: list[str]) -> None:
    write_segments(root, 2)
    document = run("manifest", "inspect", "orders", *options, as_json=True).document()
    assert [record["position"] for record in document["records"]] == positions


def test_a_limit_tells_where_to_go_on(run: Run, root: Path) -> None:
    write_segments(root, 2)
    seen: list[str] = []
    following: str | None = "0:64"
    while following is not None:
        options = ["--from", following, "--limit", "2"]
        page = run("manifest", "inspect", "orders", *options, as_json=True).document()
        seen += [record["position"] for record in page["records"]]
        following = page["next"]
    assert seen == ["0:64", "0:120", "0:200", "0:256", "0:336", "0:392"]
    assert run("manifest", "inspect", "orders", "--limit", "2").lines()[-1] == "more: --from 0:200"


def test_one_chunk_of_many_is_shown(run: Run, root: Path) -> None:
    write_chunks(root, until=2)
    document = run("manifest", "inspect", "orders", "--chunk", "1", as_json=True).document()
    assert [chunk["state"] for chunk in document["chunks"]] == ["sealed", "sealed", "open"]
    assert {record["chunk"] for record in document["records"]} == {1}
    assert document["chunks"][1]["records"] == len(document["records"])
    assert document["chunks"][2]["base_record"] == sum(c["records"] for c in document["chunks"][:2])


# state


def test_state_shows_every_segment_and_totals(run: Run, root: Path) -> None:
    write_segments(root, 2)
    about, _, heading, first, second, third, _, totals, tier = run(
        "manifest", "state", "orders"
    ).lines()
    assert about.startswith(f"orders: stream {stream_of(root)}, as of 0:456, 20")
    assert heading.split()[:3] == ["segment", "tiers", "condition"]
    assert first.split()[:9] == ["0", "0", "sealed", "0", "96", "-", "0", "1", "-"]
    assert second.split()[:9] == ["1", "0", "sealed", "192", "96", "-", "1", "2", "-"]
    assert third.split()[:8] == ["2", "0", "open", "384", "-", "-", "-", "-"]
    assert totals == "3 segments, 2 sealed, 0 with work pending, watermark 2, 6 records"
    assert tier == "tier 0: 3 segments, 192 B"


def test_state_tells_work_failures_and_objects(run: Run, root: Path) -> None:
    write_segments(root, 1)
    uploaded: list[Payload] = [UploadFailed(KEY, 2), UploadDone(KEY, "e")]
    deletes: list[Payload] = [Tier2DeleteQueued("orphan"), Tier2DeleteQueued(KEY)]
    append_all(root, [*OTHER_RECORDS[:4], *uploaded])
    for payload in (*deletes, *OTHER_RECORDS[6:8]):  # a store that is open would carry them out
        append_raw(root, ManifestRecord(payload, 0, 0, 4_000_000_000_000))
    document = run("manifest", "state", "orders", as_json=True).document()
    state = document["segments"][0]
    assert (state["tiers"], state["object_key"], state["etag"]) == ([0, 1, 2], KEY, "e")
    assert state["pending"] == ["delete"]
    assert state["condition"] == ["opened", "sealed", "needs repair"]
    assert state["failures"] == ["hydration: the object is not there, it must be repaired"]
    assert state["compressed_bytes"] == 1536
    assert document["pending_deletes"] == ["orphan"]
    assert document["totals"]["tier1"] == {"segments": 1, "bytes": 1536}
    lines = run("manifest", "state", "orders").lines()
    assert "pending delete: orphan" in lines
    assert "tier 2: 1 segment, 1.5 KiB" in lines
    (row,) = [line for line in lines if line.startswith("0 ")]
    assert "0+1+2" in row
    assert row.endswith(KEY)


def test_state_as_of_a_position_or_a_time_is_that_of_then(run: Run, root: Path) -> None:
    write_segments(root, 2)
    records = run("manifest", "inspect", "orders", as_json=True).document()["records"]
    expected: dict[int, str] = {}
    for record in records:
        wanted = ["--as-of", record["position"]]
        document = run("manifest", "state", "orders", *wanted, as_json=True).document()
        found = {one["segment_id"]: one["condition"][-1] for one in document["segments"]}
        assert found == expected
        assert document["as_of"]["position"] == record["position"]
        if record["segment_id"] is not None:
            expected[record["segment_id"]] = {0: "opened", 1: "sealed"}[record["type_number"]]
    last = records[3]
    document = run("manifest", "state", "orders", "--as-of", last["time"], as_json=True).document()
    assert document["as_of"]["time_ms"] <= last["time_ms"]
    assert {0, 1} <= {one["segment_id"] for one in document["segments"]}
    later = run("manifest", "state", "orders", "--as-of", "2200-01-01", as_json=True).document()
    assert later["as_of"]["position"] == "0:456"


def test_a_segment_that_left_the_log_is_in_its_history_and_not_in_the_state(
    run: Run, root: Path
) -> None:
    write_segments(root, 2)
    segment_files(root)[0].unlink()
    with Store.open(root, config=CONFIG) as store:
        store.log("orders")  # records what became of it
    document = run("manifest", "state", "orders", as_json=True).document()
    assert [one["segment_id"] for one in document["segments"]] == [1, 2]
    steps = run("manifest", "history", "orders", "0", as_json=True).document()["steps"]
    assert [step["type"] for step in steps] == ["SegmentOpened", "SealSegment", "LocalEvicted"]
    assert run("manifest", "verify", "orders").exit_code == 0


# history


def test_history_is_a_timeline(run: Run, root: Path) -> None:
    write_segments(root, 1)
    append_all(root, OTHER_RECORDS[2:6])
    about, _, heading, opened, sealed, *others = run("manifest", "history", "orders", "0").lines()
    assert about.endswith(", segment 0")
    assert heading.split() == ["time", "after", "what", "position"]
    assert opened.split()[1:3] == ["-", "opened:"]
    assert opened.endswith(" 0:64")
    assert sealed.split()[2] in ("ms", "s")
    assert "sealed: 96 B, crc " in sealed
    assert sealed.endswith(" 0:120")
    assert len(others) == 4
    document = run("manifest", "history", "orders", "0", as_json=True).document()
    steps = document["steps"]
    assert document["segment_id"] == 0
    assert steps[0]["after_ms"] is None
    assert sum(step["after_ms"] for step in steps[1:]) == steps[-1]["time_ms"] - steps[0]["time_ms"]


# verify


def test_verify_of_a_whole_log_counts_what_it_compared(run: Run, root: Path) -> None:
    write_chunks(root, until=2, snapshot_at=1)
    document = run("manifest", "verify", "orders", as_json=True).document()
    assert document["ok"] is True
    assert document["problems"] == document["notes"] == []
    assert (document["chunks"], document["snapshots"]) == (3, 2)
    assert (document["snapshots_compared"], document["segments_compared"]) == (2, 2)
    line = f"orders: 3 chunks, {document['records']} records, 2 snapshots, 2 segments, all whole"
    assert run("manifest", "verify", "orders").lines() == [line]


# names


def test_a_log_is_found_by_its_stream_id(run: Run, root: Path) -> None:
    write_segments(root, 1)
    with Store.open(root, config=CONFIG) as store:
        write_segment(store.log("events"))
    for log in ("orders", "events"):
        stream = stream_of(root, log)
        for text in (stream, stream.upper()):
            found = run("manifest", "state", text, as_json=True).document()
            assert (found["log"], found["stream_id"]) == (log, stream)
    assert run("manifest", "state", "0123456789abcdef").error_line() == (
        f"{root}: no log has the name or the stream id 0123456789abcdef"
    )


def test_a_log_that_is_called_like_a_stream_comes_first(run: Run, root: Path) -> None:
    write_segments(root, 1)
    stream = stream_of(root)
    with Store.open(root, config=CONFIG) as store:
        write_segment(store.log(stream))
    assert run("manifest", "state", stream, as_json=True).document()["log"] == stream


def test_a_stream_id_of_two_logs_is_refused(run: Run, root: Path) -> None:
    import shutil

    write_segments(root, 1)
    shutil.copytree(root / "aof" / "orders", root / "aof" / "copy")
    done = run("manifest", "verify", stream_of(root))
    assert done.exit_code == 64
    assert done.error_line().endswith(
        "is the stream id of several logs; use the name of one: copy, orders"
    )


# beside a writer


def test_every_command_works_beside_a_writer_and_changes_nothing(run: Run, root: Path) -> None:
    with Store.open(root, config=CONFIG) as store:
        log = store.log("orders")
        write_segment(log)
        write_segment(log)
        fill_chunks(log, until=1)
        journal_of(log).take_snapshot()
        journal_of(log).commit()
        before = contents(root)
        for command in (["inspect"], ["verify"], ["state"], ["state", "--as-of", "0:64"]):
            assert run("manifest", *command[:1], "orders", *command[1:]).exit_code == 0, command
        assert run("manifest", "history", "orders", "1").exit_code == 0
        assert contents(root) == before
        write_segment(log)
    assert run("manifest", "verify", "orders").exit_code == 0


# the alias, and texts


def test_the_alias_inspects(
    run: Run, root: Path, capsysbinary: pytest.CaptureFixture[bytes]
) -> None:
    write_segments(root, 1)
    wanted = run("manifest", "inspect", "orders", "--limit", "2", as_json=True).out
    for name in ("orders", stream_of(root)):
        assert alias([name, "--root", str(root), "--limit", "2", "--json"]) == 0
        assert capsysbinary.readouterr().out == wanted
    assert alias(["nope", "--root", str(root)]) == 66


@pytest.mark.parametrize("kind", RecordType)
def test_a_type_is_known_by_its_name_and_number(kind: RecordType) -> None:
    for text in (kind.name, kind.name.lower(), kind.name.replace("_", "-"), str(int(kind))):
        assert parse_type(text) == kind


@pytest.mark.parametrize(
    ("duration_ms", "text"),
    [
        (0, "0 ms"),
        (999, "999 ms"),
        (1500, "1.5 s"),
        (200_000, "3 min 20 s"),
        (7_500_000, "2 h 5 min"),
        (370_800_000, "4 d 7 h"),
        (-5, "-5 ms"),
    ],
)
def test_durations_are_read_easily(duration_ms: int, text: str) -> None:
    assert duration_text(duration_ms) == text


@pytest.mark.parametrize(
    ("size", "text"),
    [(0, "0 B"), (1023, "1023 B"), (1536, "1.5 KiB"), (64 << 20, "64.0 MiB")],
)
def test_sizes_are_read_easily(size: int, text: str) -> None:
    assert size_text(size) == text


def test_json_is_ascii_and_survives_any_key(run: Run, root: Path) -> None:
    write_segments(root, 1)
    append_all(root, [UploadDone("k\udcff\n\u202e", "é")])
    done = run("manifest", "state", "orders", as_json=True)
    assert done.out.isascii()
    assert json.loads(done.out)["segments"][0]["object_key"] == "k\udcff\n\u202e"
    for command in (["inspect", "orders"], ["state", "orders"], ["history", "orders", "0"]):
        shown = "\n".join(run("manifest", *command).lines())
        assert "k\\xff\\n\\u202e" in shown
