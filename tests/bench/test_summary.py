"""The figures of the README are those of the docs page, and their rows are rows."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.__main__ import all_rows, main
from bench.summary import BEGIN, CHOSEN, END, PAGE, table, with_table

README = Path(__file__).parents[2] / "README.md"
TEXT = f"before\n{BEGIN}\nold\n{END}\nafter\n"
PAGE_TEXT = """\
| row | contestant | median | spread | ratio |
| --- | --- | ---: | ---: | ---: |
| s3/PUT 16 MiB | lakebed, embedded | 900 M bytes/s | 2% | 3 x |
| s3/PUT 16 MiB | lakebed | 280 M bytes/s | 2% | 0.472 x |
| s3/PUT 16 MiB | moto | 149 k bytes/s | 21% | 0.251 x |
| s3/PUT 16 MiB | rclone | 140 M bytes/s | 4% | 0.403 x |
| s3/PUT 16 MiB | s3rver | not run: no node |  |  |
| s3/PUT 16 MiB | limit: MD5 and BLAKE3 | 592 M bytes/s | 2% | baseline |
| another | lakebed | 1 rows/s | 2% | baseline |
"""


def test_the_readme_has_the_figures_of_the_page() -> None:
    text, page = README.read_text(encoding="utf-8"), PAGE.read_text(encoding="utf-8")
    assert text == with_table(text, page), "run `python -m bench --summary README.md`"


def test_every_chosen_row_is_measured() -> None:
    assert {*CHOSEN} <= {row.name for row in all_rows()}


def test_a_row_shows_the_fastest_peer_with_both_spreads_and_no_limits() -> None:
    assert table(PAGE_TEXT).splitlines()[2:] == [
        "| S3: PUT 16 MiB | 280 M bytes/s | 2% | 140 M bytes/s (rclone) | 4% | 2 x |"
    ]


def test_the_table_takes_the_place_of_the_one_before() -> None:
    once = with_table(TEXT, PAGE_TEXT)
    assert once == f"before\n{BEGIN}\n{table(PAGE_TEXT)}{END}\nafter\n"
    assert with_table(once, PAGE_TEXT) == once


def test_a_text_without_the_markers_is_refused() -> None:
    with pytest.raises(ValueError, match="markers"):
        with_table("no markers", PAGE_TEXT)


def test_a_row_without_a_peer_is_refused() -> None:
    ours = "\n".join(line for line in PAGE_TEXT.splitlines() if "lakebed" in line)
    with pytest.raises(ValueError, match="s3/PUT 16 MiB"):
        table(ours)


def test_the_command_writes_the_file(tmp_path: Path) -> None:
    path = tmp_path / "README.md"
    path.write_text(TEXT, encoding="utf-8")
    assert main(["--summary", str(path)]) == 0
    assert path.read_text(encoding="utf-8").startswith(f"before\n{BEGIN}\n| | Lakebed |")
