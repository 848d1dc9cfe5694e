"""Logs with segments to move, for the tests of the commands about tiers.

Their Tier 2 is the folder of the root, whose objects are files to lose and to damage.
"""

from __future__ import annotations

from pathlib import Path

from tests.cli.in_process import Run

SETTINGS = """\
[aof]
segment_bytes = "64KiB"

[aof_tier2]
url = "tier2"
retry_ms_first = 1
"""
LINES = b"".join(b"line %05d %s\n" % (number, b"x" * (number % 300)) for number in range(1500))
SEALED = 5
"""So many segments the lines take, at 64 KiB, and all are sealed."""


def make_root(root: Path, *, more: str = "") -> None:
    root.mkdir()
    (root / "lakebed.toml").write_text(SETTINGS + more)


def write_segments(run: Run) -> None:
    """A log of sealed segments, and none that is open."""
    assert run("aof", "append", "orders", stdin=LINES).exit_code == 0
    assert run("aof", "seal", "orders").exit_code == 0


def tiers_of(run: Run) -> dict[int, str]:
    """As `0+1+2`, by segment."""
    found = run("aof", "tiers", "orders", as_json=True).document()["segments"]
    return {segment["segment_id"]: "+".join(map(str, segment["tiers"])) for segment in found}


def objects(root: Path) -> list[Path]:
    return sorted((root / "tier2").rglob("segment-*.zst"))


def warm_files(root: Path) -> list[Path]:
    return sorted((root / "aof" / "orders" / "warm").glob("*.zst"))


def flip(path: Path, offset: int) -> None:
    data = bytearray(path.read_bytes())
    data[offset] ^= 0x40
    path.write_bytes(data)
