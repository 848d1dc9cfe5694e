"""Finds the operation for a method and a path, and the variable parts of the path."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from urllib.parse import unquote_to_bytes

from lakebed.api.operation import Operation
from lakebed.api.problems import Refused


class NoSuchPath(Refused):
    """The path does not exist in the API."""


class NoSuchMethod(Refused):
    """The path exists, but not with this method."""

    def __init__(self, message: str, *, allowed: tuple[str, ...]) -> None:
        super().__init__(message)
        self.allowed = allowed


class _Node:
    """A node of the tree of paths: the parts that may follow, and the operations whose paths end
    here."""

    def __init__(self) -> None:
        self.parts: dict[str, _Node] = {}
        self.named: _Node | None = None  # for any other part
        self.name = ""
        self.takes_rest = False  # the named part is all remaining parts
        self.operations: dict[str, Operation[object]] = {}


class Router:
    def __init__(self, operations: Iterable[Operation[object]]) -> None:
        self._root = _Node()
        for operation in operations:
            self._add(operation)

    def find(self, method: str, raw_path: bytes) -> tuple[Operation[object], Mapping[str, str]]:
        """Returns the operation for a method and a path, and the names in the path.

        Raises `NoSuchPath` if no operation has the path, `NoSuchMethod` if none of those that have
        it has the method, and `Refused` if a name is not UTF-8. A HEAD request is routed as GET.
        """
        node, names = self._walk(raw_path)
        operation = node.operations.get("GET" if method == "HEAD" else method)
        if operation is None:
            allowed = tuple(
                sorted({*node.operations, *(("HEAD",) if "GET" in node.operations else ())})
            )
            raise NoSuchMethod(
                f"this path does not support {method[:20]}: use {', '.join(allowed)}",
                allowed=allowed,
            )
        return operation, names

    def _add(self, operation: Operation[object]) -> None:
        node = self._root
        for part in operation.path.strip("/").split("/"):
            if part.startswith("{"):
                if node.named is None:
                    node.named = _Node()
                    node.name = part.strip("{}*")
                    node.takes_rest = part.endswith("*}")
                assert node.name == part.strip("{}*"), f"{operation.path}: two names for one part"
                node = node.named
            else:
                node = node.parts.setdefault(part, _Node())
        assert operation.method not in node.operations, f"{operation!r} is defined twice"
        node.operations[operation.method] = operation

    def _walk(self, raw_path: bytes) -> tuple[_Node, dict[str, str]]:
        node, names = self._root, {}
        parts = raw_path.removeprefix(b"/").split(b"/")
        for index, part in enumerate(parts):
            literal = node.parts.get(part.decode("latin-1"))
            if literal is not None:
                node = literal
            elif node.named is not None and (
                named := b"/".join(parts[index:]) if node.takes_rest else part
            ):
                names[node.name] = _decoded(named)
                is_last, node = node.takes_rest, node.named
                if is_last:
                    break
            else:
                raise _missing(raw_path)
        if not node.operations:
            raise _missing(raw_path)
        return node, names


def _decoded(part: bytes) -> str:
    try:
        return unquote_to_bytes(part).decode()
    except UnicodeDecodeError:
        raise Refused("the path is not valid UTF-8") from None


def _missing(raw_path: bytes) -> NoSuchPath:
    return NoSuchPath(f"{raw_path[:80].decode('latin-1')}: no such path; see /v1/openapi.json")
