"""The query parameters of a request, decoded and checked; no name may occur twice.

Presigned URLs may contain headers (`x-amz-meta-…`, `x-amz-checksum-…`) as query parameters, because
the signer of a URL does not send the request. `Query.hoisted` returns these headers, and the router
adds them to the request's headers.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from lakebed.s3.address import decoded
from lakebed.s3.errors import S3Error, invalid_argument
from lakebed.seglake.listing import PAGE_MAX
from lakebed.seglake.multipart import PART_NUMBER_MAX

INTEGER_MAX: Final = 2**31 - 1
PARAMETERS_MAX: Final = 100
SIGNED: Final = frozenset(
    {
        "x-amz-algorithm",
        "x-amz-content-sha256",
        "x-amz-credential",
        "x-amz-date",
        "x-amz-expires",
        "x-amz-sdk-checksum-algorithm",
        "x-amz-security-token",
        "x-amz-signature",
        "x-amz-signedheaders",
        "x-amz-user-agent",
    }
)
"""`x-amz-` parameters that are not treated as headers: they sign the URL or have no effect."""

_SIGNATURE: Final = "X-Amz-Signature"
_OF_NO_BODY: Final = ("x-amz-checksum-crc32", "AAAAAA==")
"""The checksum of an empty body, which the JavaScript SDK adds to every presigned URL of a PUT."""


class Query:
    """The query of a request. `names` are the names of all parameters other than `x-amz-…`.

    Raises the S3 error `InvalidArgument` if a name occurs twice, and `InvalidURI` if the query
    cannot be decoded or has more than `PARAMETERS_MAX` parameters.
    """

    __slots__ = ("_headers", "_values", "names")

    def __init__(self, raw: bytes) -> None:
        self._values: dict[str, str] = {}
        self._headers: dict[str, str] = {}
        names = []
        for name, value in _pairs(raw):
            if name in self._values:
                raise invalid_argument(
                    "The query parameter occurs more than once", name=name, value=value
                )
            self._values[name] = value
            lower = name.lower()
            if not lower.startswith("x-amz-"):
                names.append(name)
            elif lower not in SIGNED and (lower, value) != _OF_NO_BODY:
                self._headers[lower] = value
        self.names = frozenset(names)

    def __contains__(self, name: str) -> bool:
        return name in self._values

    def text(self, name: str) -> str:
        """Returns the parameter's value, or "" if it is absent."""
        return self._values.get(name, "")

    def optional(self, name: str) -> str | None:
        return self._values.get(name)

    def filled(self, name: str) -> str | None:
        """Returns the parameter's value, or None if it is absent.

        Raises the S3 error `InvalidArgument` if the value is empty.
        """
        value = self._values.get(name)
        if value == "":
            raise invalid_argument(f"{name} cannot be the empty string", name=name, value="")
        return value

    def number(self, name: str, *, minimum: int = 0, maximum: int = INTEGER_MAX) -> int | None:
        """Returns the parameter's value as an integer, or None if it is absent or empty.

        Raises the S3 error `InvalidArgument` if it is not a number from `minimum` to `maximum`.
        """
        value = self._values.get(name)
        if not value:
            return None
        is_number = value.isascii() and value.isdigit() and len(value) <= len(str(maximum))
        if not is_number or not minimum <= int(value) <= maximum:
            raise invalid_argument(
                f"{name} must be an integer between {minimum} and {maximum}",
                name=name,
                value=value,
            )
        return int(value)

    def is_true(self, name: str) -> bool:
        return self.text(name).lower() == "true"

    def count(self, name: str) -> int:
        """Returns the requested page size from the parameter `name`, by default `PAGE_MAX`.

        The result may be larger than `PAGE_MAX`. Raises the S3 error `InvalidArgument` if the
        parameter is not a number.
        """
        number = self.number(name)
        return PAGE_MAX if number is None else number

    def is_url_encoded(self) -> bool:
        value = self.text("encoding-type")
        if value not in ("", "url"):
            raise invalid_argument(
                "Invalid Encoding Method specified in Request", name="encoding-type", value=value
            )
        return value == "url"

    def version_id(self) -> str | None:
        """Returns the parameter `versionId`, or None if it is absent.

        Raises the S3 error `InvalidArgument` if it is empty or not printable ASCII, because a
        response header may repeat it.
        """
        value = self.filled("versionId")
        if value is not None and not (value.isascii() and value.isprintable()):
            raise invalid_argument(
                "Invalid version id specified: it must be printable ASCII",
                name="versionId",
                value=value,
            )
        return value

    def upload_id(self) -> str:
        return self.filled("uploadId") or ""

    def part_number(self) -> int | None:
        return self.number("partNumber", minimum=1, maximum=PART_NUMBER_MAX)

    def hoisted(self) -> Mapping[str, str]:
        """Returns the headers that a presigned URL has as query parameters, by lower-case name.

        Raises the S3 error `InvalidArgument` if there are any but the URL is not presigned, or if a
        value is not printable. Leaves out a CRC32 of an empty body, which the JavaScript SDK adds
        to every presigned URL of a PUT.
        """
        headers = self._headers
        if headers and _SIGNATURE not in self._values:
            name, value = next(iter(headers.items()))
            raise invalid_argument(
                "Headers in the query string are only allowed in a presigned URL",
                name=name,
                value=value,
            )
        for name, value in headers.items():
            if not value.isprintable():
                raise invalid_argument(
                    "A header in the query string must consist of printable characters",
                    name=name,
                    value=value,
                )
        return headers


def _pairs(raw: bytes) -> Iterator[tuple[str, str]]:
    pieces = raw.split(b"&") if raw else []
    if len(pieces) > PARAMETERS_MAX:
        raise S3Error("InvalidURI", f"The URL has more than {PARAMETERS_MAX} query parameters.")
    for piece in pieces:
        if b"%" in piece or b"+" in piece or not piece.isascii():
            raw_name, _, raw_value = piece.replace(b"+", b" ").partition(b"=")
            yield decoded(raw_name), decoded(raw_value)
        elif piece:
            name, _, value = piece.decode().partition("=")
            yield name, value
