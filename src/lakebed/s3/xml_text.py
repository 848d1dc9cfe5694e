"""Text as XML can carry it, and back.

A key may have characters that XML 1.0 has no way to say. They are written as references, `&#x1;`,
as AWS does: strict parsers refuse those, lenient ones read them, and whoever must be sure asks for
`encoding-type=url`. A carriage return is always a reference, or a parser would make a line feed
of it.
"""

from __future__ import annotations

import re
from typing import Final

DECLARATION: Final = '<?xml version="1.0" encoding="UTF-8"?>\n'
NAMESPACE: Final = "http://s3.amazonaws.com/doc/2006-03-01/"

# Control characters but tab and line feed, and what is no character at all.
_UNSAYABLE: Final = "\x00-\x08\x0b-\x1f\x7f-\x9f\ufffe\uffff"
_IMPOSSIBLE = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")
_HOSTILE = re.compile(f'[&<>"{_UNSAYABLE}]')
_REFERRED = re.compile(f"[{_UNSAYABLE}]")


def escaped(text: str) -> str:
    """As it stands between two tags."""
    if not _HOSTILE.search(text):
        return text
    text = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    text = text.replace('"', "&quot;")
    return _REFERRED.sub(lambda found: f"&#x{ord(found.group()):X};", text)


def sayable(text: str) -> str:
    """With a mark in the place of what XML has no way to say: for what is only shown."""
    return _IMPOSSIBLE.sub("\ufffd", text)


def element(name: str, text: str) -> str:
    return f"<{name}>{escaped(text)}</{name}>"
