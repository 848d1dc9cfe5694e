"""Where bytes go that are not what they must be, before anything is done about them."""

from __future__ import annotations

import os

from lakebed.base.files.durable import make_folders, replace_atomically
from lakebed.base.files.protocol import Disk, PathLike
from lakebed.base.layout import Buffer


def save_in_quarantine(disk: Disk, folder: PathLike, name: str, data: Buffer) -> str:
    """Save them, durably; where. The same name for the same bytes, however often it is tried."""
    make_folders(disk, folder)
    target = os.path.join(os.fspath(folder), name)
    replace_atomically(disk, target, data)
    return target
