"""The quarantine: a folder where damaged bytes are saved before a repair changes their file."""

from __future__ import annotations

import os

from lakebed.base.files.durable import make_folders, replace_atomically
from lakebed.base.files.protocol import Disk, PathLike
from lakebed.base.layout import Buffer


def save_in_quarantine(disk: Disk, folder: PathLike, name: str, data: Buffer) -> str:
    """Saves the bytes durably as `folder/name`, replacing an earlier file, and returns the path."""
    make_folders(disk, folder)
    target = os.path.join(os.fspath(folder), name)
    replace_atomically(disk, target, data)
    return target
