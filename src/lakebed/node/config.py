"""The settings of a node: section `[node]`, and the command-line options that override it.

Later sources override earlier ones: defaults, `lakebed.toml`, the environment, options. Settings
that depend on each other are checked after all sources are read, so the certificate may be set in
the file and its key by an option.
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
    """The addresses, TLS files, limits and logs of a node."""

    s3_host: str = LOOPBACK
    """The address that the S3 endpoint listens on."""
    s3_port: int = bounded(9000, minimum=0, maximum=65_535)
    """The port of the S3 endpoint; 0 picks a free one."""
    http: bool = True
    """Whether the node serves the HTTP API, `/metrics`, `/healthz` and `/readyz` on a TCP port."""
    http_host: str = LOOPBACK
    """The address that the HTTP API listens on."""
    http_port: int = bounded(9001, minimum=0, maximum=65_535)
    """The port of the HTTP API; 0 picks a free one."""
    http_names: str = ""
    """Other names under which clients reach the HTTP API, such as that of a proxy, separated by
    commas. Without TLS, a request with an unknown name in its Host header is refused; `*` allows
    any name.
    """
    http_insecure: bool = False
    """Whether other machines may send access keys to the HTTP API without TLS."""
    tls_cert: str = ""
    """The certificate file, for TLS on both ports. A relative path in `lakebed.toml` starts at the
    root of the store.
    """
    tls_key: str = ""
    """The private key file of the certificate. A relative path is treated as in `tls_cert`."""
    rate_bytes_min: int = bounded(KIB, minimum=0, maximum=GIB)
    """The lowest rate, in bytes per second, at which clients may send and receive; 0 means no
    limit.
    """
    rate_grace_s: float = bounded(60.0, minimum=0.1, maximum=86_400.0)
    """How long a client may stay below `rate_bytes_min` before its connection is closed."""
    drain_s: float = bounded(30.0, minimum=0.0, maximum=86_400.0)
    """How long the node waits for running requests when it stops, before it cuts them off."""
    log_format: str = "console"
    """The format of log lines: `console` or `json`."""
    log_level: str = "info"
    """The lowest level that is logged: `debug`, `info`, `warning` or `error`."""
    access_log: bool = False
    """Whether requests to the two ports are logged, whatever `log_level` is."""
    metrics_public: bool = False
    """Whether `/metrics` is public: other machines need no access key for it."""

    def __post_init__(self) -> None:
        check(self)
        _check_choice("log_format", self.log_format, LOG_FORMATS)
        _check_choice("log_level", self.log_level, LOG_LEVELS)
        for name in ("s3_host", "http_host"):
            if not getattr(self, name).strip():  # an empty host would listen on every address
                raise BadConfig(
                    f"{name} is empty: expected an address, such as {LOOPBACK} or 0.0.0.0"
                )

    def limits(self) -> Limits:
        """Returns the limits for connections to both ports."""
        return Limits(rate_bytes_min=self.rate_bytes_min, rate_grace_s=self.rate_grace_s)


class Option(NamedTuple):
    """A setting from the command line; `origin` is the option's name in errors and listings."""

    section: str
    name: str
    value: Value | None  # None: the option was not given
    origin: str
    is_text: bool = False  # not parsed yet


def node_settings(
    root: Path,
    *,
    environment: Mapping[str, str],
    options: Iterable[Option] = (),
    reads_certificate: bool = True,
) -> Settings:
    """Returns all settings of the store and the node. Raises `BadConfig` if one is not valid.

    With `reads_certificate`, also checks that the certificate can be loaded. A caller that loads it
    with `tls_of` anyway does not need this.
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
    """Loads the certificate and its key, or returns None if TLS is not configured.

    Raises `BadConfig` if they cannot be loaded, or if only one of the two is set.
    """
    if not _has_tls(settings):
        return None
    try:
        return TlsFiles(_path(settings, "tls_cert"), _path(settings, "tls_key"))
    except BadCertificate as error:
        raise BadConfig(f"{_place(settings, 'tls_cert')}: {error}") from error


def check_exposure(settings: Settings) -> None:
    """Raises `BadConfig` if other machines could send access keys to the node in clear text, unless
    `http_insecure` allows that."""
    config = settings.config(NodeConfig)
    is_secure = bool(config.tls_cert and config.tls_key)
    if not config.http or is_secure or config.http_insecure or is_loopback(config.http_host):
        return
    raise BadConfig(
        f"{_place(settings, 'http_host')} {config.http_host}: without TLS, access keys would be "
        "sent in clear text: use --tls-cert and --tls-key, or --http-insecure if the "
        "network can be trusted"
    )


def is_loopback(host: str) -> bool:
    """Returns whether the host is a loopback address or `localhost`. Other names count as not
    loopback.
    """
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def changed_names(before: NodeConfig, after: NodeConfig) -> list[str]:
    """Returns the names of the settings that differ between the two configurations."""
    names = field_names(NodeConfig)
    return [name for name in names if getattr(before, name) != getattr(after, name)]


def _with_options(settings: Settings, options: Iterable[Option]) -> Settings:
    """Applies the options one by one, so that an error names the invalid option."""
    configs, origins = dict(settings.configs), dict(settings.origins)
    for option in options:
        if option.value is None:
            continue
        section, name, where = option.section, option.name, option.origin
        before = configs[section]
        kind = type(before)
        values: dict[str, Value] = {field: getattr(before, field) for field in field_names(kind)}
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
        raise BadConfig(f"{name} = {shown(value)}: expected one of {', '.join(allowed)}")


def _has_tls(settings: Settings) -> bool:
    """Returns whether TLS is configured. Raises `BadConfig` if only the certificate or only the
    key is set.
    """
    config = settings.config(NodeConfig)
    if bool(config.tls_cert) == bool(config.tls_key):
        return bool(config.tls_cert)
    given = "tls_cert" if config.tls_cert else "tls_key"
    raise BadConfig(
        f"{_place(settings, given)}: a certificate and its key belong together: "
        "set both, or neither"
    )


def _check_ports(settings: Settings) -> None:
    config = settings.config(NodeConfig)
    is_same = config.http_port == config.s3_port and config.http_host == config.s3_host
    if config.http and is_same and config.s3_port:
        raise BadConfig(
            f"{_place(settings, 'http_port')} {config.http_port}: the S3 endpoint uses this port "
            f"({_place(settings, 's3_port')}): set different ports"
        )


def _place(settings: Settings, name: str) -> str:
    """Returns where a setting of the node was set, and its name, for error messages."""
    origin = settings.origins.get((NODE_SECTION, name), f"[{NODE_SECTION}] {name}")
    return f"{origin}: [{NODE_SECTION}] {name}" if origin == str(settings.file) else origin


def _path(settings: Settings, name: str) -> Path:
    """Returns the path in a setting. A relative path is relative to the folder of `lakebed.toml` if
    it was set there, otherwise to the working folder.
    """
    path = Path(getattr(settings.config(NodeConfig), name))
    file = settings.file
    is_in_file = file is not None and settings.origins.get((NODE_SECTION, name)) == str(file)
    return file.parent / path if file is not None and is_in_file else path
