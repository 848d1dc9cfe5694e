"""`lakebed serve`: a store, served until a signal ends it."""

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

app = typer.Typer(add_completion=False)

# What is not given here is what the settings say: section [node].
S3Port = Annotated[
    int | None,
    typer.Option(min=0, max=65535, help="Where S3 is served, 9000; 0 takes a free port."),
]
S3Host = Annotated[
    str | None,
    typer.Option(metavar="HOST", help="The address to listen on, 127.0.0.1; ::1, 0.0.0.0 and so."),
]
HttpPort = Annotated[
    int | None,
    typer.Option(min=0, max=65535, help="Where the HTTP API is, 9001; 0 takes a free port."),
]
HttpHost = Annotated[
    str | None,
    typer.Option(metavar="HOST", help="The address it listens on; beyond loopback, by TLS."),
]
HttpNames = Annotated[
    str | None,
    typer.Option(metavar="NAMES", help="More names it is reached by, as that of a proxy."),
]
Http = Annotated[
    bool | None, typer.Option("--http/--no-http", help="Whether there is an HTTP API on a port.")
]
HttpInsecure = Annotated[
    bool | None,
    typer.Option(
        "--http-insecure/--no-http-insecure", help="Let access keys come in clear from elsewhere."
    ),
]
TlsCert = Annotated[
    Path | None, typer.Option(metavar="FILE", help="A certificate: then both are served by TLS.")
]
TlsKey = Annotated[Path | None, typer.Option(metavar="FILE", help="The key of it.")]
RateBytesMin = Annotated[
    str | None,
    typer.Option(metavar="SIZE", help="Cut clients off that are slower, in bytes a second, 1KiB."),
]
RateGrace = Annotated[
    float | None,
    typer.Option("--rate-grace-s", min=0.1, help="For how long a client may be slower, 60."),
]
DrainSeconds = Annotated[
    float | None,
    typer.Option(
        "--drain-seconds", min=0, help="How long requests under way may take after SIGTERM, 30."
    ),
]
LogFormat = Annotated[
    str | None, typer.Option(metavar="console|json", help="How log lines are written.")
]
LogLevel = Annotated[
    str | None, typer.Option(metavar="debug|info|warning|error", help="What is logged, info.")
]
AccessLog = Annotated[
    bool | None, typer.Option("--access-log/--no-access-log", help="Log a line for every request.")
]
MetricsPublic = Annotated[
    bool | None,
    typer.Option(
        "--metrics-public/--no-metrics-public", help="Give /metrics to all who can ask, keyless."
    ),
]
S3Setting = Annotated[
    list[str] | None,
    typer.Option("--s3", metavar="NAME=VALUE", help="A setting of section s3; repeatable."),
]
DryRun = Annotated[
    bool,
    typer.Option("--dry-run", help="Check the settings, print them and where they are from, end."),
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
    """Serve the store's buckets over S3 and all of it over HTTP, until SIGTERM or Ctrl-C.

    Options win over LAKEBED_NODE_… of the environment, and these over section node of
    lakebed.toml. The first start makes an access key and prints it once, with how to connect,
    unless LAKEBED_ACCESS_KEY and LAKEBED_SECRET_KEY say what it is. More keys: lakebed s3 keys
    create. The HTTP API takes the same keys, as HTTP Basic. SIGHUP reads the certificates again,
    and from the settings what is logged.

    \b
    lakebed --root data serve --s3-port 9000 --http-port 9001
    lakebed serve --s3-host 0.0.0.0 --tls-cert cert.pem --tls-key key.pem
    lakebed serve --s3 default-versioning=unversioned --s3 domain=s3.example.com
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
        _show(run, settings)
        return
    from lakebed.node import node

    if not node.serve(
        run.root,
        settings=settings,
        read_again=partial(read, reads_certificate=False),
        environment=os.environ,
        on_ready=lambda ready: _tell(run, ready),
    ):
        run.output.note("some requests were cut off")


def _check_root(run: Invocation) -> None:
    """Before its file is looked for: of a folder that may not be read the folder is told."""
    if run.root_exists() and not os.access(run.root, os.R_OK | os.X_OK, effective_ids=True):
        from lakebed.base.errors import DiskError

        raise DiskError("open", run.root, code=errno.EACCES)


def _node_options(given: Mapping[str, Any]) -> list[Option]:
    """Arguments are named as the settings of a node are; what is not given is None."""
    from lakebed.base.config import field_names
    from lakebed.node.config import NodeConfig, Option
    from lakebed.store.settings import NODE_SECTION

    found = []
    for name in field_names(NodeConfig):
        value = given[name]
        flag = "drain-seconds" if name == "drain_s" else name.replace("_", "-")
        origin = f"--no-{flag}" if value is False else f"--{flag}"
        plain = str(value) if isinstance(value, Path) else value
        found.append(Option(NODE_SECTION, name, plain, origin))
    return found


def _s3_options(settings: list[str]) -> list[Option]:
    from lakebed.base.errors import InputError
    from lakebed.base.units import shown
    from lakebed.node.config import Option

    found = []
    for text in settings:
        name, equals, value = text.partition("=")
        if not equals:
            raise InputError(f"--s3 {shown(text)}: expected NAME=VALUE")
        name = name.strip()
        field = name.lower().replace("-", "_")
        found.append(Option("s3", field, value, f"--s3 {name}", is_text=True))
    return found


def _show(run: Invocation, settings: Settings) -> None:
    from lakebed.cli.config import SETTINGS
    from lakebed.store.settings import NODE_SECTION

    shown = [each.shown() for each in settings if each.section in (NODE_SECTION, "s3")]
    run.output.show(Value("ok", True), Value("settings", shown), Rows("", SETTINGS, shown))


def _tell(run: Invocation, ready: Ready) -> None:
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
            Text("A first access key was made. The secret is shown this once:", ""),
            Text(*connection_hints.exports(environment)),
            *(
                Text("", f"# {client}", *snippet.splitlines())
                for client, snippet in snippets.items()
            ),
        ]
    run.output.show(*parts)
    flush()
