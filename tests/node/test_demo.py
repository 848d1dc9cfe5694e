"""The demo's own claims: it finds what is missing, and says what it could not show."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from lakebed.base.errors import Corrupt, DiskError
from lakebed.kernels.disk import real_disk
from lakebed.node.demo import run, tour, verify, writer
from lakebed.node.demo.power_cut import PowerCut, cut_power_everywhere
from lakebed.node.demo.writer import Acknowledgement


def _file_with_batches(folder: Path, count: int) -> tuple[str, list[Acknowledgement]]:
    path = writer.file_path(folder, 0)
    ledger: list[Acknowledgement] = []
    end = 0
    with real_disk().create(path) as file:
        for batch in range(count):
            data = writer.encode_batch(0, 3, batch, timestamp=1)
            file.pwrite(end, data)
            ledger.append(Acknowledgement(0, 3, batch, end, len(data)))
            end += len(data)
    return path, ledger


def test_every_acknowledged_record_is_counted(tmp_path: Path) -> None:
    path, ledger = _file_with_batches(tmp_path, 3)
    assert verify.check_acknowledged(real_disk(), path, ledger) == 300
    scan = verify.scan_file(path)
    assert (scan.record_count, scan.payload_bytes, scan.stop) == (300, 30_000, "END")


def test_a_lost_batch_is_noticed(tmp_path: Path) -> None:
    path, ledger = _file_with_batches(tmp_path, 3)
    with real_disk().open(path, writable=True) as file:
        file.truncate(ledger[2].offset)
    with pytest.raises(Corrupt, match="an acknowledged batch is lost"):
        verify.check_acknowledged(real_disk(), path, ledger)


def test_a_batch_cut_in_the_middle_is_noticed(tmp_path: Path) -> None:
    path, ledger = _file_with_batches(tmp_path, 3)
    with real_disk().open(path, writable=True) as file:
        file.truncate(file.size() - 200)
    with pytest.raises(Corrupt, match="cut, expected 100 records, found 98"):
        verify.check_acknowledged(real_disk(), path, ledger)


def test_a_batch_in_anothers_place_is_noticed(tmp_path: Path) -> None:
    path, ledger = _file_with_batches(tmp_path, 2)
    swapped = [ledger[0]._replace(batch=1)]
    with pytest.raises(Corrupt, match="lost"):
        verify.check_acknowledged(real_disk(), path, swapped)


def test_a_ledger_line_cut_by_the_kill_is_no_acknowledgement() -> None:
    whole = Acknowledgement(1, 2, 3, 4, 5)
    assert Acknowledgement.parse(whole.line()) == whole
    for length in range(len(whole.line())):
        assert Acknowledgement.parse(whole.line()[:length]) is None


def test_power_cuts_are_really_tried() -> None:
    assert cut_power_everywhere(7) > 500
    assert PowerCut().ledger == []


def test_a_folder_with_something_in_it_is_refused(tmp_path: Path) -> None:
    (tmp_path / "records").mkdir()
    (tmp_path / "records" / "precious").write_text("mine")
    with pytest.raises(DiskError, match="not empty"):
        run(scratch=tmp_path, report=print, seed=1)
    assert (tmp_path / "records" / "precious").read_text() == "mine"


def test_killing_a_writer_in_the_middle_loses_nothing_acknowledged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tour, "ACKNOWLEDGED_COUNT", 20_000)
    lines: list[str] = []
    ledger, seconds = tour._write_and_kill(tmp_path, lines.append)
    assert len(ledger) >= 200
    assert seconds > 0
    assert tour._verify(tmp_path, ledger, lines.append) >= len(ledger) * writer.BATCH_COUNT
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
    assert summary["simulated_crashes"] > 500
    assert summary["spark"]["records"] == summary["records_found"]
