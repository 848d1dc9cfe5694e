"""`s3.md`: how the S3 endpoint responds to every operation of S3.

The operations are those of botocore's model. Each is sent to the router itself, as a request with
everything that the model requires, so the table is complete and shows what happens.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from botocore.loaders import Loader
from botocore.model import ServiceModel

from lakebed.http.body import WholeBody
from lakebed.http.request import Request
from lakebed.s3.absent_configuration import GetAbsentConfiguration
from lakebed.s3.errors import STATUSES, S3Error
from lakebed.s3.router import SUPPORTED_HEADERS, VERBS, check_headers, route
from lakebed.s3.unsupported import HEADERS, HEADERS_STARTING
from lakebed.s3.verb import Operation
from tools.reference.markdown import code, codes, plain, table
from tools.reference.markdown import page as page_of
from tools.reference.sources import docstring

SERVED: Final = "served"
NONE: Final = "reported as absent"
REFUSED: Final = "refused"
NOT_THERE: Final = "unknown"

_LEVELS: Final = {"/": "service", "/{Bucket}": "bucket", "/{Bucket}/{Key+}": "object"}
_NAME: Final = re.compile(r"\{\w+\+?\}")
_SAMPLES: Final = {"integer": "1", "long": "1", "boolean": "true", "timestamp": "0"}

_INTRODUCTION = """
Every operation in botocore's model of S3, and how the endpoint responds: it is *served*; or the
configuration is *reported as absent*, as AWS does for a bucket without it; or the request is
*refused*, and nothing is changed; or it is *unknown*. *identified by* lists its required parameters
and headers. Clients, and differences from AWS, are in [the S3 endpoint](../guides/s3.md).
""".strip()


class Asked(NamedTuple):
    """An operation of S3 as its model defines it."""

    name: str
    method: str
    path: str
    parameters: dict[str, str]  # those it must have, with a value
    headers: dict[str, str]


class Verdict(NamedTuple):
    """How the endpoint responds; `by` is the operation that serves it."""

    state: str
    note: str = ""
    by: Operation | None = None


def page() -> str:
    found = [(one, verdict(one)) for one in operations()]
    counted = Counter(judged.state for _, judged in found)
    summary = ", ".join(f"{counted[one]} {one}" for one in (SERVED, NONE, REFUSED, NOT_THERE))
    headings = (
        "operation",
        "method",
        "level",
        "identified by",
        "response",
        "optional parameters",
        "note",
    )
    return page_of(
        "S3 operations",
        _INTRODUCTION,
        f"Of {len(found)} operations: {summary}.",
        table(headings, [_row(*one) for one in found]),
        "## Headers",
        "Headers that begin with `x-amz-`. Values are not case-sensitive.",
        _headers(),
        "## Errors",
        table(("code", "status"), [(code(one), str(status)) for one, status in STATUSES.items()]),
    )


def operations() -> Iterator[Asked]:
    """All that S3 has, by name. Only botocore's own data counts, none of the user's."""
    loader = Loader([Loader.BUILTIN_DATA_PATH], include_default_search_paths=False)
    model = ServiceModel(loader.load_service_model("s3", "service-2"), "s3")
    for name in sorted(model.operation_names):
        operation = model.operation_model(name)
        path, _, query = operation.http["requestUri"].partition("?")
        parameters = dict(part.partition("=")[::2] for part in query.split("&") if part)
        needed = {"querystring": parameters, "header": dict[str, str]()}
        shape = operation.input_shape
        for member in shape.required_members if shape else ():
            place, sample = _sample(shape.members[member])
            if place in needed:
                needed[place].setdefault(*sample)
        yield Asked(name, operation.http["method"], path, parameters, needed["header"])


def verdict(asked: Asked) -> Verdict:
    """What the router makes of it."""
    try:
        _, found = route(_request(asked), domain="")
    except S3Error as error:
        state = REFUSED if error.code == "NotImplemented" else NOT_THERE
        return Verdict(state, code(error.code))
    if isinstance(found, GetAbsentConfiguration):
        return Verdict(NONE, code(found.code), found)
    name = type(found).__name__
    if name != asked.name:
        return Verdict(NOT_THERE, f"the same request as {code(name)}", found)
    return Verdict(SERVED, plain(docstring(type(found))), found)


def _sample(member: Any) -> tuple[str, tuple[str, str]]:
    """Where a member goes in a request, its name there, and a sample value."""
    name = member.serialization.get("name", member.name)
    value = member.enum[0] if getattr(member, "enum", None) else "name"
    return member.serialization.get("location", ""), (name, _SAMPLES.get(member.type_name, value))


def _request(asked: Asked) -> Request:
    query = "&".join(
        f"{name}={value}" if value else name for name, value in asked.parameters.items()
    )
    headers = {name.lower(): value for name, value in asked.headers.items()}
    return Request(
        method=asked.method,
        raw_path=_NAME.sub("name", asked.path).encode(),
        raw_query=query.encode(),
        version="1.1",
        fields=[(name.encode(), value.encode()) for name, value in headers.items()],
        headers=headers,
        body=WholeBody(b""),
        request_id="0123456789ABCDEF",
        peer="127.0.0.1",
        is_secure=False,
        received_ns=0,
    )


def _row(asked: Asked, judged: Verdict) -> tuple[str, ...]:
    asked_by = [f"?{name}" for name in asked.parameters] + [name.lower() for name in asked.headers]
    taken: frozenset[str] = frozenset()
    if judged.state == SERVED:
        taken = next(verb.parameters for verb in VERBS if verb.operation is type(judged.by))
    return (
        asked.name,
        asked.method,
        _LEVELS.get(asked.path, code(asked.path)),
        codes(asked_by),
        judged.state,
        codes(sorted(taken - set(asked.parameters))),
        judged.note,
    )


def _headers() -> str:
    rows = [(code(name), "any", "", "is read") for name in SUPPORTED_HEADERS]
    for name, taken in HEADERS.items():
        if taken.values is None:
            rows.append((code(name), "any", "", "changes nothing"))
        else:
            values = ["empty" if not one else code(one) for one in sorted(taken.values)]
            does = "is the default anyway" if values else ""
            rows.append((code(name), ", ".join(values) or "none", code(taken.code), does))
    refused = code("NotImplemented")
    rows += [(code(f"{name}…"), "none", refused, "") for name in HEADERS_STARTING]
    rows.append((code("x-amz-meta-…"), *_fate("x-amz-meta-name")))
    others = ("all others", *_fate("x-amz-name-of-nothing"))
    return table(("header", "values taken", "else", "what it does"), [*sorted(rows), others])


def _fate(name: str) -> tuple[str, str, str]:
    """What becomes of a header, found by trying it."""
    codes_of = []
    for is_write in (True, False):
        try:
            check_headers({name: "value"}, is_write=is_write)
            codes_of.append("")
        except S3Error as error:
            codes_of.append(code(error.code))
    written, read = codes_of
    if not written and not read:
        return "any", "", "is kept"
    return ("none" if read else "any, with a read"), written, ""
