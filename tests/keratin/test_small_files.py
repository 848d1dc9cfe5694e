"""Every truncation and every flipped bit of the files beside the logs, classified."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from lakebed.base.errors import Corrupt, DataError, Torn, UnknownVersion
from lakebed.base.layout import Layout
from lakebed.base.simulation.world import World
from lakebed.keratin.checkpoint import decode_checkpoint
from lakebed.keratin.durable_end import decode_durable_end, load_durable_end
from lakebed.keratin.format import (
    CHECKPOINT_HEADER,
    DURABLE_END,
    INDEX_HEADER,
    LOG_HEADER,
    MANIFEST_HEADER,
    PRODUCERS_HEADER,
)
from lakebed.keratin.index_file import (
    decode_index,
    decode_time_index,
    position_for,
    time_entry_before,
)
from lakebed.keratin.log_file import decode_log_header
from lakebed.keratin.manifest import decode_manifest
from lakebed.keratin.producers import decode_producers
from lakebed.kernels import crc32c
from tests.keratin.partitions import flipped
from tests.keratin.test_golden import BASE, PLACES, TIMES, golden

Decode = Callable[[bytes], object]


def _with_base(decode: Callable[..., object]) -> Decode:
    return lambda data: decode(data, path="here", base_offset=BASE)


DECODERS: dict[str, Decode] = {
    "manifest.bin": lambda data: decode_manifest(data, path="here"),
    "manifest-start.bin": lambda data: decode_manifest(data, path="here"),
    "durable_end": lambda data: decode_durable_end(data, path="here"),
    "segment.producers": _with_base(decode_producers),
    "checkpoint": lambda data: decode_checkpoint(data, path="here"),
}
INDEXES: dict[str, Decode] = {
    "segment.idx": _with_base(decode_index),
    "segment.tidx": _with_base(decode_time_index),
}
HEADED: dict[str, tuple[Layout[Any], Decode]] = {
    "segment.log": (LOG_HEADER, _with_base(decode_log_header)),
    "segment.idx": (INDEX_HEADER, INDEXES["segment.idx"]),
    "segment.tidx": (INDEX_HEADER, INDEXES["segment.tidx"]),
    "segment.producers": (PRODUCERS_HEADER, DECODERS["segment.producers"]),
    "manifest.bin": (MANIFEST_HEADER, DECODERS["manifest.bin"]),
    "durable_end": (DURABLE_END, DECODERS["durable_end"]),
    "checkpoint": (CHECKPOINT_HEADER, DECODERS["checkpoint"]),
}


@pytest.mark.parametrize("name", DECODERS)
def test_no_truncation_is_taken_for_the_whole(name: str) -> None:
    data = golden(name)
    for length in range(len(data)):
        with pytest.raises((Torn, Corrupt)):
            DECODERS[name](data[:length])


@pytest.mark.parametrize("name", DECODERS)
def test_no_flipped_bit_goes_unnoticed(name: str) -> None:
    data = golden(name)
    good = DECODERS[name](data)
    for position in range(len(data)):
        for bit in range(8):
            try:
                found = DECODERS[name](flipped(data, position, bit))
            except (Torn, Corrupt):
                continue
            else:
                # Flags that are not known are no damage, and nothing covers a manifest's.
                assert found == good
                assert name.startswith("manifest")
                assert position in (10, 11)


@pytest.mark.parametrize("name", DECODERS)
def test_nothing_may_stand_behind_the_end(name: str) -> None:
    if name == "durable_end":
        return  # the file's length is looked at where it is read
    with pytest.raises(Corrupt):
        DECODERS[name](golden(name) + b"\0")


@pytest.mark.parametrize("name", INDEXES)
def test_a_truncated_index_keeps_its_complete_entries(name: str) -> None:
    data, entries = golden(name), INDEXES[name](golden(name))
    assert isinstance(entries, list)
    for length in range(len(data)):
        if length < INDEX_HEADER.size:
            with pytest.raises(Corrupt):
                INDEXES[name](data[:length])
        else:
            whole = (length - INDEX_HEADER.size) // 16
            assert INDEXES[name](data[:length]) == entries[:whole]


@pytest.mark.parametrize("name", INDEXES)
def test_a_flipped_bit_in_an_indexes_header_is_noticed(name: str) -> None:
    data = golden(name)
    for position in range(INDEX_HEADER.size):
        for bit in range(8):
            with pytest.raises(Corrupt):
                INDEXES[name](flipped(data, position, bit))


def test_index_entries_end_where_they_are_out_of_order() -> None:
    data, decode = golden("segment.idx"), INDEXES["segment.idx"]
    assert decode(data + bytes(64)) == PLACES, "zeros behind the end are no entries"
    second = INDEX_HEADER.size + 16
    backwards = data[:second] + data[INDEX_HEADER.size : second] + data[second:]
    assert decode(backwards) == PLACES[:1]
    for position in range(INDEX_HEADER.size, len(data)):
        found = decode(flipped(data, position, 7))
        assert isinstance(found, list)
        rising = [(entry.relative_offset, entry.position) for entry in found]
        assert rising == sorted(set(rising))


def test_time_entries_are_a_running_maximum() -> None:
    data, decode = golden("segment.tidx"), INDEXES["segment.tidx"]
    assert decode(data + bytes(64)) == TIMES
    second = INDEX_HEADER.size + 16
    assert decode(data[:second] + bytes(16) + data[second:]) == TIMES[:1]


def test_another_segments_files_are_not_taken() -> None:
    decoders: dict[str, Callable[..., object]] = {
        "log": decode_log_header,
        "idx": decode_index,
        "tidx": decode_time_index,
        "producers": decode_producers,
    }
    for kind, decode in decoders.items():
        with pytest.raises(Corrupt):
            decode(golden(f"segment.{kind}"), path="here", base_offset=BASE + 1)


def test_an_offset_or_a_moment_leads_to_the_entry_before_it() -> None:
    assert position_for(PLACES, 0) == 68
    assert position_for(PLACES, 2) == 68
    assert position_for(PLACES, 3) == 1_048_700
    assert position_for(PLACES, 10_000) == 1 << 33
    assert position_for([], 5) == 68
    assert time_entry_before(TIMES, TIMES[0].timestamp_ms) is None
    assert time_entry_before(TIMES, TIMES[0].timestamp_ms + 1) == TIMES[1]
    assert time_entry_before(TIMES, 1 << 60) == TIMES[2]


def newer(name: str, *, with_longer_header: bool) -> bytes:
    """The same file of version 2, its checksum as that version would have it."""
    layout, _ = HEADED[name]
    data = golden(name)
    fields: dict[str, Any] = {"version": 2}
    if with_longer_header:
        fields["header_length"] = layout.size + 8
    header, rest = layout.unpack(data)._replace(**fields), data[layout.size :]
    checked = layout.pack(header)[: layout.offset_of("crc32c")]
    if name == "manifest.bin":
        crc = crc32c(rest)
    elif name in ("segment.producers", "checkpoint"):
        crc = crc32c(checked, crc32c(rest))
    else:
        crc = crc32c(checked)
    return layout.pack(header._replace(crc32c=crc)) + rest


@pytest.mark.parametrize("name", HEADED)
def test_a_newer_version_is_refused_by_name(name: str) -> None:
    with pytest.raises(UnknownVersion, match="expected 1, found 2"):
        HEADED[name][1](newer(name, with_longer_header=False))


@pytest.mark.parametrize("name", ["segment.log", "segment.producers", "manifest.bin"])
def test_a_newer_version_with_its_checksum_elsewhere_is_refused_too(name: str) -> None:
    data = newer(name, with_longer_header=True)
    place = HEADED[name][0].offset_of("crc32c")
    with pytest.raises(UnknownVersion):
        HEADED[name][1](flipped(data, place))


@pytest.mark.parametrize("name", ["segment.log", "segment.idx", "segment.tidx", "manifest.bin"])
def test_a_flipped_version_does_not_look_like_a_newer_program(name: str) -> None:
    place = HEADED[name][0].offset_of("version")
    for bit in range(8):
        with pytest.raises(Corrupt):
            HEADED[name][1](flipped(golden(name), place, bit))


def test_errors_tell_the_file() -> None:
    for name, (_, decode) in HEADED.items():
        for broken in (flipped(golden(name), 0), golden(name)[:5], b""):
            with pytest.raises(DataError, match="here"):
                decode(broken)


def test_a_durable_end_that_is_unreadable_is_advice_not_taken() -> None:
    world = World(0)
    assert load_durable_end(world.disk, "/durable_end") is None
    with world.disk.create("/durable_end") as file:
        file.pwrite(0, golden("durable_end")[:-1])
    assert load_durable_end(world.disk, "/durable_end") is None
    with world.disk.open("/durable_end", writable=True) as file:
        file.pwrite(0, golden("durable_end"))
    assert load_durable_end(world.disk, "/durable_end") is not None
    with world.disk.open("/durable_end", writable=True) as file:
        file.pwrite(0, golden("durable_end") + b"\0")
    assert load_durable_end(world.disk, "/durable_end") is None
