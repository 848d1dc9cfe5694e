"""The paths of the object store's files below a store's root."""

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
        self.traces = (self.database, self.segments)  # if neither exists, no object was ever stored
        self.quarantine = os.path.join(self.root, "quarantine")
