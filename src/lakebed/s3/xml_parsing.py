"""Documents that clients send: parsed with bounds, checked, and typed.

Names count with and without a namespace. A document type, and so every entity but the five of
XML, is refused, as is what is larger, deeper or has more elements than its kind can have.

Keys may have characters that XML 1.0 forbids, and clients send them all the same, raw or as
references. For the parser each is exchanged for a character of a private plane, and back in what
it found; a document that already has one of those is refused.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple
from xml.parsers import expat

from lakebed.base.units import KIB, MIB
from lakebed.s3.errors import S3Error
from lakebed.seglake.model import (
    NO_CONDITION,
    Algorithm,
    Checksum,
    Condition,
    ObjectToDelete,
    Versioning,
)
from lakebed.seglake.multipart import PART_NUMBER_MAX, NamedPart
from lakebed.seglake.objects import DELETED_AT_ONCE_MAX

DELETE_BYTES_MAX: Final = 8 * MIB  # 1,000 keys of 1,024 characters, all of them references
COMPLETE_BYTES_MAX: Final = 8 * MIB
SMALL_BYTES_MAX: Final = 64 * KIB

_DEPTH_MAX: Final = 8
_ELEMENTS_MAX: Final = 200_000  # of 10,000 parts with all they can have

_PRIVATE: Final = 0x10F000  # of the last plane of Unicode, which nobody assigns
_RAW_FORBIDDEN = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff]")
_REFERENCE_FORBIDDEN = re.compile(
    "&#(?:x0*([0-8BbCcEeFf]|1[0-9A-Fa-f]|[Ff]{3}[EeFf])|0*([0-8]|1[124-9]|2[0-9]|3[01]|6553[45]));"
)
_EXCHANGED = re.compile(f"[{chr(_PRIVATE)}-{chr(_PRIVATE + 0x1F)}{chr(0x10FFFC)}{chr(0x10FFFD)}]")


class Node:
    """An element: its local name, the text directly in it, and the elements."""

    __slots__ = ("children", "name", "text")

    def __init__(self, name: str) -> None:
        self.name = name
        self.text = ""
        self.children: list[Node] = []

    def all(self, name: str) -> Iterator[Node]:
        return (child for child in self.children if child.name == name)

    def optional(self, name: str) -> str | None:
        """The text of the one element of that name, if there is one."""
        found = list(self.all(name))
        if len(found) > 1:
            raise malformed(f"{name} stands there {len(found)} times")
        return found[0].text if found else None

    def only(self, *names: str) -> None:
        """Refuse elements that are not among these."""
        for child in self.children:
            if child.name not in names:
                raise malformed(f"{child.name} is not expected in {self.name}")


class Deletion(NamedTuple):
    doomed: list[ObjectToDelete]
    is_quiet: bool


def parse(data: bytes, *, root: str, bytes_max: int = SMALL_BYTES_MAX) -> Node:
    """The root element, which must have that name."""
    if len(data) > bytes_max:
        raise S3Error(
            "MaxMessageLengthExceeded",
            f"The document has {len(data)} bytes, at most {bytes_max} are taken",
        )
    text = _decoded(data)
    exchanged = _without_forbidden(text)
    tree = _Tree()
    tree.feed(exchanged)
    found = tree.root
    if found is None or found.name != root:
        raise malformed(f"the document is not a {root}")
    if exchanged is not text:
        _restore(found)
    return found


def parse_deletion(data: bytes) -> Deletion:
    """Of DeleteObjects."""
    root = parse(data, root="Delete", bytes_max=DELETE_BYTES_MAX)
    root.only("Object", "Quiet")
    doomed = [_doomed(node) for node in root.all("Object")]
    if not 1 <= len(doomed) <= DELETED_AT_ONCE_MAX:
        raise malformed(f"{len(doomed)} objects: 1 to {DELETED_AT_ONCE_MAX} are deleted at once")
    return Deletion(doomed, is_quiet=_is_true(root.optional("Quiet")))


def parse_completion(data: bytes) -> list[NamedPart]:
    """Of CompleteMultipartUpload: the parts as they stand there, in their order."""
    root = parse(data, root="CompleteMultipartUpload", bytes_max=COMPLETE_BYTES_MAX)
    root.only("Part")
    if not 1 <= len(root.children) <= PART_NUMBER_MAX:
        raise malformed(f"{len(root.children)} parts: there are 1 to {PART_NUMBER_MAX}")
    return [_part(node) for node in root.children]


def parse_versioning(data: bytes) -> Versioning:
    """Of PutBucketVersioning."""
    root = parse(data, root="VersioningConfiguration")
    root.only("Status", "MfaDelete", "MFADelete")
    for name in ("MfaDelete", "MFADelete"):
        if root.optional(name) not in (None, "Disabled"):
            raise S3Error("NotImplemented", "Deletion with a second factor is not implemented")
    status = root.optional("Status")
    if status == "Enabled":
        return Versioning.ENABLED
    if status == "Suspended":
        return Versioning.SUSPENDED
    raise S3Error(
        "IllegalVersioningConfigurationException",
        "The versioning configuration specified in the request is invalid",
    )


def parse_location(data: bytes) -> str:
    """Of CreateBucket: the region asked for, or "" if none is."""
    if not data.strip():
        return ""
    root = parse(data, root="CreateBucketConfiguration")
    for child in root.children:
        if child.name != "LocationConstraint":
            raise S3Error("NotImplemented", f"{child.name} of a new bucket is not implemented")
    return (root.optional("LocationConstraint") or "").strip()


def malformed(why: str = "") -> S3Error:
    message = "The XML you provided was not well-formed or did not validate"
    return S3Error("MalformedXML", f"{message}: {why}" if why else message)


class _Tree:
    """Built while expat reads; it stops at the first thing that is not taken."""

    def __init__(self) -> None:
        self.root: Node | None = None
        self._open: list[Node] = []
        self._texts: list[list[str]] = []
        self._elements = 0

    def feed(self, text: str) -> None:
        parser = expat.ParserCreate(namespace_separator=" ")
        parser.buffer_text = True
        parser.StartElementHandler = self._start
        parser.EndElementHandler = self._end
        parser.CharacterDataHandler = self._data
        parser.StartDoctypeDeclHandler = self._refuse
        parser.EntityDeclHandler = self._refuse
        parser.SetParamEntityParsing(expat.XML_PARAM_ENTITY_PARSING_NEVER)
        try:
            parser.Parse(text, True)
        except expat.ExpatError as error:
            raise malformed(f"line {error.lineno}: {expat.ErrorString(error.code)}") from None

    def _start(self, name: str, _attributes: object) -> None:
        self._elements += 1
        if self._elements > _ELEMENTS_MAX or len(self._open) >= _DEPTH_MAX:
            raise malformed("there are too many elements, or they are too deep")
        node = Node(name.rpartition(" ")[2])
        if self._open:
            self._open[-1].children.append(node)
        else:
            self.root = node
        self._open.append(node)
        self._texts.append([])

    def _end(self, _name: str) -> None:
        node, texts = self._open.pop(), self._texts.pop()
        node.text = "".join(texts)

    def _data(self, data: str) -> None:
        self._texts[-1].append(data)

    def _refuse(self, *_: object) -> None:
        raise malformed("a document type is not taken")


def _decoded(data: bytes) -> str:
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise malformed("it is not UTF-8") from None


def _without_forbidden(text: str) -> str:
    """For the parser; the very same text, if there is nothing to exchange."""
    if not (_RAW_FORBIDDEN.search(text) or _REFERENCE_FORBIDDEN.search(text)):
        return text
    if _EXCHANGED.search(text) or "<![CDATA[" in text:  # where a reference is none
        raise malformed("characters that XML forbids stand beside those of a private plane")
    text = _RAW_FORBIDDEN.sub(lambda found: _exchanged(ord(found.group())), text)
    return _REFERENCE_FORBIDDEN.sub(lambda found: _exchanged(_number(found)), text)


def _restore(node: Node) -> None:
    node.text = _EXCHANGED.sub(lambda found: chr(_original(ord(found.group()))), node.text)
    for child in node.children:
        _restore(child)


def _number(reference: re.Match[str]) -> int:
    digits, base = (reference[1], 16) if reference[1] else (reference[2], 10)
    return int(digits, base)


def _exchanged(number: int) -> str:
    return chr(_PRIVATE + number if number < 0x20 else number - 0xFFFE + 0x10FFFC)


def _original(number: int) -> int:
    return number - 0x10FFFC + 0xFFFE if number >= 0x10FFFC else number - _PRIVATE


def _is_true(text: str | None) -> bool:
    if text is None:
        return False
    if text.strip().lower() not in ("true", "false"):
        raise malformed("Quiet is true or false")
    return text.strip().lower() == "true"


def _doomed(node: Node) -> ObjectToDelete:
    node.only("Key", "VersionId", "ETag", "LastModifiedTime", "Size")
    if node.optional("LastModifiedTime") is not None or node.optional("Size") is not None:
        raise S3Error("NotImplemented", "Deletion by time or size is not implemented")
    key = node.optional("Key")
    if not key:
        raise malformed("an object is deleted by its key")
    etag = node.optional("ETag")
    condition = NO_CONDITION if etag is None else Condition(if_match=etag.strip().strip('"'))
    return ObjectToDelete(key, node.optional("VersionId") or None, condition)


def _part(node: Node) -> NamedPart:
    checksums = {f"Checksum{algorithm.value}": algorithm for algorithm in Algorithm}
    node.only("PartNumber", "ETag", *checksums)
    number, etag = (node.optional("PartNumber") or "").strip(), node.optional("ETag")
    if not (number.isascii() and number.isdigit() and len(number) <= 5) or etag is None:
        raise malformed("a part has a number and an ETag")
    given: Sequence[Checksum] = [
        Checksum(algorithm, value.strip(), is_composite=False)
        for name, algorithm in checksums.items()
        if (value := node.optional(name))
    ]
    if len(given) > 1:
        raise malformed("a part has one checksum")
    return NamedPart(int(number), etag.strip().strip('"'), given[0] if given else None)
