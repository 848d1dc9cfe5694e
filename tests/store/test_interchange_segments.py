"""Segments in the interchange layout among the others of a log: summarised, verified, repaired."""

from __future__ import annotations

from pathlib import Path

import pytest

from lakebed.aof.config import AofConfig, FlushConfig
from lakebed.aof.conversion import to_interchange
from lakebed.aof.interchange import (
    INTERCHANGE_FOOTER,
    FooterFlags,
    InterchangeEncoder,
    decode_interchange_header,
    iterate_interchange,
)
from lakebed.aof.paths import ArchivedName, LogPaths, SegmentName
from lakebed.base.units import KIB
from lakebed.kernels.disk import real_disk
from lakebed.store.log_check import LogReport
from lakebed.store.read_only import ReadOnlyStore
from lakebed.store.segment_summary import SegmentSummary
from lakebed.store.store import Store
from lakebed.store.summary import LogSummary

CONFIG = AofConfig(segment_bytes=64 * KIB, flush=FlushConfig(reserve_bytes=0))
SEGMENTS = 3
RECORDS = 4  # of a segment


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A log of sealed segments."""
    root = tmp_path / "root"
    with Store.open(root, config=CONFIG) as store:
        log = store.log("orders")
        for number in range(SEGMENTS):
            log.append_records([b"%d" % number] * RECORDS)
            log.seal_current_segment()
    return root


def segment_path(root: Path, segment_id: int) -> Path:
    [path] = (root / "aof/orders/segments").glob(f"{segment_id:020}_*.seg")
    return path


def convert(root: Path, segment_id: int) -> Path:
    """Puts the same records in the interchange layout in a segment's place."""
    path, folder = segment_path(root, segment_id), root.parent / f"converted_{segment_id}"
    folder.mkdir()
    Path(to_interchange(real_disk(), path, folder, stream_id=1, lossy=True)).replace(path)
    return path


def compact(path: Path, *, keep: int) -> None:
    """Leaves the first records alone of an interchange segment."""
    data = path.read_bytes()
    header = decode_interchange_header(data)
    encoder = InterchangeEncoder(
        stream_id=header.stream_id,
        segment_id=header.segment_id,
        creation_ts_ms=header.creation_ts_ms,
    )
    records = list(iterate_interchange(memoryview(data), end=len(data) - INTERCHANGE_FOOTER.size))
    flags = FooterFlags.SEALED | FooterFlags.COMPACTED
    whole = encoder.header() + encoder.records(records[:keep])
    path.write_bytes(whole + encoder.footer(ext_id=0, flags=flags))


def archive(root: Path, segment_id: int) -> Path:
    """Moves a segment to the archive, as retention does."""
    path = segment_path(root, segment_id)
    name = SegmentName.parse(path.name)
    assert name is not None
    paths = LogPaths(root, "orders")
    return path.rename(paths.archived(ArchivedName(name.segment_id, name.created_at)))


def summary_of(root: Path) -> LogSummary:
    with ReadOnlyStore(root) as store:
        return store.log_summary("orders")


def verified(root: Path) -> LogReport:
    with ReadOnlyStore(root) as store:
        return store.maintenance.verify_log("orders")


@pytest.mark.parametrize("segment_id", range(SEGMENTS))
def test_a_segment_in_tier_0_is_summarised_as_sealed(root: Path, segment_id: int) -> None:
    before = summary_of(root).segments[segment_id]
    path = convert(root, segment_id)
    summary = summary_of(root)
    size = path.stat().st_size
    assert summary.segments[segment_id] == SegmentSummary(
        segment_id=segment_id,
        base_offset=before.base_offset,
        created_at=before.created_at,
        sealed_at=None,
        bytes=size - INTERCHANGE_FOOTER.size,
        file_bytes=size,
        records=RECORDS,
        base_records=None,
        state="sealed",
        tiers=(0,),
        path=str(path),
        flush_failure=False,
    )
    assert summary.records() == SEGMENTS * RECORDS


def test_the_smallest_segment_is_no_damage_to_the_summary(root: Path) -> None:
    compact(convert(root, 1), keep=1)
    assert [segment.records for segment in summary_of(root).segments] == [RECORDS, 1, RECORDS]
    assert verified(root).problems == []


def test_a_segment_without_its_footer_is_neither_sealed_nor_active(root: Path) -> None:
    path = convert(root, 2)
    path.write_bytes(path.read_bytes()[: -INTERCHANGE_FOOTER.size])
    found = summary_of(root).segments[2]
    assert (found.state, found.records, found.base_records) == ("unsealed", RECORDS, None)


@pytest.mark.parametrize("segment_id", range(SEGMENTS))
@pytest.mark.parametrize("keep", range(RECORDS + 1))
def test_a_compacted_segment_in_tier_0_is_whole(root: Path, segment_id: int, keep: int) -> None:
    compact(convert(root, segment_id), keep=keep)
    report = verified(root)
    assert report.problems == []
    assert report.records == (SEGMENTS - 1) * RECORDS + keep


def test_archived_segments_are_counted_by_the_summary(root: Path) -> None:
    before = summary_of(root)
    convert(root, 0)
    archive(root, 0)
    archive(root, 1)
    summary = summary_of(root)
    assert [segment.state for segment in summary.segments] == ["archived", "archived", "sealed"]
    assert summary.records() == SEGMENTS * RECORDS
    found, expected = summary.segments[0], before.segments[0]
    assert (found.records, found.base_offset) == (RECORDS, expected.base_offset)
    assert found.created_at == expected.created_at // 10**6 * 10**6
    assert (found.sealed_at, found.base_records) == (None, None)
    assert summary.segments[1].sealed_at == before.segments[1].sealed_at


def test_a_compacted_segment_in_the_archive_is_reported_and_stops_nothing_else(root: Path) -> None:
    compact(convert(root, 0), keep=1)
    unknown, damaged = archive(root, 0), archive(root, 1)
    data = bytearray(damaged.read_bytes())
    data[100] ^= 1
    damaged.write_bytes(data)
    with Store.open(root, config=CONFIG) as store:
        report = store.maintenance.verify_log("orders")
        repaired = store.maintenance.repair_log("orders")
    assert [problem.path for problem in report.problems][:2] == [str(unknown), str(damaged)]
    assert "the base offset of this interchange segment is not known" in report.problems[0].problem
    assert (report.archived, report.records) == (1, RECORDS)
    assert any(str(unknown) in problem for problem in repaired.problems)
    assert repaired.quarantined
    assert all(f"aof-orders-{1:020}-" in path for path in repaired.quarantined)
    assert summary_of(root).records() == 1 + 2 * RECORDS


def test_two_archived_files_of_one_number_are_reported_and_both_checked(root: Path) -> None:
    first = archive(root, 0)
    second = first.with_name(str(ArchivedName(0, 1 << 62)))
    data = bytearray(first.read_bytes())
    data[100] ^= 1
    second.write_bytes(data)
    found = verified(root)
    assert found.problems[0].problem == "another archived file has the same segment number"
    assert {problem.path for problem in found.problems} == {str(second)}
    assert len(found.problems) > 1
    assert found.archived == 2
