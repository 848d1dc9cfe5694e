"""The docs page: a whole run makes it anew, a run of some rows puts them in the place of the old.

    python -m bench --markdown docs/benchmarks.md            # all rows: a new page
    python -m bench --markdown docs/benchmarks.md http-api/      # these rows; the others stay

Which rows were measured later than the rest, and at which revision, stands above the table.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from bench.harness import Result
from bench.report import markdown

_LATER = re.compile(r"^- later, at (\S+): (.*)$", re.MULTILINE)
_ROW_NAME = re.compile(r"^\| (\S+/[^|]*) \| ", re.MULTILINE)
_REVISION = "- revision: "


def merged(page: str, results: Sequence[Result], facts: Mapping[str, object]) -> str:
    """The page with the rows of these results, each where it was, or else at the end."""
    fresh = markdown(results, dict(facts))
    named = [result.row.name for result in results]
    lines = [line for line in page.splitlines() if not _LATER.match(line)]
    for name in named:
        lines = _with_row(lines, name, fresh)
    for note in _notes(fresh):
        lines.append(note)
    at = next((index for index, line in enumerate(lines) if line.startswith(_REVISION)), 0) + 1
    lines[at:at] = _later(page, named, str(facts.get("revision") or "an unknown revision"))
    return "\n".join(lines) + "\n"


def _with_row(lines: list[str], name: str, fresh: str) -> list[str]:
    """Its old lines and its note are gone, and its new ones stand there."""
    new = [line for line in fresh.splitlines() if line.startswith(f"| {name} | ")]
    old = [index for index, line in enumerate(lines) if line.startswith(f"| {name} | ")]
    ends = [index + 1 for index, line in enumerate(lines) if line.startswith("| ")]
    at = old[0] if old else ends[-1]
    before, after = lines[:at], lines[at + len(old) :]
    return [line for line in (*before, *new, *after) if not line.startswith(f"- {name}: ")]


def _notes(fresh: str) -> list[str]:
    """What stands below the table."""
    return fresh.rpartition("|\n")[2].strip().splitlines()


def _later(page: str, named: Sequence[str], revision: str) -> list[str]:
    """Kinds of rows, or rows if not all of a kind, by the revision of their last measurement."""
    rows = {*named, *_ROW_NAME.findall(page)}
    kinds = {_kind(name) for name in named}
    whole = {kind for kind in kinds if all(one in named for one in rows if _kind(one) == kind)}
    new = sorted({*whole, *(name for name in named if _kind(name) not in whole)})
    told: dict[str, list[str]] = {}
    for earlier, text in _LATER.findall(page):
        kept = (one for one in text.split("; ") if one not in new and _kind(one) not in whole)
        told[earlier] = list(kept)
    told[revision] = sorted({*told.get(revision, []), *new})
    return [f"- later, at {at}: {'; '.join(found)}" for at, found in told.items() if found]


def _kind(name: str) -> str:
    return name.partition("/")[0] + "/"
