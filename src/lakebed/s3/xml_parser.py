"""Parses the XML documents that clients send, within limits.

Element names match with and without a namespace. A document is refused if it is too large, is
nested too deeply or has too many elements. It is also refused if it has a document type
declaration, so no document can declare entities.

Keys may contain characters that XML 1.0 forbids, and clients send these anyway, raw or as character
references. They are replaced with private-use characters before parsing and restored afterwards. A
document with forbidden characters is refused if it also has those private-use characters or a CDATA
section.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final
from xml.parsers import expat

from lakebed.base.units import KIB
from lakebed.s3.errors import S3Error

SMALL_BYTES_MAX: Final = 64 * KIB

_DEPTH_MAX: Final = 8
_ELEMENTS_MAX: Final = 200_000  # enough for 10,000 parts with all possible elements

_PRIVATE: Final = 0x10F000  # in the last plane of Unicode, for private use
_RAW_FORBIDDEN = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff]")
_REFERENCE_FORBIDDEN = re.compile(
    "&#(?:x0*([0-8BbCcEeFf]|1[0-9A-Fa-f]|[Ff]{3}[EeFf])|0*([0-8]|1[124-9]|2[0-9]|3[01]|6553[45]));"
)
_EXCHANGED = re.compile(f"[{chr(_PRIVATE)}-{chr(_PRIVATE + 0x1F)}{chr(0x10FFFC)}{chr(0x10FFFD)}]")


class Node:
    """An XML element: its local name, its own text, and its child elements."""

    __slots__ = ("children", "name", "text")

    def __init__(self, name: str) -> None:
        self.name = name
        self.text = ""
        self.children: list[Node] = []

    def all(self, name: str) -> Iterator[Node]:
        return (child for child in self.children if child.name == name)

    def optional(self, name: str) -> str | None:
        """Returns the text of the child element with that name, or None if there is no such child.

        Raises the S3 error `MalformedXML` if there are several.
        """
        children = list(self.all(name))
        if len(children) > 1:
            raise malformed(f"{name} occurs {len(children)} times, but at most one is allowed")
        return children[0].text if children else None

    def only(self, *names: str) -> None:
        """Raises the S3 error `MalformedXML` if a child element's name is not one of `names`."""
        for child in self.children:
            if child.name not in names:
                raise malformed(f"the element {child.name} is not allowed in {self.name}")


def parse(data: bytes, *, root: str, bytes_max: int = SMALL_BYTES_MAX) -> Node:
    """Parses a document and returns its root element.

    Raises the S3 error `MaxMessageLengthExceeded` if it is larger than `bytes_max`, and
    `MalformedXML` if it is not well-formed, exceeds another limit, or its root element is not named
    `root`.
    """
    if len(data) > bytes_max:
        raise S3Error(
            "MaxMessageLengthExceeded",
            f"The XML document has {len(data)} bytes, but the maximum is {bytes_max}",
        )
    text = _decoded(data)
    replaced = _without_forbidden(text)
    tree = _Tree()
    tree.feed(replaced)
    node = tree.root
    if node is None or node.name != root:
        raise malformed(f"the root element is not {root}")
    if replaced is not text:
        _restore(node)
    return node


def malformed(why: str = "") -> S3Error:
    message = "The XML you provided was not well-formed or did not validate"
    return S3Error("MalformedXML", f"{message}: {why}" if why else message)


class _Tree:
    """Builds a tree of nodes from XML text; `root` is None before `feed`.

    `feed` raises the S3 error `MalformedXML` if the text is not well-formed or exceeds a limit.
    """

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
            raise malformed("the document has too many elements or is nested too deeply")
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
        raise malformed("a document type declaration is not allowed")


def _decoded(data: bytes) -> str:
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise malformed("the document is not UTF-8") from None


def _without_forbidden(text: str) -> str:
    """Replaces characters that XML forbids; returns `text` itself if there are none.

    Raises the S3 error `MalformedXML` if the replacement would be ambiguous.
    """
    if not (_RAW_FORBIDDEN.search(text) or _REFERENCE_FORBIDDEN.search(text)):
        return text
    if _EXCHANGED.search(text) or "<![CDATA[" in text:  # references have no meaning in CDATA
        raise malformed(
            "the document has characters that XML forbids; they are accepted only in a document "
            "without CDATA sections and private-use characters"
        )
    text = _RAW_FORBIDDEN.sub(lambda match: _exchanged(ord(match.group())), text)
    return _REFERENCE_FORBIDDEN.sub(lambda match: _exchanged(_number(match)), text)


def _restore(node: Node) -> None:
    node.text = _EXCHANGED.sub(lambda match: chr(_original(ord(match.group()))), node.text)
    for child in node.children:
        _restore(child)


def _number(reference: re.Match[str]) -> int:
    digits, base = (reference[1], 16) if reference[1] else (reference[2], 10)
    return int(digits, base)


def _exchanged(number: int) -> str:
    return chr(_PRIVATE + number if number < 0x20 else number - 0xFFFE + 0x10FFFC)


def _original(number: int) -> int:
    return number - 0x10FFFC + 0xFFFE if number >= 0x10FFFC else number - _PRIVATE
