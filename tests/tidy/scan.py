"""Reads a module's syntax tree and reports what the rules do not allow in it.

Names are resolved through the module's imports (`import os as o`, `from os import fsync`,
`import concurrent.futures`), and a use counts whether it is called or passed on. A method counts
as one of `pathlib.Path` if the thing it is called on is plainly a path: made by `Path(…)`, `a / b`,
`.parent` or the like, annotated as `Path` anywhere in the module, or named like one. That can
miss; it is meant to catch honest mistakes.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import NamedTuple

from tests.tidy.rules import PATH_METHODS, RULES, Rule

PATH_WORDS = frozenset({"path", "file", "folder", "directory", "root", "home", "scratch"})
PATH_MAKERS = frozenset(
    {"with_name", "with_suffix", "with_stem", "joinpath", "resolve", "absolute"}
)


class Violation(NamedTuple):
    """A use of a banned name."""

    place: str
    line: int
    name: str
    instead: str

    def __str__(self) -> str:
        return f"{self.place}:{self.line}: {self.name} is not for here, use {self.instead}"


def violations(source: str, *, place: str) -> list[Violation]:
    """Everything the rules forbid in a module; `place` is its path below `src/lakebed`."""
    tree = ast.parse(source)
    imports = _imports(tree)
    path_names = _names_annotated_as_path(tree)
    found = set()
    for node in ast.walk(tree):
        for name in _names_used(node, imports):
            rule = next((rule for rule in RULES if _matches(rule, name)), None)
            if rule is not None and not _allowed(rule, place):
                found.add(Violation(place, _line(node), name, rule.instead))
        method = _path_method(node, imports, path_names)
        if method is not None and not _allowed(PATH_METHODS, place):
            found.add(Violation(place, _line(node), f"Path.{method}", PATH_METHODS.instead))
    return sorted(found)


def long_functions(source: str, *, lines_max: int) -> Iterator[tuple[str, int]]:
    """Functions longer than `lines_max`, with their length."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            length = (node.end_lineno or node.lineno) - node.lineno + 1
            if length > lines_max:
                yield node.name, length


def _imports(tree: ast.Module) -> dict[str, str]:
    """Local name → dotted name. A name the module defines itself maps to itself, dotted away."""
    names: dict[str, str] = {}
    for node in ast.walk(tree):
        match node:
            case ast.Import():
                for alias in node.names:
                    first = alias.name.partition(".")[0]
                    names[alias.asname or first] = alias.name if alias.asname else first
            case ast.ImportFrom(module=str(module), level=0):
                for alias in node.names:
                    names[alias.asname or alias.name] = f"{module}.{alias.name}"
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                # A method called `open` does not hide the builtin; a function does.
                if node in tree.body:
                    names[name] = f"<module>.{name}"
    return names


def _names_used(node: ast.AST, imports: dict[str, str]) -> Iterator[str]:
    match node:
        case ast.Name(id=name, ctx=ast.Load()):
            yield imports.get(name, name)
        case ast.Attribute():
            dotted = _dotted(node, imports)
            if dotted is not None:
                yield dotted
        case ast.ImportFrom(module=str(module), level=0):
            for alias in node.names:
                yield f"{module}.{alias.name}"


def _dotted(node: ast.expr, imports: dict[str, str]) -> str | None:
    if isinstance(node, ast.Attribute):
        base = _dotted(node.value, imports)
        return None if base is None else f"{base}.{node.attr}"
    if isinstance(node, ast.Name):
        # A variable that only happens to be called `random` is no module.
        return imports.get(node.id)
    return None


def _matches(rule: Rule, name: str) -> bool:
    if name in rule.exempt:
        return False
    for pattern in rule.names:
        if pattern.endswith("*"):
            if name.startswith(pattern[:-1]):
                return True
        elif name == pattern:
            return True
    return False


def _allowed(rule: Rule, place: str) -> bool:
    return any(place.startswith(prefix) for prefix in rule.allowed)


def _path_method(node: ast.AST, imports: dict[str, str], path_names: set[str]) -> str | None:
    match node:
        case ast.Attribute(attr=method, value=value) if method in PATH_METHODS.names:
            return method if _is_path(value, imports, path_names) else None
    return None


def _is_path(node: ast.expr, imports: dict[str, str], path_names: set[str]) -> bool:
    match node:
        case ast.BinOp(op=ast.Div()) | ast.Attribute(attr="parent"):
            return True
        case ast.Call(func=ast.Attribute(attr=maker)) if maker in PATH_MAKERS:
            return True
        case ast.Call(func=function):
            return _dotted(function, imports) in ("pathlib.Path", "pathlib.Path.cwd")
        case ast.Name(id=name) | ast.Attribute(attr=name):
            if imports.get(name, "").startswith("pathlib."):
                return True
            return name in path_names or name.rpartition("_")[2] in PATH_WORDS
    return False


def _names_annotated_as_path(tree: ast.Module) -> set[str]:
    names: set[str] = set()
    for node in ast.walk(tree):
        match node:
            case ast.arg(arg=name, annotation=ast.expr() as annotation):
                pass
            case ast.AnnAssign(
                target=ast.Name(id=name) | ast.Attribute(attr=name), annotation=annotation
            ):
                pass
            case _:
                continue
        if any(part in ("Path", "Path | None") for part in ast.unparse(annotation).split(".")):
            names.add(name)
    return names


def _line(node: ast.AST) -> int:
    line: int = getattr(node, "lineno", 0)
    return line
