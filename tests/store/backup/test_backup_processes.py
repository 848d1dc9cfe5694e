"""Programs that are killed in the middle of a backup or a restore, and run again."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from lakebed.base.errors import InputError
from lakebed.store.store import Store
from tests.store.backup.backups import back_up, check_whole, everything, vault_at, write_everything

pytestmark = pytest.mark.process

_BACK_UP = """
import os, signal, sys
from lakebed.base.runner import ThreadRunner
from lakebed.store.backup.create import create_backup
from lakebed.store.backup.vault import open_vault
from lakebed.store.read_only import ReadOnlyStore

root, folder, left = sys.argv[1], sys.argv[2], int(sys.argv[3])

def die(_done):
    global left
    left -= 1
    if not left:
        os.kill(os.getpid(), signal.SIGKILL)

with ReadOnlyStore(root) as store:
    vault = open_vault(folder, disk=store.disk, runner=store.runner)
    create_backup(store, vault, part_bytes=500_000, progress=die)
"""

_RESTORE = """
import os, signal, sys
from lakebed.base.runner import ThreadRunner
from lakebed.kernels.disk import real_disk
from lakebed.store.backup.restore import restore
from lakebed.store.backup.vault import open_vault

root, folder, left = sys.argv[1], sys.argv[2], int(sys.argv[3])

def die(_done, _total):
    global left
    left -= 1
    if not left:
        os.kill(os.getpid(), signal.SIGKILL)

with ThreadRunner() as runner:
    vault = open_vault(folder, disk=real_disk(), runner=runner)
    restore(vault, vault.snapshot(vault.snapshot_ids()[-1]), root, disk=real_disk(), progress=die)
"""


def killed(program: str, root: Path, folder: Path, left: int) -> int:
    done = subprocess.run(
        [sys.executable, "-c", program, str(root), str(folder), str(left)], check=False, timeout=120
    )
    return done.returncode


def test_what_is_killed_is_no_backup_and_the_next_one_goes_on(tmp_path: Path) -> None:
    root, folder = tmp_path / "root", tmp_path / "vault"
    write_everything(root)
    for left in (1, 12, 30):
        assert killed(_BACK_UP, root, folder, left) == -signal.SIGKILL
        assert vault_at(folder).snapshot_ids() == []
    copied = set(vault_at(folder).pool())
    assert copied
    pins = list((root / "pins").iterdir())
    assert pins  # they expire by themselves
    vault, taken = back_up(root, folder)
    assert copied <= set(taken.snapshot.parts())
    assert taken.put_count == len(set(taken.snapshot.parts()) - copied)
    for left in (1, 20, 40):
        assert killed(_RESTORE, tmp_path / "new", folder, left) == -signal.SIGKILL
        with pytest.raises(InputError, match="not finished"):
            Store.open(tmp_path / "new")
    assert killed(_RESTORE, tmp_path / "new", folder, -1) == 0
    check_whole(tmp_path / "new")
    assert everything(tmp_path / "new") == everything(root)
    assert vault.snapshot_ids() == [taken.snapshot.snapshot_id]
