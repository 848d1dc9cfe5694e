"""The OpenAPI document of the HTTP API, generated from the table of operations.

Structs become schemas, and query fields become parameters with their limits and defaults. Bytes are
base64 in JSON and raw bytes in MessagePack; apart from that, both have the same schemas.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable
from dataclasses import is_dataclass
from typing import Any, Final, get_origin

import msgspec
from msgspec import Struct

from lakebed.api import media
from lakebed.api.operation import NUMBERS, Nothing, Operation, Raw
from lakebed.api.operation_table import OPERATIONS
from lakebed.version import VERSION

Schema = dict[str, Any]

_REF: Final = "#/components/schemas/{name}"
_NAME: Final = re.compile(r"\{(\w+)\*?\}")
_NO_DOCUMENTS: Final = (Nothing, bytes)
_INT64_MAX: Final = (1 << 63) - 1
_POSITIONS: Final = frozenset({"offset", "start", "first"})  # query fields that may be out of range

_REASONS: Final = {
    400: "The request is not valid; nothing was changed",
    401: "The access key is missing, wrong or disabled",
    403: "The request comes from a page of another site, uses a Host that is not a name of the "
    "node, or changes a reserved bucket",
    404: "Something that the request names does not exist",
    405: "The path does not support this method, or the version is a delete marker",
    409: "The request conflicts with the current state",
    412: "A condition of the request is not met",
    413: "The request exceeds a size limit",
    415: "The operation does not accept a body of this type",
    416: "The position is out of range",
    429: "Too many requests, or a queue is full: retry later",
    500: "The store failed: see its log",
    502: "The object store of Tier 2 failed",
    503: "The store is closing, or cannot serve the request now: retry later",
    504: "The outcome is unknown: check before repeating the request",
    507: "The disk is full",
}


class Problem(Struct, frozen=True):
    """What went wrong (RFC 9457), and what the caller can do."""

    type: str
    title: str
    status: int
    detail: str
    code: str
    advice: str
    facts: dict[str, Any]
    request_id: str


@functools.cache
def openapi_document() -> bytes:
    return msgspec.json.encode(describe(OPERATIONS))


def describe(operations: Iterable[Operation[Any]]) -> dict[str, Any]:
    operations = tuple(operations)
    schemas = _Schemas(operations)
    paths: dict[str, dict[str, Any]] = {}
    for operation in operations:
        path = _NAME.sub(r"{\1}", operation.path)
        paths.setdefault(path, {})[operation.method.lower()] = _operation(operation, schemas)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Lakebed",
            "version": VERSION,
            "summary": "Topics, logs and objects of one store",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "servers": [{"url": "/"}],
        "security": [{"accessKey": []}],
        "tags": [{"name": tag} for tag in dict.fromkeys(operation.tag for operation in operations)],
        "paths": paths,
        "components": {
            "schemas": schemas.components,
            "responses": {_problem_name(status): _problem(status, schemas) for status in _REASONS},
            "securitySchemes": {
                "accessKey": {
                    "type": "http",
                    "scheme": "basic",
                    "description": "An access key of the store and its secret. The local socket "
                    "needs neither.",
                }
            },
        },
    }


class _Schemas:
    """The schemas of all types in the table of operations.

    The fields of a query struct become parameters, so the struct has no schema of its own.
    """

    def __init__(self, operations: tuple[Operation[Any], ...]) -> None:
        documents: list[Any] = [Problem]
        for operation in operations:
            documents += (operation.body, operation.result)
        queries = [operation.query for operation in operations]
        kinds = [
            kind for kind in dict.fromkeys([*documents, *queries]) if kind not in _NO_DOCUMENTS
        ]
        schemas, self.components = msgspec.json.schema_components(
            kinds, schema_hook=_any_schema, ref_template=_REF
        )
        for component in self.components.values():
            _flatten_tuples(component)
        self._by_kind = dict(zip(kinds, schemas, strict=True))
        self._queries: dict[type[Struct], Schema] = {
            kind: self.components.pop(self._by_kind[kind]["$ref"].rpartition("/")[2])
            for kind in dict.fromkeys(queries)
            if kind is not Nothing
        }

    def of(self, kind: Any) -> Schema:
        schema: Schema = self._by_kind[kind]
        return schema

    def fields(self, kind: type[Struct]) -> tuple[dict[str, Schema], list[str]]:
        """Returns the schema of each field of a query, and the names of the required fields."""
        query = self._queries.get(kind, {})
        return query.get("properties", {}), query.get("required", [])


def _flatten_tuples(schema: Any) -> None:
    """Describes tuples as plain arrays, because many tools do not support `prefixItems`."""
    if isinstance(schema, list):
        for item in schema:
            _flatten_tuples(item)
    elif isinstance(schema, dict):
        items = schema.pop("prefixItems", None)
        if items is not None:
            schema["items"] = items[0] if items[1:] == items[:-1] else {"anyOf": items}
        for part in schema.values():
            _flatten_tuples(part)


def _any_schema(kind: type) -> Schema:
    assert kind is object, f"{kind} has no schema"
    return {"description": "Any value"}


def _operation(operation: Operation[Any], schemas: _Schemas) -> Schema:
    described: Schema = {
        "operationId": operation.name,
        "summary": operation.summary,
        "tags": [operation.tag],
        "parameters": [*_path_parameters(operation), *_query_parameters(operation, schemas)],
        "responses": {
            str(operation.status): _success(operation, schemas),
            **{
                str(status): {"$ref": f"#/components/responses/{_problem_name(status)}"}
                for status in statuses_of(operation)
            },
        },
    }
    content = _body(operation, schemas)
    if content:
        described["requestBody"] = {"required": _needs_body(operation), "content": content}
    if operation.is_public:
        described["security"] = []
    return described


def _path_parameters(operation: Operation[Any]) -> list[Schema]:
    return [
        {"name": name, "in": "path", "required": True, "schema": _name_schema(name)}
        for name in _NAME.findall(operation.path)
    ]


def _name_schema(name: str) -> Schema:
    if name in NUMBERS:
        return {"type": "integer", "minimum": 0, "maximum": _INT64_MAX}
    return {"type": "string", "minLength": 1}


def _query_parameters(operation: Operation[Any], schemas: _Schemas) -> list[Schema]:
    fields, required = schemas.fields(operation.query)
    return [
        {
            "name": name,
            "in": "query",
            "required": name in required,
            "schema": _query_schema(field),
        }
        for name, field in fields.items()
    ]


def _query_schema(field: Schema) -> Schema:
    """Returns the schema of a query parameter without null, because an optional parameter is left
    out instead."""
    if "anyOf" not in field:
        return field
    kinds = [schema for schema in field["anyOf"] if schema.get("type") != "null"]
    others = {name: value for name, value in field.items() if name not in ("anyOf", "default")}
    return {**others, **(kinds[0] if len(kinds) == 1 else {"anyOf": kinds})}


def _body(operation: Operation[Any], schemas: _Schemas) -> Schema:
    content: Schema = {}
    if operation.body is not Nothing:
        schema = schemas.of(operation.body)
        content |= {media.JSON: {"schema": schema}, media.MSGPACK: {"schema": schema}}
    for raw in operation.also_takes:
        content[raw.value] = {"schema": _raw_schema(raw)}
        if raw is Raw.BYTES and operation.body is not Nothing:
            content["text/plain"] = {"schema": {"type": "string"}}
    return content


def _needs_body(operation: Operation[Any]) -> bool:
    """Returns whether the request needs a body, because the body has required fields."""
    if operation.body is Nothing:
        return False
    fields = msgspec.structs.fields(operation.body)
    return any(field.required for field in fields)


def _raw_schema(raw: Raw) -> Schema:
    if raw is Raw.BYTES:
        return {"contentMediaType": media.BYTES}
    return {"type": "string", "description": "One JSON object per line"}


def _success(operation: Operation[Any], schemas: _Schemas) -> Schema:
    content: Schema = {}
    if operation.result not in _NO_DOCUMENTS:
        schema = schemas.of(operation.result)
        content[media.JSON] = {"schema": schema}
        if _is_struct(operation.result):
            content[media.MSGPACK] = {"schema": schema}
    for raw in operation.also_gives:
        content[raw.value] = {"schema": _raw_schema(raw)}
    described: Schema = {"description": "Success"}
    return {**described, "content": content} if content else described


def _is_struct(kind: Any) -> bool:
    kind = get_origin(kind) or kind
    return isinstance(kind, type) and (issubclass(kind, Struct) or is_dataclass(kind))


def _problem_name(status: int) -> str:
    return f"Problem{status}"


def _problem(status: int, schemas: _Schemas) -> Schema:
    described: Schema = {
        "description": _REASONS[status],
        "content": {media.PROBLEM: {"schema": schemas.of(Problem)}},
    }
    if status in (429, 503, 507):
        seconds = {"description": "Seconds", "schema": {"type": "integer", "minimum": 0}}
        described["headers"] = {"Retry-After": seconds}
    return described


def statuses_of(operation: Operation[Any]) -> list[int]:
    """Returns the error statuses that the document lists for an operation.

    Others are possible: for example, a request from another site's page gets a 403.
    """
    statuses = {400, 405, 500, *operation.errors}
    if not operation.is_public:
        statuses |= {401, 429, 503}
    if _NAME.search(operation.path) or operation.body is not Nothing:
        statuses.add(404)
    if operation.body is not Nothing or operation.also_takes:
        statuses |= {413, 415}
    if operation.result is bytes or _POSITIONS & set(operation.query.__struct_fields__):
        statuses |= {416, 502}  # data may be in Tier 2
    if operation.method != "GET":
        statuses.add(507)
    return sorted(statuses)
