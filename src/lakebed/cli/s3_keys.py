"""`lakebed s3 keys`: the access keys for S3 and for the HTTP API."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from lakebed.cli.invocation import Invocation, invocation
from lakebed.cli.report import Column, Item, Rows, Text, Value, objects
from lakebed.cli.store_access import open_to_read
from lakebed.cli.values import moment_ms_text

if TYPE_CHECKING:  # the help needs no engine
    from lakebed.seglake.model import KeyInfo

app = typer.Typer(
    add_completion=False,
    rich_markup_mode=None,
    help="Create, list, disable and enable access keys.",
)

AccessKey = Annotated[str, typer.Argument(metavar="ACCESS_KEY", help="The access key.")]


@app.callback(invoke_without_command=True)
def keys(context: typer.Context) -> None:
    """Create, list, disable and enable access keys. Without a command, list them."""
    if context.invoked_subcommand is None:
        list_keys(context)


@app.command("list")
def list_keys(context: typer.Context) -> None:
    """List the access keys, without their secrets.

    \b
    Examples:
      List all keys:
        lakebed s3 keys list
    """
    run = invocation(context)
    with open_to_read(run) as store:
        keys = store.keys.list()
    run.output.show(Value("keys", objects(KEY, keys)), Rows("", KEYS, keys))


@app.command()
def create(
    context: typer.Context,
    label: Annotated[
        str, typer.Option(metavar="TEXT", help="A label, shown by lakebed s3 keys list.")
    ] = "",
    inflight_max: Annotated[
        int | None,
        typer.Option(
            min=1,
            metavar="N",
            help="The maximum number of concurrent requests with this key. Default: for S3, "
            "inflight_max in section [s3]; for the HTTP API, 1000.",
        ),
    ] = None,
) -> None:
    """Create an access key and print its secret, which cannot be shown again.

    \b
    Examples:
      Create a key for backups:
        lakebed s3 keys create --label backup
    """
    from lakebed.seglake.access_keys import check_label

    run = invocation(context)
    check_label(label)  # before the store is opened: a mistake must not create a root
    with run.place.writing(create=True) as store:
        made = store.keys.create(label=label, inflight_max=inflight_max)
    run.output.show(
        Item(KEY, made.info),
        Value("secret_key", made.secret),
        Text(f"access key  {made.info.access_key}", f"secret key  {made.secret}"),
    )


@app.command()
def disable(context: typer.Context, access_key: AccessKey) -> None:
    """Disable an access key: S3 and HTTP API requests that use it are refused.

    \b
    Examples:
      Disable a key:
        lakebed s3 keys disable LAKEEXAMPLE
    """
    _change(invocation(context), access_key, is_enabled=False)


@app.command()
def enable(context: typer.Context, access_key: AccessKey) -> None:
    """Enable a disabled access key.

    \b
    Examples:
      Enable a key:
        lakebed s3 keys enable LAKEEXAMPLE
    """
    _change(invocation(context), access_key, is_enabled=True)


def _change(run: Invocation, access_key: str, *, is_enabled: bool) -> None:
    _look_for(run, access_key)
    with run.place.writing() as store:
        keys = store.keys
        info = keys.enable(access_key) if is_enabled else keys.disable(access_key)
    run.output.show(Item(KEY, info), Text(f"{info.access_key}: {_state(info)}"))


def _look_for(run: Invocation, access_key: str) -> KeyInfo:
    """Returns the access key. Raises `NoSuchAccessKey` if there is none. Changes nothing."""
    with open_to_read(run) as store:
        return store.keys.get(access_key)


def _state(key: KeyInfo) -> str:
    return "enabled" if key.is_enabled else "disabled"


KEY = (
    Column("access_key"),
    Column("label"),
    Column("state", _state),
    Column("inflight_max"),
    Column("created", "created_ms", json=moment_ms_text),
    Column("created_ms"),
    Column("last_used", "last_used_ms", json=moment_ms_text),
    Column("last_used_ms"),
)
"""The JSON members of an access key. Its secret is not one of them."""

KEYS = (
    Column("", "access_key", "access key"),
    Column("", _state, "state"),
    Column("", "created_ms", "created", moment_ms_text),
    Column(
        "",
        lambda key: "never" if key.last_used_ms is None else moment_ms_text(key.last_used_ms),
        "last used",
    ),
    Column("", "label", "label"),
)
"""The columns of the table of keys."""
