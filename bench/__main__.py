"""The command line of the benchmarks; `bench/__init__.py` says what they are."""

from __future__ import annotations

import argparse
import fnmatch
import importlib
import pkgutil
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import bench
from bench import machine, page, report, summary
from bench.harness import QUICK, Effort, Result, measure
from bench.row import Row
from lakebed import kernels

RESULTS = Path(__file__).parent / "results"


def main(arguments: Sequence[str] | None = None) -> int:
    options = _parser().parse_args(arguments)
    if options.summary:
        summary.write(options.summary)
        return 0
    if not kernels.COMPILED:
        print(
            "the compiled kernels are not in use, so figures would mean nothing: run"
            " `python -m lakebed.kernels.build`, and unset LAKEBED_KERNELS",
            file=sys.stderr,
        )
        return 1
    rows = [row for row in all_rows() if _is_wanted(row, options.patterns)]
    if not rows:
        print("no row has such a name; `--list` shows all", file=sys.stderr)
        return 64
    if options.list:
        print("\n".join(row.name for row in rows))
        return 0
    results = _measure_all(rows, QUICK if options.quick else Effort())
    facts = machine.facts()
    print(report.table(results), end="")
    path = report.write_json(results, facts, folder=options.results, name=options.name)
    print(f"written to {path}")
    if options.markdown:
        _write_page(options.markdown, results, facts, is_whole=not options.patterns)
    return 0


def all_rows() -> Iterator[Row]:
    """The rows of every module of this folder that has some."""
    for found in sorted(pkgutil.iter_modules(bench.__path__), key=lambda found: found.name):
        if found.name == "__main__":
            continue
        module = importlib.import_module(f"bench.{found.name}")
        if hasattr(module, "rows"):
            yield from module.rows()


def _is_wanted(row: Row, patterns: Sequence[str]) -> bool:
    """A pattern is a part of the name, or a whole one with `*` and `?`."""
    return not patterns or any(
        pattern in row.name or fnmatch.fnmatch(row.name, pattern) for pattern in patterns
    )


def _measure_all(rows: Sequence[Row], effort: Effort) -> list[Result]:
    results = []
    for number, row in enumerate(rows, 1):
        print(f"[{number}/{len(rows)}] {row.name}", file=sys.stderr)
        results.append(measure(row, effort))
    return results


def _write_page(
    path: Path, results: Sequence[Result], facts: dict[str, object], *, is_whole: bool
) -> None:
    if is_whole or not path.exists():
        text = report.markdown(results, facts)
    else:
        text = page.merged(path.read_text(encoding="utf-8"), results, facts)
    path.write_text(text, encoding="utf-8")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m bench", description=bench.__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("patterns", nargs="*", metavar="PATTERN", help="parts of rows' names")
    parser.add_argument("--quick", action="store_true", help="short turns: to see that it works")
    parser.add_argument("--list", action="store_true", help="only name the rows")
    parser.add_argument("--name", default=time.strftime("%Y-%m-%d-%H%M%S"), help="of the results")
    parser.add_argument("--results", type=Path, default=RESULTS, help="the folder for the JSON")
    parser.add_argument(
        "--markdown", type=Path, metavar="FILE", help="also write a docs page, or the rows in it"
    )
    parser.add_argument(
        "--summary",
        type=Path,
        metavar="FILE",
        help="measure nothing: put some rows of the docs page into this one",
    )
    return parser


if __name__ == "__main__":
    sys.exit(main())
