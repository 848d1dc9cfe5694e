"""Which implementation the package picks, and what it says about it."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from lakebed.kernels import build
from tests.kernels.samples import Kernels, run_python

REPORT = "import lakebed.kernels as k; print(k.COMPILED, k.aof_encode.__module__, k.features())"
HIDE = "import sys; sys.modules['lakebed.kernels._compiled'] = None; "


def run(code: str, wanted: str = "") -> subprocess.CompletedProcess[str]:
    return run_python("-c", code, LAKEBED_KERNELS=wanted)


def test_the_compiled_kernels_are_taken_if_they_are_there(compiled: Kernels) -> None:
    done = run(REPORT)
    assert done.stdout.startswith("True lakebed.kernels._compiled")
    assert done.stderr == ""


def test_the_reference_is_taken_when_asked_for_without_a_word() -> None:
    done = run(REPORT, "reference")
    assert done.stdout == "False lakebed.kernels.reference ()\n"
    assert done.stderr == ""


def test_the_reference_is_imported_without_a_word_if_nothing_is_compiled() -> None:
    done = run(HIDE + REPORT + "; print(k.MISSING_REASON)")
    assert done.stdout.startswith("False lakebed.kernels.reference ()\nimport of")
    assert done.stderr == ""


OPEN_TWICE = "from lakebed.kernels.disk import real_disk; real_disk(); real_disk()"


def test_the_first_disk_reports_once_what_missing_kernels_cost() -> None:
    done = run(HIDE + OPEN_TWICE)
    assert done.returncode == 0
    (line,) = done.stderr.splitlines()
    assert line.startswith("the compiled kernels are not installed")
    assert "slower (10 to 40 times on small records" in line
    assert "C compiler" in line


@pytest.mark.parametrize("wanted", ["compiled", "reference"])
def test_nothing_is_reported_of_kernels_that_were_chosen(compiled: Kernels, wanted: str) -> None:
    done = run(OPEN_TWICE, wanted)
    assert (done.returncode, done.stderr) == (0, "")


def test_missing_kernels_are_an_event_with_its_facts() -> None:
    listen = "import logging; h = logging.Handler(); h.emit = lambda r: print(r.event, *r.facts); "
    listen += "logging.getLogger().addHandler(h); "
    done = run(HIDE + listen + OPEN_TWICE)
    assert (done.stdout, done.stderr) == ("kernels_not_compiled cost remedy reason\n", "")


def test_one_that_was_made_from_older_sources_is_as_good_as_none() -> None:
    old = "import sys, types; name = 'lakebed.kernels._compiled'; "
    old += "sys.modules[name] = types.ModuleType(name); sys.modules[name].__file__ = 'old.so'; "
    done = run(old + REPORT)
    assert done.stdout == "False lakebed.kernels.reference ()\n"
    reported = run(old + OPEN_TWICE)
    assert "old.so is out of date and must be rebuilt: it has no aof_batch" in reported.stderr
    assert "out of date" in run(old + REPORT, "compiled").stderr


def test_absence_is_an_error_if_the_compiled_kernels_are_asked_for() -> None:
    done = run(HIDE + REPORT, "compiled")
    assert done.returncode == 1
    assert (
        "ImportError: LAKEBED_KERNELS=compiled, but the compiled kernels are missing" in done.stderr
    )


def test_an_unknown_choice_is_an_error() -> None:
    assert "set it to 'compiled' or 'reference'" in run(REPORT, "fast").stderr


@pytest.mark.parametrize("wanted", ["compiled", "reference"])
def test_no_package_is_needed_for_a_crc(compiled: Kernels, wanted: str) -> None:
    hide = "import sys; sys.modules['awscrt'] = sys.modules['crc32c'] = None; "
    sums = "import lakebed.kernels as k; print(hex(k.crc32c(b'figs')), hex(k.crc64nvme(b'figs')))"
    assert run(hide + sums, wanted).stdout == "0xd3a98e15 0x762daccad90c3e06\n"


def test_features_can_be_limited_to_what_the_cpu_has(compiled: Kernels) -> None:
    before = compiled.features()
    assert set(before) <= set(compiled.features_available())
    with pytest.raises(ValueError, match="not available"):
        compiled.set_features(["avx-1024"])
    compiled.set_features([])
    assert compiled.features() == ()
    compiled.set_features(before)


def test_the_compiled_kernels_are_made_from_these_sources(compiled: Kernels) -> None:
    assert build.stale_reason() == ""
    assert build.main(["--check"]) == 0


def test_a_changed_source_makes_them_stale(
    compiled: Kernels, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(build, "source_hash", lambda: "of other sources")
    assert build.main(["--check"]) == 1
    assert "not made from these sources" in capsys.readouterr().out


def test_the_generated_header_holds_every_offset_of_the_layouts() -> None:
    header = build.constants_header()
    assert "#define AOF_RECORD_EXT_ID_OFFSET UINT64_C(0x10)" in header
    assert "#define KERATIN_RECORD_OFFSET_OFFSET UINT64_C(0x18)" in header
    assert "#define KERATIN_MAGIC UINT64_C(0x4b52)" in header
    assert build.source_hash() in header


@pytest.mark.parametrize("command", [["verify"], ["backup", "copy"]])
def test_commands_that_hide_the_log_of_the_store_report_missing_kernels(
    tmp_path: Path, command: list[str]
) -> None:
    root = str(tmp_path / "root")
    made = run(f"import lakebed\nwith lakebed.Store.open({root!r}) as store: store.log('orders')")
    assert made.returncode == 0
    command = [str(tmp_path / word) if word == "copy" else word for word in command]
    arguments = ["lakebed", "--root", root, *command]
    main = f"import sys; sys.argv = {arguments!r}; from lakebed.cli.main import main; main()"
    done = run(HIDE + main)
    assert done.returncode == 0
    assert "the compiled kernels are not installed" in done.stderr
