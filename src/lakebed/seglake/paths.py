"""Where a lake's files are, below the root of its store."""

from __future__ import annotations

import os

from lakebed.base.files import PathLike

DATABASE_NAME = "meta.db"
SECRET_KEY_NAME = "secret.key"  # noqa: S105 - a file's name


class LakePaths:
    def __init__(self, root: PathLike) -> None:
        self.root = os.fspath(root)
        self.segments = os.path.join(self.root, "objects", "segments")
        self.manifests = os.path.join(self.root, "objects", "manifests")
        self.database = os.path.join(self.root, DATABASE_NAME)
        self.secret_key = os.path.join(self.root, SECRET_KEY_NAME)
        self.traces = (self.database, self.segments)  # if none is there, no object ever was
        self.quarantine = os.path.join(self.root, "quarantine")
