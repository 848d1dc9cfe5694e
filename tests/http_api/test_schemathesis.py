"""Requests made up from the OpenAPI document, as it allows and as it does not, against a live API.

Whatever is sent: nothing fails on our side, and every answer is as the document says. Afterwards
the store is whole.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
import requests
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from schemathesis import GenerationMode
from schemathesis.checks import load_all_checks
from schemathesis.core.result import Ok
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from lakebed.api import admin, groups, logs, objects, topics
from lakebed.api.operation_table import OPERATIONS
from lakebed.http_api.openapi import openapi_document
from tests.fakes.function_job import FunctionJob
from tests.http_api.live_api import HOST, LiveApi, open_api

NAMES = [one.name for one in OPERATIONS if one is not logs.TAIL_LOG]  # which never ends
CHOOSY = [one.name for one in OPERATIONS if one.name in NAMES and not one.is_public]
MODES = [(name, GenerationMode.POSITIVE) for name in NAMES]
MODES += [(name, GenerationMode.NEGATIVE) for name in CHOOSY]  # the others take anything
EXAMPLES, MANY_EXAMPLES = 12, 200
HANGS_S = 30
WAITED_MS_MAX = 3
PARTITIONS_MAX = 20

CHECKS = [
    status_code_conformance,
    content_type_conformance,
    response_schema_conformance,
    response_headers_conformance,
]

KNOWN = {
    "topic": "orders", "group": "billing", "partition": 0, "base_offset": 0, "log": "events",
    "segment": 0, "bucket": "photos", "key": "a/b", "work": "1", "pin": "1", "access_key": "1",
    "file": "00000000000000000000.mlog", "damage": 1,
}  # fmt: skip
"""Names of things that are there, at least at the beginning."""

load_all_checks()
SCHEMA = schemathesis.openapi.from_dict(msgspec.json.decode(openapi_document()))
DESCRIBED = {
    found.ok().definition.raw["operationId"]: found.ok()
    for found in SCHEMA.get_all_operations()
    if isinstance(found, Ok)
}


@schemathesis.serializer("application/msgpack")
def to_msgpack(_context: object, value: Any) -> bytes:
    if isinstance(value, bytes):
        return value
    try:
        return msgspec.msgpack.encode(value, enc_hook=str)
    except OverflowError:  # MessagePack has no larger numbers
        return msgspec.msgpack.encode(str(value))


@schemathesis.serializer("application/x-ndjson")
def to_lines(_context: object, value: Any) -> bytes:
    return value if isinstance(value, bytes) else str(value).encode(errors="replace")


@pytest.fixture(scope="module")
def live_api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveApi]:
    jobs = {"nothing": FunctionJob(lambda *_: {})}
    with open_api(tmp_path_factory.mktemp("made_up"), api_options={"jobs": jobs}) as live:
        live.call(topics.CREATE_TOPIC, body=topics.NewTopic("orders"))
        sent = topics.Produce([b"one", b"two", b"three"], partition=0)
        live.call(topics.PRODUCE, {"topic": "orders"}, body=sent)
        live.call(groups.OPEN_GROUP, {"topic": "orders", "group": "billing"})
        live.call(logs.OPEN_LOG, {"log": "events"})
        live.call(logs.APPEND_RECORDS, {"log": "events"}, body=logs.AppendRecords([b"one", b"two"]))
        live.call(objects.ENSURE_BUCKET, {"bucket": "photos"})
        live.call(objects.PUT_OBJECT, {"bucket": "photos", "key": "a/b"}, body=b"content")
        yield live
        live.hang_up()
        assert live.call(admin.HEALTH).status == "ok"
        live.call(admin.STATE)


@pytest.fixture(scope="module")
def session() -> Iterator[requests.Session]:
    with requests.Session() as found:
        yield found


def send(
    data: st.DataObject,
    live_api: LiveApi,
    session: requests.Session,
    name: str,
    mode: GenerationMode,
) -> None:
    case = data.draw(DESCRIBED[name].as_strategy(generation_mode=mode), label="case")
    if data.draw(st.integers(0, 3), label="how well the names are known"):
        for part in case.path_parameters or {}:
            case.path_parameters[part] = KNOWN[part]
    _hasten(case.query)
    _hasten(case.body)
    accept = data.draw(st.sampled_from(["*/*", "application/msgpack", "application/x-ndjson"]))
    response = case.call(
        base_url=f"http://{HOST}:{live_api.port}",
        session=session,
        headers={"Accept": accept},
        timeout=HANGS_S,
    )
    assert response.status_code < 500 or response.status_code in (503, 507), response.text
    assert response.headers["lakebed-request-id"]
    case.validate_response(response, checks=CHECKS)


def _hasten(said: object) -> None:
    """Nobody waits for what does not come, or makes a thousand folders."""
    if isinstance(said, dict):
        for name, most in (("wait_ms", WAITED_MS_MAX), ("partitions", PARTITIONS_MAX)):
            value = said.get(name)
            if isinstance(value, int | float) and value > most:
                said[name] = most


UNTIMED = [
    HealthCheck.too_slow,
    HealthCheck.filter_too_much,
    HealthCheck.data_too_large,
    HealthCheck.large_base_example,
    HealthCheck.function_scoped_fixture,
]


@pytest.mark.thorough
@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=EXAMPLES, phases=[Phase.generate], suppress_health_check=UNTIMED)
@given(data=st.data())
def test_calls_as_the_document_allows_them_are_answered_as_it_says(
    live_api: LiveApi, session: requests.Session, name: str, data: st.DataObject
) -> None:
    send(data, live_api, session, name, GenerationMode.POSITIVE)


@pytest.mark.thorough
@pytest.mark.parametrize("name", CHOOSY)
@settings(max_examples=EXAMPLES, phases=[Phase.generate], suppress_health_check=UNTIMED)
@given(data=st.data())
def test_calls_that_the_document_does_not_allow_are_refused_as_it_says(
    live_api: LiveApi, session: requests.Session, name: str, data: st.DataObject
) -> None:
    send(data, live_api, session, name, GenerationMode.NEGATIVE)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "mode"), MODES)
@settings(max_examples=MANY_EXAMPLES, suppress_health_check=UNTIMED)
@given(data=st.data())
def test_many_more_of_both_kinds(
    live_api: LiveApi,
    session: requests.Session,
    name: str,
    mode: GenerationMode,
    data: st.DataObject,
) -> None:
    send(data, live_api, session, name, mode)


@pytest.mark.parametrize("path", sorted({one.path for one in OPERATIONS}))
def test_methods_that_a_path_does_not_have_are_told_so(live_api: LiveApi, path: str) -> None:
    taken = {one.method for one in OPERATIONS if one.path == path}
    taken |= {"HEAD"} if "GET" in taken else set()
    target = path
    for name, value in KNOWN.items():
        target = target.replace(f"{{{name}}}", str(value)).replace(f"{{{name}*}}", str(value))
    for method in {"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE"} - taken:
        answer = live_api.ask(method, target)
        assert answer.status == 405, (method, target)
        assert answer.headers["allow"] == ", ".join(sorted(taken))
