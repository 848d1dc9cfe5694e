"""Files of topics and groups that a newer release wrote: refused whole, or read as far as known."""

from __future__ import annotations

from pathlib import Path

import pytest

from lakebed.base.errors import UnknownVersion
from lakebed.keratin.format import (
    INDEX_HEADER,
    KERATIN_MAGIC,
    KERATIN_RECORD,
    KERATIN_TRAILER,
    LOG_HEADER,
    MANIFEST_HEADER,
    KeratinRecordHeader,
)
from lakebed.kernels import crc32c
from lakebed.kernels.format import KeratinRecordTrailer
from lakebed.store.store import Store
from lakebed.store.store_check import verify_store
from lakebed.stroma.format import (
    CHECKSUM,
    DELTA_HEADER,
    EVENT_HEADER,
    EVENT_MAGIC,
    SNAPSHOT_HEADER,
    Checksum,
    EventHeader,
)

VALUES = [b"message %d" % number for number in range(5)]
MORE = b"fields of a later release"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "store"
    with Store.open(root) as store:
        topic = store.topic("orders")
        topic.append_batch(VALUES).result()
        group = topic.group("billing")
        group.ack(group.lease(max_messages=1)[0])
    return root


def log_of(root: Path) -> Path:
    [log] = (root / "topics" / "orders" / "0" / "segments").glob("*.log")
    return log


def newer_record(offset: int) -> bytes:
    header = KeratinRecordHeader(KERATIN_MAGIC, 2, 0, 0, 0, 3, 0, offset)
    record = KERATIN_RECORD.pack(header) + b"new"
    crc = crc32c(record[KERATIN_RECORD.offset_of("version") :])
    return record + KERATIN_TRAILER.pack(KeratinRecordTrailer(crc))


def newer_event() -> bytes:
    event = EVENT_HEADER.pack(EventHeader(EVENT_MAGIC, 2, 900, 0, 3)) + b"new"
    return event + CHECKSUM.pack(Checksum(crc32c(event[EVENT_HEADER.offset_of("version") :])))


def used(path: Path) -> bytes:
    return path.read_bytes().rstrip(b"\0")


def written(root: Path) -> bytes:
    """The log up to the end of its last record, whose checksum may end with zeros."""
    with Store.open(root, read_only=True) as store:
        end = store.topic("orders").partition(0).segments()[-1].end
    return log_of(root).read_bytes()[:end]


def lengthened(data: bytes, layout: object, crc_name: str, length_name: str) -> bytes:
    """The same file, with a header of more fields."""
    header = layout.unpack(data)  # type: ignore[attr-defined]
    size: int = layout.size  # type: ignore[attr-defined]
    header = header._replace(**{length_name: size + len(MORE), crc_name: 0})
    packed: bytes = layout.pack(header)  # type: ignore[attr-defined]
    at: int = layout.offset_of(crc_name)  # type: ignore[attr-defined]
    crc = crc32c(packed[:at] + MORE)
    return packed[:at] + crc.to_bytes(4, "big") + MORE + data[size:]


@pytest.mark.parametrize("damage", [b"", b"bad bytes"])
def test_a_whole_record_of_a_newer_version_refuses_the_file_and_stays(
    root: Path, damage: bytes
) -> None:
    log = log_of(root)
    before = written(root) + damage + newer_record(5)
    log.write_bytes(before + bytes(1000))
    (root / "topics" / "orders" / "0" / "durable_end").unlink()
    with Store.open(root) as store, pytest.raises(UnknownVersion, match="expected 1, found 2"):
        store.topic("orders").partition(0)
    assert used(log) == before, "nothing was cut"
    assert list((root / "quarantine").iterdir()) == []
    [unchecked] = verify_store(root).unchecked
    assert "expected 1, found 2" in unchecked.why


def test_a_reader_refuses_a_record_of_a_newer_version(root: Path) -> None:
    log = log_of(root)
    log.write_bytes(written(root) + newer_record(5))
    (root / "topics" / "orders" / "0" / "durable_end").unlink()
    with Store.open(root, read_only=True) as store, pytest.raises(UnknownVersion):
        list(store.topic("orders").partition(0).read())


def test_headers_of_topics_that_are_longer_than_known_are_read_and_kept(root: Path) -> None:
    folder = root / "topics" / "orders" / "0"
    log = log_of(root)
    longer = lengthened(written(root), LOG_HEADER, "crc32c", "header_length")
    log.write_bytes(longer)
    (folder / "durable_end").unlink()
    manifest = (folder / "manifest.bin").read_bytes()
    header = MANIFEST_HEADER.unpack(manifest)
    body = MORE + manifest[MANIFEST_HEADER.size :]
    length = MANIFEST_HEADER.size + len(MORE)
    header = header._replace(header_length=length, crc32c=crc32c(body))
    (folder / "manifest.bin").write_bytes(MANIFEST_HEADER.pack(header) + body)
    report = verify_store(root)
    lost = [one for one in report.topics[0].report.problems if one.verdict != "mendable"]
    assert (lost, report.topics[0].report.records) == ([], 5)
    for expected in (VALUES, [*VALUES, b"more"], [*VALUES, b"more", b"more"]):
        with Store.open(root) as store:
            topic = store.topic("orders")
            assert [message.value for message in topic.partition(0).read()] == expected
            assert topic.partition(0).problems == ()
            topic.append_batch([b"more"]).result()
    assert log.read_bytes().startswith(longer), "its own fields are still there"
    assert verify_store(root).is_good


def test_headers_of_indexes_that_are_longer_than_known_are_no_damage(root: Path) -> None:
    (root / "topics" / "orders" / "0" / "durable_end").unlink()  # so that they are judged
    for suffix in (".idx", ".tidx"):
        path = log_of(root).with_suffix(suffix)
        path.write_bytes(lengthened(path.read_bytes(), INDEX_HEADER, "crc32c", "header_length"))
    assert verify_store(root).is_good


def test_an_event_of_a_newer_version_after_damage_refuses_the_group(root: Path) -> None:
    [delta] = (root / "groups").glob("*.delta")
    before = used(delta) + b"bad bytes" + newer_event()
    delta.write_bytes(before + bytes(100))
    with Store.open(root) as store, pytest.raises(UnknownVersion):
        store.topic("orders").group("billing").lease()
    assert used(delta) == before


def test_headers_of_groups_that_are_longer_than_known_are_read(root: Path) -> None:
    layouts = {".delta": DELTA_HEADER, ".snap": SNAPSHOT_HEADER}
    for path in (root / "groups").iterdir():
        if path.suffix in layouts:
            data = path.read_bytes()
            path.write_bytes(lengthened(data, layouts[path.suffix], "header_crc32c", "header_len"))
    assert verify_store(root).is_good
    for left in (4, 3):
        with Store.open(root) as store:
            group = store.topic("orders").group("billing")
            messages = group.lease(max_messages=9)
            assert len(messages) == left
            group.ack(messages[0])
            for message in messages[1:]:
                group.nack(message)
