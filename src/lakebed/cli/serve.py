"""`lakebed serve`: a store, served until a signal ends it."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from lakebed.cli.invocation import Invocation, invocation

# The engines are imported by the command: the help needs none of them.
if TYPE_CHECKING:
    from lakebed.node.serving import Ready

app = typer.Typer(add_completion=False)

_SETTING_PREFIX = "LAKEBED_S3_"

HttpPort = Annotated[
    int, typer.Option(min=0, max=65535, help="Where the HTTP API is; 0 takes a free port.")
]
HttpHost = Annotated[
    str, typer.Option(metavar="HOST", help="The address it listens on; beyond loopback, by TLS.")
]
Http = Annotated[
    bool, typer.Option("--http/--no-http", help="Whether there is an HTTP API on a port.")
]
HttpInsecure = Annotated[
    bool, typer.Option("--http-insecure", help="Let access keys come in clear from elsewhere.")
]


@app.command()
def serve(
    context: typer.Context,
    s3_port: Annotated[
        int, typer.Option(min=0, max=65535, help="Where S3 is served; 0 takes a free port.")
    ] = 9000,
    s3_host: Annotated[
        str, typer.Option(metavar="HOST", help="The address to listen on; ::1, 0.0.0.0 and so on.")
    ] = "127.0.0.1",
    http_port: HttpPort = 9001,
    http_host: HttpHost = "127.0.0.1",
    http: Http = True,
    http_insecure: HttpInsecure = False,
    tls_cert: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="A certificate: then both are served by TLS."),
    ] = None,
    tls_key: Annotated[Path | None, typer.Option(metavar="FILE", help="The key of it.")] = None,
    drain_seconds: Annotated[
        float, typer.Option(min=0, help="How long requests under way may take after SIGTERM.")
    ] = 30.0,
    setting: Annotated[
        list[str] | None,
        typer.Option("--s3", metavar="NAME=VALUE", help="A setting of section s3; repeatable."),
    ] = None,
) -> None:
    """Serve the store's buckets over S3 and all of it over HTTP, until SIGTERM or Ctrl-C.

    The first start makes an access key and prints it once, unless LAKEBED_ACCESS_KEY and
    LAKEBED_SECRET_KEY say what it is. More keys: lakebed s3 keys create. The HTTP API takes the
    same keys, as HTTP Basic.

    \b
    lakebed --root data serve --s3-port 9000 --http-port 9001
    lakebed serve --s3-host 0.0.0.0 --tls-cert cert.pem --tls-key key.pem
    lakebed serve --s3 default-versioning=unversioned --s3 domain=s3.example.com
    """
    from lakebed.node.serving import ServeOptions
    from lakebed.node.serving import serve as run_node
    from lakebed.seglake.config import SeglakeConfig
    from lakebed.store.settings import settings_of

    run = invocation(context)
    run.root_exists()  # or it is no folder
    environment = {**os.environ, **_as_variables(setting or [])}
    config = settings_of(run.root, environment=environment).config(SeglakeConfig)
    options = ServeOptions(
        root=run.root,
        s3_host=s3_host,
        s3_port=s3_port,
        http_host=http_host,
        http_port=http_port if http else None,
        http_insecure=http_insecure,
        tls_certificate=tls_cert,
        tls_key=tls_key,
        drain_s=drain_seconds,
    )
    if not run_node(
        options, config=config, environment=environment, on_ready=lambda r: _tell(run, r)
    ):
        run.output.note("some requests were cut off")


def _as_variables(settings: list[str]) -> dict[str, str]:
    """The same settings, as the environment would have them."""
    from lakebed.base.errors import InputError
    from lakebed.base.units import shown

    found = {}
    for text in settings:
        name, equals, value = text.partition("=")
        if not equals:
            raise InputError(f"--s3 {shown(text)}: expected NAME=VALUE")
        found[_SETTING_PREFIX + name.strip().upper().replace("-", "_")] = value
    return found


def _tell(run: Invocation, ready: Ready) -> None:
    document: dict[str, object] = {"s3": ready.s3_url, "region": ready.region}
    lines = [f"S3 on {ready.s3_url}, region {ready.region}"]
    if ready.http_url is not None:
        document["http"] = ready.http_url
        lines.append(f"HTTP API on {ready.http_url}")
    if ready.credentials is not None:
        access_key, secret = ready.credentials
        document |= {"access_key": access_key, "secret_key": secret}
        lines += [
            "A first access key was made. The secret is shown this once:",
            f"  export AWS_ACCESS_KEY_ID={access_key}",
            f"  export AWS_SECRET_ACCESS_KEY={secret}",
            f"  export AWS_ENDPOINT_URL={ready.s3_url}",
            f"  export AWS_DEFAULT_REGION={ready.region}",
            "Try: aws s3 mb s3://photos && aws s3 ls",
        ]
        if ready.http_url is not None:
            key = '"$AWS_ACCESS_KEY_ID:$AWS_SECRET_ACCESS_KEY"'
            lines.append(f"or:  curl -u {key} {ready.http_url}/v1/state")
    run.output.result(document, lines=lines)
    from lakebed.cli import output

    output.flush()
