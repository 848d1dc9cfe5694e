"""`lakebed serve`: serves a store over S3 and HTTP until a signal stops it."""

from __future__ import annotations

import errno
import os
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from lakebed.cli.invocation import Invocation, invocation
from lakebed.cli.output import flush
from lakebed.cli.report import Part, Rows, Text, Value

# The engines are imported by the command: the help needs none of them.
if TYPE_CHECKING:
    from lakebed.base.settings import Settings
    from lakebed.node.config import Option
    from lakebed.node.node import Ready

app = typer.Typer(add_completion=False, rich_markup_mode=None)

# Options that are not given are taken from the settings: section [node].
S3Port = Annotated[
    int | None,
    typer.Option(
        min=0,
        max=65535,
        metavar="PORT",
        help="The port for S3; 0 selects a free port. Default: the setting s3_port, or 9000.",
    ),
]
S3Host = Annotated[
    str | None,
    typer.Option(
        metavar="HOST",
        help="The address on which to serve S3. Default: the setting s3_host, or 127.0.0.1.",
    ),
]
HttpPort = Annotated[
    int | None,
    typer.Option(
        min=0,
        max=65535,
        metavar="PORT",
        help="The port for the HTTP API; 0 selects a free port. Default: the setting http_port, or "
        "9001.",
    ),
]
HttpHost = Annotated[
    str | None,
    typer.Option(
        metavar="HOST",
        help="The address on which to serve the HTTP API. Default: the setting http_host, or "
        "127.0.0.1. If other machines can reach it, TLS or --http-insecure is needed.",
    ),
]
HttpNames = Annotated[
    str | None,
    typer.Option(
        metavar="NAMES",
        help="Further host names under which clients reach the HTTP API, such as that of a proxy, "
        "separated by commas; * allows any name. Without TLS, the Host header of a request must "
        "be one of these names, localhost or a name that ends with .localhost, this machine's host "
        "name, --http-host or an IP address. Default: the setting http_names, or none.",
    ),
]
Http = Annotated[
    bool | None,
    typer.Option(
        "--http/--no-http",
        help="Whether to serve the HTTP API on a TCP port. Default: the setting http, or yes.",
    ),
]
HttpInsecure = Annotated[
    bool | None,
    typer.Option(
        "--http-insecure/--no-http-insecure",
        help="Whether to let other machines send access keys to the HTTP API without TLS. "
        "Default: the setting http_insecure, or no.",
    ),
]
TlsCert = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="The file with the TLS certificate for S3 and the HTTP API; also needs the key. "
        "Default: the setting tls_cert, or no TLS.",
    ),
]
TlsKey = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="The file with the private key of the TLS certificate. Default: the setting tls_key.",
    ),
]
RateBytesMin = Annotated[
    str | None,
    typer.Option(
        metavar="SIZE",
        help="Disconnect a client that transfers less than SIZE per second for longer than "
        "--rate-grace-s; 0: no limit. Default: the setting rate_bytes_min, or 1KiB.",
    ),
]
RateGrace = Annotated[
    float | None,
    typer.Option(
        "--rate-grace-s",
        min=0.1,
        metavar="SECONDS",
        help="How long a client may be slower than --rate-bytes-min. Default: the setting "
        "rate_grace_s, or 60.",
    ),
]
DrainSeconds = Annotated[
    float | None,
    typer.Option(
        "--drain-seconds",
        min=0,
        metavar="SECONDS",
        help="After SIGTERM or Ctrl-C, wait at most this long for requests in progress; a second "
        "signal ends the wait. Default: the setting drain_s, or 30.",
    ),
]
LogFormat = Annotated[
    str | None,
    typer.Option(
        metavar="console|json",
        help="The format of log lines. Default: the setting log_format, or console.",
    ),
]
LogLevel = Annotated[
    str | None,
    typer.Option(
        metavar="debug|info|warning|error",
        help="The lowest level of log lines. Default: the setting log_level, or info.",
    ),
]
AccessLog = Annotated[
    bool | None,
    typer.Option(
        "--access-log/--no-access-log",
        help="Whether to log every request. Default: the setting access_log, or no.",
    ),
]
MetricsPublic = Annotated[
    bool | None,
    typer.Option(
        "--metrics-public/--no-metrics-public",
        help="Whether other machines can read /metrics without an access key. Default: the setting "
        "metrics_public, or no.",
    ),
]
S3Setting = Annotated[
    list[str] | None,
    typer.Option(
        "--s3", metavar="NAME=VALUE", help="Override this setting of section [s3]; may be repeated."
    ),
]
DryRun = Annotated[
    bool,
    typer.Option(
        "--dry-run",
        help="Check all settings, print those of the node and of S3 and where they come from, and "
        "exit.",
    ),
]


@app.command()
def serve(
    context: typer.Context,
    s3_port: S3Port = None,
    s3_host: S3Host = None,
    http_port: HttpPort = None,
    http_host: HttpHost = None,
    http_names: HttpNames = None,
    http: Http = None,
    http_insecure: HttpInsecure = None,
    tls_cert: TlsCert = None,
    tls_key: TlsKey = None,
    rate_bytes_min: RateBytesMin = None,
    rate_grace_s: RateGrace = None,
    drain_s: DrainSeconds = None,
    log_format: LogFormat = None,
    log_level: LogLevel = None,
    access_log: AccessLog = None,
    metrics_public: MetricsPublic = None,
    s3: S3Setting = None,
    dry_run: DryRun = False,
) -> None:
    """Serve the buckets over S3 and the whole store over HTTP, until SIGTERM or Ctrl-C.

    Settings are those of section [node]: options override LAKEBED_NODE_… variables, which override
    lakebed.toml. If the store has no access key, an access key is created and printed once, with
    instructions for connecting, unless LAKEBED_ACCESS_KEY and LAKEBED_SECRET_KEY are set. Create
    more keys with lakebed s3 keys create. The HTTP API accepts the same keys, with HTTP Basic.
    SIGHUP reloads the TLS certificates and the logging settings.

    \b
    Examples:
      Serve a store on these ports:
        lakebed --root data serve --s3-port 9000 --http-port 9001
      Serve S3 to other machines, with TLS:
        lakebed serve --s3-host 0.0.0.0 --tls-cert cert.pem --tls-key key.pem
      Change settings of S3:
        lakebed serve --s3 default-versioning=unversioned --s3 domain=s3.example.com
      Log requests as JSON:
        lakebed serve --log-format json --access-log
    """
    given = locals()
    from lakebed.node.config import node_settings

    run = invocation(context)
    _check_root(run)
    options = [*_node_options(given), *_s3_options(s3 or [])]

    read = partial(node_settings, run.root, environment=os.environ, options=options)
    settings = read(reads_certificate=dry_run)  # a node reads it itself
    if dry_run:
        _show_settings(run, settings)
        return
    from lakebed.node import node

    if not node.serve(
        run.root,
        settings=settings,
        read_again=partial(read, reads_certificate=False),
        environment=os.environ,
        on_ready=lambda ready: _show_ready(run, ready),
    ):
        run.output.note("some requests were aborted")


def _check_root(run: Invocation) -> None:
    """Raises `DiskError` if the root exists but cannot be read, before its settings are read."""
    if run.root_exists() and not os.access(run.root, os.R_OK | os.X_OK, effective_ids=True):
        from lakebed.base.errors import DiskError

        raise DiskError("open", run.root, code=errno.EACCES)


def _node_options(given: Mapping[str, Any]) -> list[Option]:
    """Returns an `Option` for each setting of section [node], with the value from `given`, which is
    None if the option was not given."""
    from lakebed.base.config import field_names
    from lakebed.node.config import NodeConfig, Option
    from lakebed.store.settings import NODE_SECTION

    options = []
    for name in field_names(NodeConfig):
        value = given[name]
        flag = "drain-seconds" if name == "drain_s" else name.replace("_", "-")
        origin = f"--no-{flag}" if value is False else f"--{flag}"
        plain = str(value) if isinstance(value, Path) else value
        options.append(Option(NODE_SECTION, name, plain, origin))
    return options


def _s3_options(settings: list[str]) -> list[Option]:
    from lakebed.base.errors import InputError
    from lakebed.base.units import shown
    from lakebed.node.config import Option

    options = []
    for text in settings:
        name, equals, value = text.partition("=")
        if not equals:
            raise InputError(f"--s3 {shown(text)}: write it as NAME=VALUE")
        name = name.strip()
        field = name.lower().replace("-", "_")
        options.append(Option("s3", field, value, f"--s3 {name}", is_text=True))
    return options


def _show_settings(run: Invocation, settings: Settings) -> None:
    from lakebed.cli.config import SETTINGS
    from lakebed.store.settings import NODE_SECTION

    shown = [each.shown() for each in settings if each.section in (NODE_SECTION, "s3")]
    run.output.show(Value("ok", True), Value("settings", shown), Rows("", SETTINGS, shown))


def _show_ready(run: Invocation, ready: Ready) -> None:
    parts: list[Part] = [
        Value("s3", ready.s3_url),
        Value("region", ready.region),
        Text(f"S3 on {ready.s3_url}, region {ready.region}"),
    ]
    if ready.http_url is not None:
        parts += [Value("http", ready.http_url), Text(f"HTTP API on {ready.http_url}")]
    if ready.credentials is not None:
        from lakebed.node import connection_hints

        access_key, secret = ready.credentials
        environment = connection_hints.environment_of(ready.s3_url, ready.region, ready.credentials)
        snippets = connection_hints.snippets(ready.http_url)
        parts += [
            Value("access_key", access_key),
            Value("secret_key", secret),
            Value("connect", {"environment": environment, **snippets}),
            Text("The first access key was created. Its secret is not shown again:", ""),
            Text(*connection_hints.exports(environment)),
            *(
                Text("", f"# {client}", *snippet.splitlines())
                for client, snippet in snippets.items()
            ),
        ]
    run.output.show(*parts)
    flush()
