"""The demo's own claims: it finds what is missing, and says what it could not show."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from lakebed.base.errors import Corrupt, DiskError, LakebedError
from lakebed.node.demo import run, tour, verify, writer
from lakebed.node.demo.power_cut import PowerCut, cut_power_everywhere
from lakebed.node.demo.writer import Acknowledgement
from lakebed.store.store import Store

pytestmark = pytest.mark.thorough


def _written(root: Path, count: int) -> list[Acknowledgement]:
    with Store.open(root) as store:
        log = store.log(writer.log_name(0))
        done = [writer.append_batch(log, 0, 3, batch) for batch in range(count)]
    return [entry for entry in done if entry is not None]


def _checked(root: Path, ledger: list[Acknowledgement]) -> int:
    with Store.open(root) as store:
        return verify.check_acknowledged(store.log(writer.log_name(0)), ledger)


def _segment(root: Path) -> Path:
    (path,) = (root / "aof" / writer.log_name(0) / "segments").glob("*.seg")
    return path


def test_every_acknowledged_record_is_counted(tmp_path: Path) -> None:
    ledger = _written(tmp_path, 3)
    assert _checked(tmp_path, ledger) == 300
    scan = verify.scan_segment(str(_segment(tmp_path)))
    assert (scan.record_count, scan.payload_bytes, scan.stop) == (300, 30_000, "END")


def test_damage_is_noticed(tmp_path: Path) -> None:
    ledger = _written(tmp_path, 3)
    with _segment(tmp_path).open("r+b") as file:
        file.seek(230)  # in a payload
        file.write(b"\xff\xff")
    with pytest.raises(LakebedError):
        _checked(tmp_path, ledger)


def test_a_batch_that_is_not_what_was_acknowledged_is_noticed(tmp_path: Path) -> None:
    ledger = _written(tmp_path, 2)
    with pytest.raises(Corrupt, match="not there as it was"):
        _checked(tmp_path, [ledger[0]._replace(batch=1)])
    with pytest.raises(Corrupt, match="not there as it was"):
        _checked(tmp_path, [ledger[1]._replace(last=7)])
    with pytest.raises(LakebedError):
        _checked(tmp_path, [ledger[1]._replace(first=ledger[1].last + 1024)])


def test_a_ledger_line_cut_by_the_kill_is_no_acknowledgement() -> None:
    whole = Acknowledgement(1, 2, 3, 4, 5)
    assert Acknowledgement.parse(whole.line()) == whole
    for length in range(len(whole.line())):
        assert Acknowledgement.parse(whole.line()[:length]) is None


@pytest.mark.sweep
def test_power_cuts_are_really_tried() -> None:
    assert cut_power_everywhere(7) > 300
    assert PowerCut().ledger == []


def test_a_store_that_is_there_is_not_touched(tmp_path: Path) -> None:
    (tmp_path / "store").mkdir()
    (tmp_path / "store" / "precious").write_text("mine")
    with pytest.raises(DiskError, match="there already"):
        run(scratch=tmp_path, report=print, seed=1)
    assert (tmp_path / "store" / "precious").read_text() == "mine"


def test_killing_a_writer_in_the_middle_loses_nothing_acknowledged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tour, "ACKNOWLEDGED_COUNT", 20_000)
    lines: list[str] = []
    ledger, seconds = tour._write_and_kill(tmp_path / "store", lines.append)
    assert len(ledger) >= 200
    assert seconds > 0
    found, paths = tour._verify(tmp_path / "store", ledger, lines.append)
    assert found >= len(ledger) * writer.BATCH_COUNT
    assert len(paths) >= 2
    assert "killed with -9" in lines[0]


@pytest.mark.spark
def test_the_whole_tour_agrees_with_itself(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "lakebed.cli", "--json", "demo", "--scratch", str(tmp_path)],
        capture_output=True,
        text=True,
        check=False,
        timeout=240,
    )
    assert done.returncode == 0, done.stderr
    summary = json.loads(done.stdout)
    assert summary["records_found"] >= summary["records_acknowledged"] >= 500_000
    assert summary["simulated_crashes"] > 300
    assert summary["spark"]["records"] == summary["records_found"]
