"""The XML elements that the listings of objects, versions and uploads have in common.

With `encoding-type=url`, keys, prefixes, key markers and delimiters are percent-encoded; other
fields are not.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

from lakebed.s3.verb import OnBucket
from lakebed.s3.xml_text import STORAGE_CLASS, bool_text, element, key_text
from lakebed.seglake.listing import PAGE_MAX

PAGE_PARAMETERS: Final = frozenset({"prefix", "delimiter", "encoding-type"})
STORAGE: Final = element("StorageClass", STORAGE_CLASS)

KeyText = Callable[[str], str]


@dataclass(frozen=True, kw_only=True, slots=True)
class Listing(OnBucket):
    """A request to list objects, versions or uploads of a bucket.

    `max_keys` is the requested page size. A number above `PAGE_MAX` counts as `PAGE_MAX`.
    """

    prefix: str = ""
    delimiter: str = ""
    max_keys: int = PAGE_MAX
    is_url_encoded: bool = False


def key_text_of(operation: Listing) -> KeyText:
    return partial(key_text, is_url_encoded=operation.is_url_encoded)


def page_head(operation: Listing, text: KeyText, *, bucket: str = "Name") -> list[str]:
    parts = [
        element(bucket, operation.bucket),
        f"<Prefix>{text(operation.prefix)}</Prefix>",
    ]
    if operation.delimiter:
        parts.append(f"<Delimiter>{text(operation.delimiter)}</Delimiter>")
    if operation.is_url_encoded:
        parts.append("<EncodingType>url</EncodingType>")
    return parts


def page_counts(operation: Listing, name: str, *, is_truncated: bool) -> list[str]:
    return [
        f"<{name}>{min(operation.max_keys, PAGE_MAX)}</{name}>",
        f"<IsTruncated>{bool_text(is_truncated)}</IsTruncated>",
    ]


def common_prefixes(prefixes: Sequence[str], text: KeyText) -> list[str]:
    return [
        f"<CommonPrefixes><Prefix>{text(prefix)}</Prefix></CommonPrefixes>" for prefix in prefixes
    ]
