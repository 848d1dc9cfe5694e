"""The settings of a node: section `[node]`, and how options of the command line override them.

Defaults, then `lakebed.toml`, then the environment, then the options: each wins over those before.
What several settings say together is checked when all of them are known, so that a certificate of
the file and a key of an option make a pair.
"""

from __future__ import annotations

import dataclasses
import ipaddress
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Final, NamedTuple

from lakebed.base.config import (
    Value,
    bounded,
    check,
    construct,
    field_names,
    read_text,
    read_value,
    unknown,
)
from lakebed.base.errors import BadConfig
from lakebed.base.settings import Settings
from lakebed.base.units import GIB, KIB, shown
from lakebed.http.limits import Limits
from lakebed.http.tls import BadCertificate, TlsFiles
from lakebed.store import settings as store_settings
from lakebed.store.settings import NODE_SECTION

LOG_FORMATS: Final = ("console", "json")
LOG_LEVELS: Final = ("debug", "info", "warning", "error")
LOOPBACK: Final = "127.0.0.1"


@dataclass(frozen=True, kw_only=True)
class NodeConfig:
    """Configures a node: its ports, TLS, logs and metrics."""

    s3_host: str = LOOPBACK
    """Address of the S3 port."""
    s3_port: int = bounded(9000, minimum=0, maximum=65_535)
    """S3 port; 0: any free port."""
    http: bool = True
    """Serve the HTTP port: the API, `/metrics`, `/healthz`, `/readyz`."""
    http_host: str = LOOPBACK
    """Address of the HTTP port."""
    http_port: int = bounded(9001, minimum=0, maximum=65_535)
    """HTTP port; 0: any free port."""
    http_names: str = ""
    """Additional names of the node, such as a proxy's, separated by commas; `*`: any."""
    http_insecure: bool = False
    """Allow other machines to send access keys without TLS."""
    tls_cert: str = ""
    """Certificate for TLS on both ports. A path in the file is relative to the root."""
    tls_key: str = ""
    """Private key of the certificate."""
    rate_bytes_min: int = bounded(KIB, minimum=0, maximum=GIB)
    """Minimum bytes per second that a client sends or receives; 0: no minimum."""
    rate_grace_s: float = bounded(60.0, minimum=0.1, maximum=86_400.0)
    """How long a client can be slower than that before it is disconnected."""
    drain_s: float = bounded(30.0, minimum=0.0, maximum=86_400.0)
    """How long requests in progress can take at shutdown."""
    log_format: str = "console"
    """Format of log lines: `console` or `json`."""
    log_level: str = "info"
    """Minimum level of log lines: `debug`, `info`, `warning` or `error`."""
    access_log: bool = False
    """Log a line for every request, whatever the level."""
    metrics_public: bool = False
    """Serve `/metrics` to other machines without a key."""

    def __post_init__(self) -> None:
        check(self)
        _check_choice("log_format", self.log_format, LOG_FORMATS)
        _check_choice("log_level", self.log_level, LOG_LEVELS)
        for name in ("s3_host", "http_host"):
            if not getattr(self, name).strip():  # to the system that is every address there is
                raise BadConfig(f"{name} is empty: expected an address, as {LOOPBACK} or 0.0.0.0")

    def limits(self) -> Limits:
        """Of the connections of both ports."""
        return Limits(rate_bytes_min=self.rate_bytes_min, rate_grace_s=self.rate_grace_s)


class Option(NamedTuple):
    """A setting given on the command line; `origin` is how errors and listings call it."""

    section: str
    name: str
    value: Value | None  # None is not given
    origin: str
    is_text: bool = False  # still to be read


def node_settings(
    root: Path,
    *,
    environment: Mapping[str, str],
    options: Iterable[Option] = (),
    reads_certificate: bool = True,
) -> Settings:
    """All settings of the root and the node, each and together checked; `BadConfig`.

    Whoever reads the certificate anyway, by `tls_of`, need not have it read here.
    """
    sections = MappingProxyType({NODE_SECTION: NodeConfig})
    settings = store_settings.settings_of(root, environment=environment, more=sections)
    settings = _with_options(settings, options)
    check_exposure(settings)
    _check_ports(settings)
    if _has_tls(settings) and reads_certificate:
        tls_of(settings)
    return settings


def tls_of(settings: Settings) -> TlsFiles | None:
    """The certificate and its key, read; None if there are none."""
    if not _has_tls(settings):
        return None
    try:
        return TlsFiles(_path(settings, "tls_cert"), _path(settings, "tls_key"))
    except BadCertificate as error:
        raise BadConfig(f"{_place(settings, 'tls_cert')}: {error}") from error


def check_exposure(settings: Settings) -> None:
    """`BadConfig` if secrets would leave this machine in clear."""
    config = settings.config(NodeConfig)
    is_secure = bool(config.tls_cert and config.tls_key)
    if not config.http or is_secure or config.http_insecure or is_loopback(config.http_host):
        return
    raise BadConfig(
        f"{_place(settings, 'http_host')} {config.http_host}: without TLS access keys would be "
        "sent in clear: give --tls-cert and --tls-key, or --http-insecure if the network can be "
        "trusted"
    )


def is_loopback(host: str) -> bool:
    """Of a name only `localhost` is known to be."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def changed_names(before: NodeConfig, after: NodeConfig) -> list[str]:
    """The settings that differ."""
    names = field_names(NodeConfig)
    return [name for name in names if getattr(before, name) != getattr(after, name)]


def _with_options(settings: Settings, options: Iterable[Option]) -> Settings:
    """One after the other, so that the one that is refused is told."""
    configs, origins = dict(settings.configs), dict(settings.origins)
    for option in options:
        if option.value is None:
            continue
        section, name, where = option.section, option.name, option.origin
        before = configs[section]
        kind = type(before)
        values: dict[str, Value] = {one: getattr(before, one) for one in field_names(kind)}
        if name not in values:
            raise unknown(name, known=values, noun="setting", where=where)
        if option.is_text:
            values[name] = read_text(kind, name, str(option.value), where=where)
        else:
            values[name] = read_value(kind, name, option.value, where=where)
        configs[section] = construct(kind, values, where=where)
        origins[section, name] = where
    return dataclasses.replace(
        settings, configs=MappingProxyType(configs), origins=MappingProxyType(origins)
    )


def _check_choice(name: str, value: str, allowed: tuple[str, ...]) -> None:
    if value not in allowed:
        raise BadConfig(f"{name} = {shown(value)}: allowed are {', '.join(allowed)}")


def _has_tls(settings: Settings) -> bool:
    """`BadConfig` for half a pair."""
    config = settings.config(NodeConfig)
    if bool(config.tls_cert) == bool(config.tls_key):
        return bool(config.tls_cert)
    given = "tls_cert" if config.tls_cert else "tls_key"
    raise BadConfig(
        f"{_place(settings, given)}: a certificate and its key belong together: "
        "give both, or neither"
    )


def _check_ports(settings: Settings) -> None:
    config = settings.config(NodeConfig)
    is_same = config.http_port == config.s3_port and config.http_host == config.s3_host
    if config.http and is_same and config.s3_port:
        raise BadConfig(
            f"{_place(settings, 'http_port')} {config.http_port}: S3 is there already "
            f"({_place(settings, 's3_port')})"
        )


def _place(settings: Settings, name: str) -> str:
    """Where a setting of the node was said, and which one it is."""
    origin = settings.origins.get((NODE_SECTION, name), f"[{NODE_SECTION}] {name}")
    return f"{origin}: [{NODE_SECTION}] {name}" if origin == str(settings.file) else origin


def _path(settings: Settings, name: str) -> Path:
    """What the file says is relative to its folder, anything else to where the program runs."""
    path = Path(getattr(settings.config(NodeConfig), name))
    file = settings.file
    is_in_file = file is not None and settings.origins.get((NODE_SECTION, name)) == str(file)
    return file.parent / path if file is not None and is_in_file else path
