"""A program that embeds a store, writes to it itself, and is killed at any moment.

    python -m tests.behaviour.writer_program ROOT LEDGER BEATS

What it was acknowledged is in the ledger, which is written through to the disk. It writes a byte to
the descriptor `BEATS` for each, and ends when its input does.
"""

from __future__ import annotations

import itertools
import os
import sys
from pathlib import Path

from lakebed.host.store import Store
from tests.behaviour.client_program import Ledger, is_told_to_end


def main(root: Path, ledger_path: Path, beats: int) -> None:
    ledger = Ledger(ledger_path, beats)
    with Store.open(root) as store:
        topic = store.topic("orders", partitions=2)
        print("ready", flush=True)
        for number in itertools.count():
            if is_told_to_end():
                return
            value = f"writer {os.getpid()} {number}"
            ledger.note("sends", value)
            topic.append_batch([value.encode()]).result()
            ledger.note("sent", value)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]))
