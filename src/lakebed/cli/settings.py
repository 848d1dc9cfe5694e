"""The settings of one root, as this process's environment overrides them."""

from __future__ import annotations

import os
from pathlib import Path

from lakebed.base.settings import Settings
from lakebed.store import settings


def settings_of(root: Path) -> Settings:
    """The settings of the root, checked; a missing file means the defaults."""
    return settings.settings_of(root, environment=os.environ)
