"""The OpenAPI document of the HTTP API, made of the table that it routes by.

Structs become schemas, and fields of queries become parameters with their limits and defaults.
Bytes are base64 in JSON, and themselves in MessagePack, which has the same schemas otherwise.
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
_POSITIONS: Final = frozenset({"offset", "start", "first"})  # in queries: they may be out of range

_REASONS: Final = {
    400: "The call is not as it should be; nothing was changed",
    401: "No access key, a wrong one, or one that is disabled",
    403: "A page of another site, or a name that is not the node's",
    404: "Something that the call names is not there",
    405: "What is there cannot be called so",
    409: "It contradicts what is there",
    412: "A condition of the call is not met",
    413: "More than the stated maximum",
    415: "A body of a kind that this call does not take",
    416: "A position outside of what there is",
    429: "Too much at once: come again later",
    500: "A failure of the store: see its log",
    502: "The store of Tier 2 does not answer as it should",
    503: "The store is being closed, or cannot do it now: come again later",
    504: "It was begun and may still be done: look before doing it again",
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
        "tags": [{"name": tag} for tag in dict.fromkeys(one.tag for one in operations)],
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
    """Of every type in the table. Those of queries stand in the parameters, not as components."""

    def __init__(self, operations: tuple[Operation[Any], ...]) -> None:
        documents: list[Any] = [Problem]
        for operation in operations:
            documents += (operation.body, operation.result)
        queries = [operation.query for operation in operations]
        kinds = [one for one in dict.fromkeys([*documents, *queries]) if one not in _NO_DOCUMENTS]
        found, self.components = msgspec.json.schema_components(
            kinds, schema_hook=_any_schema, ref_template=_REF
        )
        for component in self.components.values():
            _flatten_tuples(component)
        self._by_kind = dict(zip(kinds, found, strict=True))
        self._queries: dict[type[Struct], Schema] = {
            kind: self.components.pop(self._by_kind[kind]["$ref"].rpartition("/")[2])
            for kind in dict.fromkeys(queries)
            if kind is not Nothing
        }

    def of(self, kind: Any) -> Schema:
        found: Schema = self._by_kind[kind]
        return found

    def fields(self, kind: type[Struct]) -> tuple[dict[str, Schema], list[str]]:
        """Of a query: its fields, and which of them are needed."""
        query = self._queries.get(kind, {})
        return query.get("properties", {}), query.get("required", [])


def _flatten_tuples(schema: Any) -> None:
    """Pairs as arrays of two: tools that read the document choke on places that differ in kind."""
    if isinstance(schema, list):
        for one in schema:
            _flatten_tuples(one)
    elif isinstance(schema, dict):
        places = schema.pop("prefixItems", None)
        if places is not None:
            schema["items"] = places[0] if places[1:] == places[:-1] else {"anyOf": places}
        for one in schema.values():
            _flatten_tuples(one)


def _any_schema(kind: type) -> Schema:
    assert kind is object, f"{kind} has no schema"
    return {"description": "Anything"}


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
    """A query says nothing by leaving a name out: it has no null."""
    if "anyOf" not in field:
        return field
    kinds = [one for one in field["anyOf"] if one.get("type") != "null"]
    rest = {name: value for name, value in field.items() if name not in ("anyOf", "default")}
    return {**rest, **(kinds[0] if len(kinds) == 1 else {"anyOf": kinds})}


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
    """An empty one is one that says nothing, which does where nothing must be said."""
    if operation.body is Nothing:
        return False
    fields = msgspec.structs.fields(operation.body)
    return any(field.required for field in fields)


def _raw_schema(raw: Raw) -> Schema:
    if raw is Raw.BYTES:
        return {"contentMediaType": media.BYTES}
    return {"type": "string", "description": "A line of JSON each"}


def _success(operation: Operation[Any], schemas: _Schemas) -> Schema:
    content: Schema = {}
    if operation.result not in _NO_DOCUMENTS:
        schema = schemas.of(operation.result)
        content[media.JSON] = {"schema": schema}
        if _is_struct(operation.result):
            content[media.MSGPACK] = {"schema": schema}
    for raw in operation.also_gives:
        content[raw.value] = {"schema": _raw_schema(raw)}
    described: Schema = {"description": "As asked"}
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
    """How a call may be refused."""
    found = {400, 405, 500, *operation.errors}
    if not operation.is_public:
        found |= {401, 429, 503}
    if _NAME.search(operation.path) or operation.body is not Nothing:
        found.add(404)
    if operation.body is not Nothing or operation.also_takes:
        found |= {413, 415}
    if operation.result is bytes or _POSITIONS & set(operation.query.__struct_fields__):
        found |= {416, 502}  # some of it may be in Tier 2
    if operation.method != "GET":
        found.add(507)
    return sorted(found)
