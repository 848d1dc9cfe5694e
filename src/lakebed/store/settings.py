"""The sections of `lakebed.toml`, and the engines' configurations made of them.

A section is flat, and a log's configuration is not: `[aof]` has its plain settings, `[aof_flush]`
and `[aof_retention]` its parts.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import field
from pathlib import Path
from typing import Any, get_type_hints

from lakebed.aof.config import AofConfig, FlushConfig, RetentionConfig
from lakebed.base.commit import CommitConfig
from lakebed.base.config import check
from lakebed.base.settings import FILE_NAME, Sections, Settings, load_settings


def _plain_part(config: type[Any], name: str) -> type[Any]:
    """A class with the settings of `config` that are plain values: same defaults and limits.

    Its instances are refused if `config` would refuse the same values.
    """
    hints = get_type_hints(config)
    fields = [
        (item.name, hints[item.name], field(default=item.default, metadata=item.metadata))
        for item in dataclasses.fields(config)
        if hints[item.name] in (bool, int, float, str)
    ]

    def check_all(self: Any) -> None:
        check(self)
        config(**dataclasses.asdict(self))

    namespace = {"__post_init__": check_all, "__doc__": config.__doc__, "__module__": __name__}
    return dataclasses.make_dataclass(name, fields, frozen=True, kw_only=True, namespace=namespace)


AofSection = _plain_part(AofConfig, "AofSection")

SECTIONS: Sections = {
    "commit": CommitConfig,
    "aof": AofSection,
    "aof_flush": FlushConfig,
    "aof_retention": RetentionConfig,
}


def settings_of(root: Path, *, environment: Mapping[str, str]) -> Settings:
    """The settings of the root, checked; a missing file means the defaults."""
    return load_settings(SECTIONS, file=root / FILE_NAME, environment=environment)


def aof_config(settings: Settings) -> AofConfig:
    """How the root's logs are configured."""
    return AofConfig(
        **dataclasses.asdict(settings.configs["aof"]),
        flush=settings.config(FlushConfig),
        retention=settings.config(RetentionConfig),
    )
