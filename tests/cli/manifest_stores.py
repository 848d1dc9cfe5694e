"""Stores whose logs have manifest logs with something in them, for the tests of the commands."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from lakebed.aof.config import AofConfig
from lakebed.aof.log import Aof
from lakebed.aof.manifest.chunk import encode_header
from lakebed.aof.manifest.config import ManifestConfig
from lakebed.aof.manifest.format import (
    CHUNK_HEADER,
    RECORDS_START,
    CompressionDone,
    CompressionFailed,
    CompressionStarted,
    HydrationDone,
    HydrationFailed,
    HydrationStarted,
    LocalEvicted,
)
from lakebed.aof.manifest.journal import Journal
from lakebed.aof.manifest.records import (
    CustomEvent,
    ManifestRecord,
    Payload,
    Tier2Deleted,
    Tier2DeleteQueued,
    UploadDone,
    UploadFailed,
    UploadStarted,
    encode_record,
)
from lakebed.base.units import KIB
from lakebed.host.store import Store
from lakebed.kernels import crc64nvme
from tests.cli.in_process import Done, Run

KEY = "aof2/s/segment-0.zst"

# Small chunks, and snapshots only when they are asked for; what is recorded is committed at once.
MANIFEST = ManifestConfig(chunk_bytes=16 * KIB, commit_ms=0, snapshot_chunks=1000)
CONFIG = AofConfig(segment_bytes=64 * KIB, manifest=MANIFEST)
UNCOMMITTED = AofConfig(
    segment_bytes=64 * KIB,
    manifest=ManifestConfig(chunk_bytes=16 * KIB, commit_ms=60_000, snapshot_chunks=1000),
)

OTHER_RECORDS: list[Payload] = [
    CompressionStarted(5),
    CompressionFailed(0),
    CompressionDone(1536, 0),
    UploadStarted(KEY),
    UploadFailed(KEY, 3),
    UploadDone(KEY, "e1"),
    HydrationStarted(2),
    HydrationFailed(4),
    HydrationDone(128),
    LocalEvicted(128),
    Tier2DeleteQueued("aof2/s/old.zst"),
    Tier2Deleted("aof2/s/old.zst"),
    CustomEvent(9, b"\x01\x02"),
]
"""One of each type that no log writes by itself yet."""


def journal_of(log: Aof) -> Journal:
    assert log.manifest is not None
    return log.manifest


def write_segment(log: Aof, payload: bytes = b"record", *, ext_id: int = 7) -> None:
    """A segment with one record, sealed."""
    log.append_record(payload, ext_id=ext_id)
    log.flush()
    log.seal_current_segment()


def write_segments(root: Path, count: int = 3, *, config: AofConfig = CONFIG) -> None:
    """A log of sealed segments and one that is open, closed as it should be."""
    with Store.open(root, config=config) as store:
        log = store.log("orders")
        for number in range(count):
            log.set_coordinator_watermark(number + 1)
            write_segment(log, ext_id=number)
        log.append_record(b"last")
        log.flush()


def append_all(root: Path, payloads: list[Payload], *, segment_id: int = 0) -> None:
    """Record these too."""
    with Store.open(root, config=CONFIG) as store:
        journal = journal_of(store.log("orders"))
        for payload in payloads:
            journal.append(payload, segment_id=segment_id, logical_offset=0)


def append_raw(root: Path, record: ManifestRecord) -> None:
    """A record that a newer program might have written, behind the last of the last chunk."""
    path = chunk_files(root)[-1]
    data = path.read_bytes()
    header = CHUNK_HEADER.unpack(data)
    body = data[RECORDS_START : header.committed_len] + encode_record(record)
    start = encode_header(
        chunk_index=header.chunk_index,
        base_record=header.base_record,
        end=RECORDS_START + len(body),
        chunk_crc64=crc64nvme(body),
        flags=header.flags,
    )
    path.write_bytes((start + body).ljust(len(data), b"\0"))


def fill_chunks(log: Aof, *, until: int) -> None:
    """Custom events, until that chunk has some."""
    journal = journal_of(log)
    while journal.end.chunk_index < until or journal.end.offset < 4000:
        journal.append(CustomEvent(1, b"x" * 700), segment_id=0, logical_offset=0)
    journal.commit()


def write_chunks(root: Path, *, until: int = 3, snapshot_at: int | None = None) -> None:
    """A log whose manifest log has several chunks; a snapshot in one of them, and at the end."""
    with Store.open(root, config=CONFIG) as store:
        log = store.log("orders")
        write_segment(log)
        write_segment(log)
        if snapshot_at is not None:
            fill_chunks(log, until=snapshot_at)
            journal_of(log).take_snapshot()
        fill_chunks(log, until=until)


def folder_of(root: Path, log: str = "orders") -> Path:
    (folder,) = (root / "aof" / log / "manifest").iterdir()
    return folder


def chunk_files(root: Path) -> list[Path]:
    return sorted(folder_of(root).glob("*.mlog"))


def snapshot_files(root: Path) -> list[Path]:
    return sorted(folder_of(root).glob("snapshot_*.bin"))


def segment_files(root: Path, log: str = "orders") -> list[Path]:
    return sorted((root / "aof" / log / "segments").glob("*.seg"))


def contents(root: Path) -> dict[str, tuple[int, int]]:
    """Every file, with its length and its time; but not what a writer notes when it has time."""
    files = [path for path in sorted(root.rglob("*")) if path.parent.name != "durability"]
    files = [path for path in files if path.is_file()]
    return {str(path): (path.stat().st_size, path.stat().st_mtime_ns) for path in files}


def change(path: Path, offset: int, data: bytes) -> None:
    with path.open("r+b") as file:
        file.seek(offset)
        file.write(data)


def flip(path: Path, offset: int, mask: int = 0x40) -> None:
    byte = path.read_bytes()[offset]
    change(path, offset, bytes([byte ^ mask]))


# What the commands say of them.

COMMANDS = (
    ["inspect", "orders"],
    ["verify", "orders"],
    ["history", "orders", "0"],
    ["state", "orders"],
    ["state", "orders", "--as-of", "0:120"],
)


def verified(run: Run, exit_code: int = 65) -> Any:
    """What `verify` says, and that it changed nothing."""
    done = run("manifest", "verify", "orders", as_json=True)
    assert (done.exit_code, done.err) == (exit_code, b""), done
    document = json.loads(done.out)
    assert document["ok"] is (exit_code == 0)
    return document


def problems(run: Run) -> list[str]:
    return [problem["problem"] for problem in verified(run)["problems"]]


def marked(done: Done) -> list[str]:
    """The lines that say what is wrong."""
    assert (done.exit_code, done.err) == (65, b"")
    return [line for line in done.out.decode().splitlines() if "!!" in line]
