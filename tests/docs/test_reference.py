"""`docs/reference/` matches the code and is complete."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from pathlib import Path

import pytest

import lakebed
from lakebed.api import problems, read_surface, surface
from lakebed.api.operation_table import OPERATIONS
from lakebed.base.config import field_names
from lakebed.cli.command_groups import GROUPS
from lakebed.s3.absent_configuration import GetAbsentConfiguration
from lakebed.s3.router import ROUTES, VERBS
from lakebed.s3.unsupported import SUBRESOURCES
from tools.reference import command_line, configuration, formats, metrics, python, s3
from tools.reference.pages import PAGES

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src"
FOLDER = ROOT / "docs" / "reference"
_KINDS = ("counter", "gauge", "histogram")


@cache
def _page(name: str) -> str:
    return PAGES[name]()


@pytest.mark.parametrize("name", PAGES)
def test_a_page_is_up_to_date(name: str) -> None:
    path = FOLDER / name
    written = path.read_text(encoding="utf-8") if path.exists() else ""
    assert written == _page(name), f"docs/reference/{name} is out of date: run `make reference`"


def test_there_are_no_other_pages_and_each_is_linked() -> None:
    assert {path.name for path in FOLDER.iterdir()} == set(PAGES)
    index = (ROOT / "docs" / "README.md").read_text(encoding="utf-8")
    assert all(f"(reference/{name})" in index for name in PAGES)


def test_the_terminal_changes_no_page(monkeypatch: pytest.MonkeyPatch) -> None:
    before = _page("command-line.md")
    monkeypatch.setenv("COLUMNS", "30")
    monkeypatch.setenv("TERM", "dumb")
    monkeypatch.setenv("NO_COLOR", "1")
    assert command_line.page() == before


@pytest.mark.parametrize("name", PAGES)
def test_links_within_a_page_lead_to_a_heading(name: str) -> None:
    text = re.sub(r"```.*?```", "", _page(name), flags=re.DOTALL)
    headings = re.findall(r"^#+ (.*)$", text, flags=re.MULTILINE)
    anchors = Counter(re.sub(r"[^\w\- ]", "", one.lower()).replace(" ", "-") for one in headings)
    linked = set(re.findall(r"\]\(#([^)]*)\)", text))
    assert {one: anchors[one] for one in linked} == dict.fromkeys(linked, 1)


def test_every_setting_is_described_by_a_sentence() -> None:
    for section, config in configuration.ALL_SECTIONS.items():
        _, _, rest = _page("configuration.md").partition(f"## `[{section}]`\n")
        here = rest.partition("\n## ")[0]
        rows = re.findall(r"^\| `(\w+)` \|.*\| ([^|]*) \|$", here, re.MULTILINE)
        assert [name for name, _ in rows] == list(field_names(config))
        assert [name for name, text in rows if not text.endswith(".")] == []


def test_every_command_and_option_is_described() -> None:
    text = _page("command-line.md")
    for command in command_line.commands():
        heading = command.name if len(command.path) > 1 else "The program"
        _, found, rest = text.partition(f"# {heading}\n")
        assert found, command.name
        described = rest.partition("\n## ")[0].partition("\n### ")[0]
        for parameter in command.node.params:
            assert parameter.help, f"{command.name}: {parameter.name}"
            is_option = parameter.param_type_name == "option"
            assert not is_option or set(parameter.opts) <= set(re.findall(r"--?[\w-]+", described))
        assert command.is_group or command_line.examples(command), f"{command.name}: no example"


def test_the_guide_names_every_group() -> None:
    guide = (ROOT / "docs" / "guides" / "command-line.md").read_text(encoding="utf-8")
    assert [one.name for one in GROUPS if f"`lakebed {one.name}`" not in guide] == []


def test_everything_that_is_counted_is_exported() -> None:
    known = {
        name
        for _, _, snapshot in metrics.engine_counts()
        for name in (*snapshot.counters, *snapshot.gauges, *snapshot.histograms)
    }
    text = _page("metrics.md")
    for pattern in _counted():
        matching = [name for name in known if re.fullmatch(pattern, name)]
        assert matching, f"{pattern} is counted, and not in a store where each engine is open"
        assert all(f"`{name}`" in text for name in matching)


def _counted() -> Iterator[str]:
    """The names that the source gives to counters, as patterns."""
    for path in SOURCE.rglob("*.py"):
        text = path.read_text(encoding="utf-8")
        if not any(f".{kind}(" in text for kind in _KINDS):
            continue
        for node in ast.walk(ast.parse(text)):
            match node:
                case ast.Call(func=ast.Attribute(attr=kind), args=[ast.Constant(value=str(name))]):
                    if kind in _KINDS:
                        yield re.escape(name)
                case ast.Call(func=ast.Attribute(attr=kind), args=[ast.JoinedStr(values=parts)]):
                    if kind in _KINDS and path.parent.name != "http_api":
                        yield "".join(map(_pattern, parts))


def _pattern(part: ast.expr) -> str:
    return re.escape(str(part.value)) if isinstance(part, ast.Constant) else r"\w+"


def test_no_layout_of_the_source_is_missing() -> None:
    declared = set()
    for path in (SOURCE / "lakebed").rglob("*.py"):
        text = path.read_text(encoding="utf-8")
        if not re.search(r"^from lakebed.base.layout import .*\bLayout\b", text, re.MULTILINE):
            continue
        module = ".".join(path.relative_to(SOURCE).with_suffix("").parts)
        names = re.findall(r"^(\w+)(?::[^=]*)? = Layout\(", text, re.MULTILINE)
        assert len(names) == text.count(" = Layout("), f"{module}: a layout within something else"
        declared |= {(module, name) for name in names}
    described = {
        (module, name)
        for module in formats.MODULES
        for name, _ in formats.layouts(import_module(module))
    }
    assert described == declared
    assert all(f"### {name}\n" in _page("formats.md") for _, name in declared)


def test_what_the_s3_router_serves_is_listed_as_served() -> None:
    judged = {asked.name: s3.verdict(asked) for asked in s3.operations()}
    served = {name for name, verdict in judged.items() if verdict.state == s3.SERVED}
    assert served == {verb.operation.__name__ for verb in VERBS}


def test_other_s3_operations_are_refused_and_never_mistaken_for_another() -> None:
    judged = {asked.name: (asked, s3.verdict(asked)) for asked in s3.operations()}
    named = {name for asked, _ in judged.values() for name in asked.parameters}
    assert named >= SUBRESOURCES
    assert {judged[name][1].state for name in ("PutObjectAcl", "SelectObjectContent")} == {
        s3.REFUSED
    }
    absent = [asked for asked, verdict in judged.values() if verdict.state == s3.NONE]
    assert {name for asked in absent for name in asked.parameters} == {
        verb.place.subresource
        for verb in ROUTES.values()
        if verb.operation is GetAbsentConfiguration
    }
    taken_for_another = {name for name, (_, one) in judged.items() if one.state == s3.NOT_THERE}
    assert taken_for_another == {"ListDirectoryBuckets"}


def test_every_call_and_every_error_of_the_http_api_is_described() -> None:
    text = _page("http.md")
    for operation in OPERATIONS:
        path = operation.path.replace("*}", "}")
        assert f"### {operation.name}\n\n`{operation.method} {path}`: " in text
    errors = text.partition("\n## Errors\n")[2]
    assert set(re.findall(r"^\| `([\w-]+)` \|", errors, re.MULTILINE)) == set(problems._kinds())


def test_the_python_page_describes_every_public_name() -> None:
    text = _page("python.md")
    index, _, described = text.partition("\n## Opening a store\n")
    for name in lakebed.__all__:
        assert f"`lakebed.{name}`" in index
        is_described = f"### {name}\n" in described or f"- `{name}`: " in described
        assert is_described or f"### lakebed.{name}" in described or name == "__version__"


def test_the_python_page_describes_every_protocol_with_its_members() -> None:
    declared = {
        kind
        for module in (surface, read_surface)
        for kind in vars(module).values()
        if isinstance(kind, type) and kind.__module__ == module.__name__
    }
    bases = {base for protocol in python.PROTOCOLS for base in protocol.__mro__}
    assert declared == {kind for kind in bases if kind in declared}
    for protocol in python.PROTOCOLS:
        section = _page("python.md").partition(f"### {protocol.__name__}\n")[2].partition("\n#")[0]
        names = {name for name in dir(protocol) if not name.startswith("_")}
        assert names
        assert names == set(re.findall(r"^- `(\w+)", section, re.MULTILINE))


def test_every_public_class_and_every_protocol_has_a_docstring() -> None:
    public = [getattr(lakebed, name) for name in lakebed.__all__ if name != "__version__"]
    assert [one for one in (*public, *python.PROTOCOLS) if not one.__doc__] == []
