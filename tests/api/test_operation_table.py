"""The table of calls, and how what they carry is written."""

from __future__ import annotations

import msgspec
import pytest
from msgspec import Struct

from lakebed.api import media, topics
from lakebed.api.media import BadDocument
from lakebed.api.operation import Nothing, Operation, Raw
from lakebed.api.operation_table import OPERATIONS


def test_names_and_places_are_there_once() -> None:
    assert len({one.name for one in OPERATIONS}) == len(OPERATIONS)
    assert len({(one.method, one.path) for one in OPERATIONS}) == len(OPERATIONS)


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda operation: operation.name)
def test_a_call_is_consistent(operation: Operation[object]) -> None:
    assert operation.path.startswith("/v1/")
    assert operation.tag
    assert operation.method in {"GET", "PUT", "POST", "PATCH", "DELETE"}
    assert (operation.status == 204) == (operation.result is Nothing)
    if operation.method == "GET":
        assert operation.body is Nothing
        assert operation.is_repeatable
    if operation.result is bytes:
        assert operation.also_gives
    for kind in (operation.body, operation.query):
        assert issubclass(kind, Struct)
    if operation.body is not Nothing:
        assert operation.body.__struct_config__.forbid_unknown_fields
        msgspec.json.Decoder(operation.body)
        msgspec.msgpack.Decoder(operation.body)


@pytest.mark.parametrize("kind", [media.JSON, media.MSGPACK])
def test_a_struct_comes_back_in_either_kind(kind: str) -> None:
    sent = topics.Produce([b"\0\xff", None], headers=[[("a", None)], []], partition=3)
    assert media.decode(media.encode(sent, kind), topics.Produce, kind) == sent


@pytest.mark.parametrize("kind", [media.JSON, media.MSGPACK])
@pytest.mark.parametrize("data", [b"", b"\xc1", b"{", b"[" * 100_000, b"\x91" * 100_000])
def test_what_is_no_document_is_told_so(kind: str, data: bytes) -> None:
    with pytest.raises(BadDocument):
        media.decode(data, topics.Produce, kind)


def test_raw_kinds_are_media_types() -> None:
    assert {one.value for one in Raw} == {media.BYTES, media.LINES}
