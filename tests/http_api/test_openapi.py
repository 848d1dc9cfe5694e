"""The OpenAPI document: it says all that the table says, and keeps the rules of OpenAPI 3.1."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import Any

import jsonschema_rs
import msgspec
import pytest
from schemathesis.specs.openapi.definitions import OPENAPI_31

from lakebed.api import admin, media, topics
from lakebed.api.operation import Nothing, Operation
from lakebed.api.operation_table import OPERATIONS
from lakebed.http_api.app import HANDLERS
from lakebed.http_api.openapi import openapi_document
from tests.http_api.live_api import open_api


@cache
def document() -> dict[str, Any]:
    found: dict[str, Any] = msgspec.json.decode(openapi_document())
    return found


def described(operation: Operation[Any]) -> dict[str, Any]:
    path = operation.path.replace("*}", "}")
    found: dict[str, Any] = document()["paths"][path][operation.method.lower()]
    return found


def test_it_is_told_to_everybody_as_json(tmp_path: Path) -> None:
    with open_api(tmp_path) as live_api:
        answer = live_api.ask("GET", "/v1/openapi.json")
    assert answer.headers["content-type"] == media.JSON
    assert answer.body == openapi_document()


def test_it_keeps_the_rules_of_openapi() -> None:
    jsonschema_rs.validate(OPENAPI_31, document())


def test_its_schemas_are_schemas_and_every_reference_leads_somewhere() -> None:
    components = document()["components"]
    for name, schema in components["schemas"].items():
        assert jsonschema_rs.meta.is_valid(schema), name
    text = openapi_document().decode()
    for kind, name in set(re.findall(r'"\$ref":"#/components/(\w+)/([^"]+)"', text)):
        assert name in components[kind]


def test_every_call_of_the_table_is_in_it_and_nothing_else() -> None:
    told = {one["operationId"] for path in document()["paths"].values() for one in path.values()}
    assert told == {operation.name for operation in OPERATIONS}
    assert len(told) == len(OPERATIONS)


def test_every_call_of_the_table_has_a_handler_of_its_name() -> None:
    missing = [operation.name for operation in OPERATIONS if operation not in HANDLERS]
    assert not missing
    for operation, handler in HANDLERS.items():
        assert handler.__name__ == operation.name


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda operation: operation.name)
def test_a_call_is_described_with_its_parts(operation: Operation[Any]) -> None:
    found = described(operation)
    names = {one["name"] for one in found["parameters"] if one["in"] == "path"}
    assert names == set(re.findall(r"\{(\w+)", operation.path))
    queries = {one["name"] for one in found["parameters"] if one["in"] == "query"}
    assert queries == set(operation.query.__struct_fields__)
    assert ("requestBody" in found) == (operation.body is not Nothing or bool(operation.also_takes))
    taken = set(found.get("requestBody", {}).get("content", ()))
    assert {raw.value for raw in operation.also_takes} <= taken
    assert ({media.JSON, media.MSGPACK} <= taken) == (operation.body is not Nothing)
    given = set(found["responses"][str(operation.status)].get("content", ()))
    assert {raw.value for raw in operation.also_gives} <= given
    assert (found.get("security") == []) == operation.is_public
    assert {str(status) for status in operation.errors} <= set(found["responses"])


def test_parameters_have_their_limits_and_defaults_and_no_null() -> None:
    found = {one["name"]: one for one in described(topics.FETCH)["parameters"]}
    assert found["wait_ms"]["schema"] == {
        "type": "integer", "minimum": 0, "maximum": 60_000, "default": 0,
    }  # fmt: skip
    assert found["partition"]["schema"]["type"] == "integer"
    moment = described(topics.OFFSET_FOR_TIME)["parameters"][-1]
    assert (moment["name"], moment["required"]) == ("timestamp_ms", True)
    produce = {one["name"]: one for one in described(topics.PRODUCE)["parameters"]}
    assert produce["key"]["schema"] == {"type": "string"}


def test_bytes_are_base64_in_json() -> None:
    produce = document()["components"]["schemas"]["Produce"]
    assert produce["properties"]["values"]["items"]["anyOf"][0] == {
        "type": "string", "contentEncoding": "base64",
    }  # fmt: skip


def test_a_body_is_needed_where_something_must_be_said() -> None:
    assert described(topics.CREATE_TOPIC)["requestBody"]["required"] is True
    assert described(topics.ENSURE_TOPIC)["requestBody"]["required"] is False


def test_problems_say_when_to_come_again() -> None:
    responses = document()["components"]["responses"]
    told = {name for name, one in responses.items() if "Retry-After" in one.get("headers", {})}
    assert told == {"Problem429", "Problem503", "Problem507"}
    assert set(described(admin.HEALTH)["responses"]) == {"200", "400", "405", "500"}
