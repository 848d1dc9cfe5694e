"""Errors as problem documents, and back."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from lakebed.aof.errors import BackpressureKind, WouldBlock
from lakebed.api import media
from lakebed.api.problems import STATUSES, Unreachable, code_of, error_of, problem_of, status_of
from lakebed.base import errors
from lakebed.base.errors import InputError, LakebedError, NotFound, RetryError, TooLarge
from lakebed.keratin.errors import AppendedPart, CodecMissing, PartlyAppended
from lakebed.seglake.errors import NoSuchKey
from lakebed.stroma.errors import StaleLease


def below(kind: type[LakebedError]) -> Iterator[type[LakebedError]]:
    yield kind
    for one in kind.__subclasses__():
        yield from below(one)


ENGINES = ("lakebed.base.errors", "lakebed.aof", "lakebed.keratin", "lakebed.stroma")
KINDS = sorted(
    (one for one in below(LakebedError) if one.__module__.startswith(ENGINES)), key=code_of
)


def over_the_wire(error: LakebedError) -> LakebedError:
    return error_of(json.loads(media.encode(problem_of(error, request_id="1"), media.JSON)))


@pytest.mark.parametrize("kind", KINDS, ids=code_of)
def test_every_error_of_the_engines_has_a_status_and_an_advice(kind: type[LakebedError]) -> None:
    error = kind.__new__(kind)
    Exception.__init__(error, "what happened")
    document = problem_of(error)
    assert 400 <= document["status"] < 600
    assert document["advice"]
    assert document["title"]
    assert "\n" not in document["title"]


@pytest.mark.parametrize(
    "error",
    [
        NotFound("no topic orders"),
        TooLarge("the body", size=3, limit=2),
        errors.Corrupt("bad", path="/a/file", offset=3, expected=1, found=2),
        errors.SyncFailed("fsync", "/a/file", code=5),
        NoSuchKey("photos/a"),
        Unreachable("nobody is there"),
        errors.Busy("full"),
        CodecMissing("compressed record batches need cramjam"),
        PartlyAppended(errors.Busy("full"), [AppendedPart(0, 7, 2), AppendedPart(2, 0, 1)]),
    ],
    ids=lambda error: type(error).__name__,
)
def test_an_error_comes_back_as_it_was(error: LakebedError) -> None:
    found = over_the_wire(error)
    assert type(found) is type(error)
    assert (str(found), found.exit_code) == (str(error), error.exit_code)
    assert vars(found) == vars(error)


def test_facts_that_are_no_plain_values_come_back_as_they_were() -> None:
    blocked = WouldBlock.__new__(WouldBlock)
    Exception.__init__(blocked, "full")
    blocked.kind = next(iter(BackpressureKind))
    found = over_the_wire(blocked)
    assert isinstance(found, WouldBlock)
    assert found.kind is blocked.kind
    stale = StaleLease.__new__(StaleLease)
    Exception.__init__(stale, "over")
    stale.ranges = ((1, 2), (5, 9))
    told = over_the_wire(stale)
    assert isinstance(told, StaleLease)
    assert told.ranges == ((1, 2), (5, 9))


@pytest.mark.parametrize(
    ("document", "kind"),
    [
        ({}, LakebedError),
        ({"code": "from-the-future", "status": 404}, NotFound),
        ({"code": "from-the-future", "status": 418}, InputError),
        ({"code": "from-the-future", "status": 503}, RetryError),
        ({"code": 3, "status": "x", "facts": [], "detail": None}, LakebedError),
    ],
)
def test_of_an_unknown_code_the_nearest_error_is_made(
    document: dict[str, object], kind: type[LakebedError]
) -> None:
    assert type(error_of(document)) is kind


def test_a_status_is_that_of_the_nearest_class() -> None:
    assert status_of(NoSuchKey("a")) == 404
    assert status_of(LakebedError("a")) == 500
    assert LakebedError in STATUSES
