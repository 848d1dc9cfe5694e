"""From a method and a path to a call."""

from __future__ import annotations

from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakebed.api import groups, objects, topics
from lakebed.api.operation import Operation
from lakebed.api.operation_table import OPERATIONS
from lakebed.api.problems import Refused
from lakebed.http_api.router import NoSuchMethod, NoSuchPath, Router

ROUTER = Router(OPERATIONS)
NAMES = st.text(st.characters(codec="utf-8"), min_size=1)


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda operation: operation.name)
def test_every_call_is_found_where_the_table_says(operation: Operation[object]) -> None:
    found, names = ROUTER.find(operation.method, operation.path.encode())
    assert found is operation
    assert all(value == f"{{{name}}}" or value == f"{{{name}*}}" for name, value in names.items())


@given(topic=NAMES, group=NAMES)
def test_names_are_whatever_was_encoded(topic: str, group: str) -> None:
    path = f"/v1/topics/{quote(topic, safe='')}/groups/{quote(group, safe='')}/lease"
    found, names = ROUTER.find("POST", path.encode())
    assert (found, names) == (groups.LEASE, {"topic": topic, "group": group})


@given(key=NAMES)
def test_the_key_of_an_object_is_the_rest_of_the_path_with_or_without_slashes(key: str) -> None:
    for safe in ("", "/"):
        path = f"/v1/buckets/photos/objects/{quote(key, safe=safe)}"
        found, names = ROUTER.find("GET", path.encode())
        assert (found, names) == (objects.GET_OBJECT, {"bucket": "photos", "key": key})


def test_a_name_like_a_fixed_part_is_found_where_a_name_stands() -> None:
    found, names = ROUTER.find("GET", b"/v1/topics/groups/groups/lag/lag")
    assert (found, names) == (groups.LAG, {"topic": "groups", "group": "lag"})


def test_a_head_is_a_get() -> None:
    assert ROUTER.find("HEAD", b"/v1/topics")[0] is topics.LIST_TOPICS
    with pytest.raises(NoSuchMethod):
        ROUTER.find("HEAD", b"/v1/topics/orders/messages")


def test_methods_are_told() -> None:
    with pytest.raises(NoSuchMethod) as raised:
        ROUTER.find("OPTIONS", b"/v1/topics/orders")
    assert raised.value.allowed == ("DELETE", "GET", "HEAD", "PATCH", "PUT")


@pytest.mark.parametrize(
    "path",
    [b"", b"/", b"*", b"/v1", b"/v1/", b"/v1//topics", b"//v1/topics", b"/v1/topics/",
     b"/v1/Topics",
     b"/v1/topics/a/", b"/v1/topics/a/b", b"/v1/topics//groups", b"/v1/buckets/b/objects/",
     b"/v1/%74opics"],
)  # fmt: skip
def test_what_is_not_there_is_not_found(path: bytes) -> None:
    with pytest.raises(NoSuchPath):
        ROUTER.find("GET", path)


@pytest.mark.parametrize("part", [b"%ff", b"%c0%ae", b"%ed%a0%80", b"\xff"])
def test_names_are_utf8(part: bytes) -> None:
    with pytest.raises(Refused, match="UTF-8"):
        ROUTER.find("GET", b"/v1/topics/" + part)
