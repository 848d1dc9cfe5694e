"""The sections of `lakebed.toml`, and the engine configurations that are built from them.

Sections are flat, but the configuration of a log is nested: `[aof]` has its scalar settings, and
`[aof_flush]`, `[aof_retention]`, `[aof_manifest]` and `[aof_tiers]` have its nested parts.
`[aof_manager]` and `[aof_tier2]` have the settings that all logs share. `[keratin]` and `[stroma]`
apply where a topic or a group has no setting of its own, and `[s3]` has the settings of the object
store. `[node]` is read by the server (`lakebed.node`).
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Collection, Iterator, Mapping
from dataclasses import field
from pathlib import Path
from types import MappingProxyType
from typing import Any, get_type_hints

from lakebed.aof.config import AofConfig, FlushConfig, ManagerConfig, RetentionConfig
from lakebed.aof.identity import OWN_FOLDER, OWN_STORE
from lakebed.aof.manifest.config import ManifestConfig
from lakebed.aof.tiers.config import SharedTierConfig, TierConfig
from lakebed.base.config import check
from lakebed.base.errors import BadConfig
from lakebed.base.settings import FILE_NAME, Sections, Settings, load_settings
from lakebed.base.units import shown
from lakebed.keratin.config import TopicConfig
from lakebed.seglake.config import SeglakeConfig
from lakebed.stroma.config import GroupConfig

_ADDRESSES = ("s3://", "file:///", "/")


def _plain_part(config: type[Any], name: str) -> type[Any]:
    """Returns a dataclass with only the scalar settings of `config`, which is a dataclass too.

    They have the same defaults and limits, and the same values are refused.
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
    "aof": AofSection,
    "aof_flush": FlushConfig,
    "aof_retention": RetentionConfig,
    "aof_manifest": ManifestConfig,
    "aof_tiers": TierConfig,
    "aof_manager": ManagerConfig,
    "aof_tier2": SharedTierConfig,
    "keratin": TopicConfig,
    "stroma": GroupConfig,
    "s3": SeglakeConfig,
}

_LOG_SECTIONS = ("aof", "aof_flush", "aof_retention", "aof_manifest", "aof_tiers")

NODE_SECTION = "node"  # read by `lakebed.node`


def settings_of(
    root: Path, *, environment: Mapping[str, str], more: Sections = MappingProxyType({})
) -> Settings:
    """Loads and checks the settings of a root, from its `lakebed.toml` and `environment`.

    Variables in `environment` override the file; settings in neither have their defaults. `more`
    are additional sections of the caller. Raises `BadConfig` if a setting is not valid.
    """
    file = root / FILE_NAME
    settings = load_settings(
        {**SECTIONS, **more}, file=file, environment=environment, elsewhere=(NODE_SECTION,)
    )
    with _naming_origins(settings, _LOG_SECTIONS):
        aof_config(settings)  # checks limits that involve several sections
    with _naming_origins(settings, ("aof_tier2",)):
        _check_address(settings.config(SharedTierConfig))
    return settings


def aof_config(settings: Settings) -> AofConfig:
    """Returns the configuration of logs, combined from the sections that apply to one log."""
    return AofConfig(
        **dataclasses.asdict(settings.configs["aof"]),
        flush=settings.config(FlushConfig),
        retention=settings.config(RetentionConfig),
        manifest=settings.config(ManifestConfig),
        tiers=settings.config(TierConfig),
    )


@contextlib.contextmanager
def _naming_origins(settings: Settings, sections: Collection[str]) -> Iterator[None]:
    """Makes the message of a `BadConfig` begin with the origins of the settings of the sections.

    These are the file and the environment variables that set any of them.
    """
    try:
        yield
    except BadConfig as error:
        found = {where for (section, _), where in settings.origins.items() if section in sections}
        raise BadConfig(f"{', '.join(sorted(found))}: {error}") from None


def _check_address(config: SharedTierConfig) -> None:
    """Raises `BadConfig` unless the Tier 2 settings are valid.

    The address must not be relative to the working directory, because a log stores it and other
    processes use it later.
    """
    config.s3_options()
    is_own = config.url in ("", OWN_FOLDER, OWN_STORE)
    if not is_own and not config.url.startswith(_ADDRESSES):
        valid = f"s3://bucket/prefix, file:///folder, the absolute path of a folder, {OWN_FOLDER}"
        valid += f" or {OWN_STORE}"
        raise BadConfig(f"[aof_tier2] url = {shown(config.url)}: expected {valid}")
