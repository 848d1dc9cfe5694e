"""The JSON that each command prints, byte for byte: scripts of programs rely on it.

`tests/golden/cli/*.txt` has every command of a script with its exit code and its document; what is
another one in each run is a word in angle brackets. A golden file is only ever added to by a new
command, never changed.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest

from tests.cli.beside import Step, played
from tests.cli.in_process import Run, runner
from tests.cli.test_everywhere_the_same import SCRIPTS
from tests.cli.test_reading_everywhere import COMMANDS, fill

LINES_MAX: Final = 120  # of a command
GOLDEN: Final = Path(__file__).parent.parent / "golden" / "cli"

_CHANGING: Final = [
    (re.compile(pattern), word)
    for pattern, word in (
        (rb'"(stream_id|segment_crc64|etag)": "[0-9a-f]{16,32}(-\d+)?"', rb'"\1": "<hex>"'),
        (rb"etag [0-9a-f]{16,32}(-\d+)?", b"etag <hex>"),
        (rb"\b\d{8}T\d{9}Z-[0-9a-f]{8}\b", b"<snapshot>"),
        (rb'("ratio": )[\d.]+', rb"\1<ratio>"),
        (rb"crc [0-9a-f]{16}", b"crc <hex>"),
        (rb'("(?:after_ms|opened_ms|pid|process_id)": )\d+', rb"\1<number>"),
        (
            rb'("[a-z_]*(?:file_bytes|compressed_bytes|snapshot_bytes|delta_bytes)": )\d+',
            rb"\1<size>",
        ),
        (rb"uploaded: [^,\"]*", b"uploaded: <key>"),
        (rb"compressed: \d+ B", b"compressed: <size>"),
        (rb"/manifest/[0-9a-f]{16}/", b"/manifest/<stream>/"),
        (rb'("(?:copied_parts|copied_bytes|parts)": )[1-9]\d*', rb"\1<number>"),
        (rb'"program": "[^"]*"', b'"program": "<version>"'),
        # Sentences for people, which other parts of the program write.
        (rb'("(?:message|problem)": )"(?:[^"\\]|\\.)*"', rb'\1"<sentence>"'),
        (rb'("problems": \[\n +)"(?:[^"\\]|\\.)*"', rb'\1"<sentence>"'),
    )
]

_LEASES: Final = COMMANDS.index("group dead-letters jobs failing")  # a lease ends at another time
READING = (
    fill,
    [
        Step(command)
        for command in (*COMMANDS[:_LEASES], "group leases jobs work", *COMMANDS[_LEASES:])
    ],
)
STORE = [
    Step("backup backups"),
    Step("backup backups --keep 1"),
    Step("backup backups --list"),
    Step("backup backups --verify"),
    Step("backup backups --list --verify"),
    Step("restore backups --root again"),
    Step("restore backups --root again"),
    Step("verify --root again --no-tier2"),
    Step("config check"),
    Step("completion bash"),
    Step("completion tcsh"),
    Step("aof convert orders 1 --to interchange --output out --lossy"),
    Step("aof cat orders --archived --max 1"),
    Step("aof repair orders --tier2 --dry-run"),
    Step("verify --mark"),
    Step("s3 get photos/2025/city.txt city.txt"),
    Step("nothing"),
    Step("topic nothing"),
    Step("topic create"),
]
ALL: dict[str, tuple[Callable[[Path], None], list[Step]]] = {
    **SCRIPTS,
    "reading": READING,
    "store": (fill, STORE),
}


@pytest.mark.parametrize("script", ALL)
def test_the_documents_of_a_script_are_the_golden_ones(
    script: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsysbinary: pytest.CaptureFixture[bytes],
) -> None:
    monkeypatch.chdir(tmp_path)
    root = Path("root")
    prepare, steps = ALL[script]
    prepare(root)
    run: Run = runner(root, monkeypatch, capsysbinary)
    found = played(run, (step._replace(as_json=True) for step in steps), root)
    text = b"\n".join(
        b"$ %s\n%d\n%s%s" % (command.encode(), exit_code, unchanging(out), unchanging(err))
        for command, exit_code, out, err in found
    )
    path = GOLDEN / f"{script}.txt"
    assert text.decode().splitlines() == path.read_text(encoding="utf-8").splitlines()


def unchanging(text: bytes) -> bytes:
    text = b"".join(text.splitlines(keepends=True)[:LINES_MAX])
    for pattern, word in _CHANGING:
        text = pattern.sub(word, text)
    return text
