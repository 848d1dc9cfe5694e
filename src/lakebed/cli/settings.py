"""The settings of a root, and of a node that serves it, as this process's environment has them."""

from __future__ import annotations

import os
from pathlib import Path

from lakebed.base.settings import Settings
from lakebed.node.config import node_settings


def settings_of(root: Path) -> Settings:
    """Checked, one by one and together; a missing file means the defaults."""
    return node_settings(root, environment=os.environ)
