"""The blocks of the pages run in order and print what the pages show.

Each page is followed in an empty folder of its own, with nothing prepared. Blocks that cannot run
are marked in the page, and `NOT_RUN` has the reason for each.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from lakebed.host.store import Store
from lakebed.node.config import node_settings
from tests.docs.blocks import MARKS, RUN, SHOWN, blocks, pages, text_of, without_blocks
from tests.docs.reader import Reader

SPARK_GUIDE = "docs/guides/spark.md"  # tests/spark/test_guide.py runs it, in one session
WITH_SPARK = {"docs/quick-start.md"}

NOT_RUN = {
    ("README.md", "pip install ."): "the tests marked `build` install the package",
    ("docs/coming-from/kafka.md", "kafka-topics.sh"): "needs a Kafka broker",
    ("docs/coming-from/kafka.md", "kcat"): "needs a Kafka broker",
    ("docs/coming-from/minio.md", "MINIO_ROOT_USER"): "needs MinIO",
    ("docs/coming-from/minio.md", "export RCLONE_CONFIG_MINIO"): "needs MinIO",
    ("docs/quick-start.md", "python3 -m venv"): "the tests marked `build` install the package",
    ("docs/guides/development.md", "make check"): "runs the tests",
    ("docs/guides/development.md", "LAKEBED_CASE="): "names a test that does not exist",
    ("docs/guides/operations.md", "sudo systemctl"): "needs systemd and root",
    (SPARK_GUIDE, "lakebed --root /srv/data serve"): "needs a cluster",
}
"""The reason, by page and the beginning of the block."""


def _after_http_api(reader: Reader) -> None:
    assert "True False True\n" in reader.printed
    assert (reader.folder / "head.bin").stat().st_size == 64
    assert (reader.folder / "openapi.json").read_bytes().startswith(b'{"openapi":"3.1')
    with Store.open(reader.folder / "data", read_only=True) as store:
        assert store.topic("jobs").group("work").lag() == {0: 1}


def _after_objects(reader: Reader) -> None:
    assert (reader.folder / "copy.txt").read_text(encoding="utf-8") == "hello\n"


AFTER: dict[str, Callable[[Reader], None]] = {
    "docs/guides/http-api.md": _after_http_api,
    "docs/guides/objects.md": _after_objects,
}


def _followed() -> list[object]:
    """All pages with something to run, except the one with its own test."""
    found = [page for page in pages() if any(block.is_run for block in blocks(text_of(page)))]
    return [
        pytest.param(page, marks=[pytest.mark.spark] if page in WITH_SPARK else [], id=page)
        for page in found
        if page != SPARK_GUIDE
    ]


@pytest.mark.process
@pytest.mark.timeout(900)
@pytest.mark.parametrize("page", _followed())
def test_what_a_page_shows_runs(page: str, tmp_path: Path) -> None:
    with Reader(tmp_path) as reader:
        reader.follow(blocks(text_of(page)))
        if page in AFTER:
            AFTER[page](reader)


def test_every_block_that_is_not_run_has_a_reason() -> None:
    left_out = [
        (page, block.text)
        for page in pages()
        for block in blocks(text_of(page))
        if block.language in RUN and not block.is_run
    ]
    found = [
        next((key for key in NOT_RUN if key[0] == page and text.startswith(key[1])), (page, text))
        for page, text in left_out
    ]
    assert sorted(found) == sorted(NOT_RUN)


@pytest.mark.parametrize("page", pages())
def test_no_block_hides_from_the_reader(page: str) -> None:
    text = text_of(page)
    for block in blocks(text):
        assert block.language in RUN | SHOWN, f"line {block.number}"
        assert block.mark in MARKS, f"line {block.number}"
        assert not block.mark or block.language == "sh", f"line {block.number}"
    rest = without_blocks(text)
    assert "```" not in rest, "a fence that is not closed, or not at the start of its line"
    assert not re.search(r"^\n(?: {4}|\t)\S", rest, re.MULTILINE), "code without a fence"


def test_the_test_of_the_spark_guide_takes_all_of_its_blocks() -> None:
    marks = {block.mark for block in blocks(text_of(SPARK_GUIDE)) if block.is_run}
    assert marks == {""}


def test_every_page_that_is_looked_at_afterwards_is_there() -> None:
    assert {*AFTER, *WITH_SPARK, SPARK_GUIDE} <= {*pages()}


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(block.text, id=f"{page}:{block.number}")
        for page in pages()
        for block in blocks(text_of(page))
        if block.language == "toml"
    ],
)
def test_settings_of_the_pages_are_settings(text: str, tmp_path: Path) -> None:
    (tmp_path / "lakebed.toml").write_text(text, encoding="utf-8")
    node_settings(tmp_path, environment={})
