"""Which sections `lakebed.toml` may have, and the settings of one root."""

from __future__ import annotations

import os
from pathlib import Path

from lakebed.base.commit import CommitConfig
from lakebed.base.settings import FILE_NAME, Sections, Settings, load_settings

SECTIONS: Sections = {"commit": CommitConfig}


def settings_of(root: Path) -> Settings:
    """The settings of the root, checked; a missing file means the defaults."""
    return load_settings(SECTIONS, file=root / FILE_NAME, environment=os.environ)
