"""`lakebed s3 keys`: who may sign requests to the S3 endpoint."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from lakebed.cli.invocation import Invocation, invocation
from lakebed.cli.report import Column, Item, Rows, Text, Value, objects
from lakebed.cli.store_access import open_to_read
from lakebed.cli.values import moment_ms_text

if TYPE_CHECKING:  # the help needs no engine
    from lakebed.seglake.model import KeyInfo

app = typer.Typer(add_completion=False, help="Create, list, disable and enable access keys.")

AccessKey = Annotated[str, typer.Argument(metavar="ACCESS_KEY", help="Which key.")]


@app.callback(invoke_without_command=True)
def keys(context: typer.Context) -> None:
    """Create, list, disable and enable access keys; without a command, list them."""
    if context.invoked_subcommand is None:
        list_keys(context)


@app.command("list")
def list_keys(context: typer.Context) -> None:
    """List the access keys, never their secrets; also beside a writer.

    \b
    lakebed s3 keys list
    """
    run = invocation(context)
    with open_to_read(run) as store:
        keys = store.keys.list()
    run.output.show(Value("keys", objects(KEY, keys)), Rows("", KEYS, keys))


@app.command()
def create(
    context: typer.Context,
    label: Annotated[str, typer.Option(help="What the key is for; shown in lists.")] = "",
    inflight_max: Annotated[
        int | None,
        typer.Option(min=1, help="How many requests at a time."),
    ] = None,
) -> None:
    """Create an access key and print its secret: once, it cannot be shown again.

    \b
    lakebed s3 keys create --label backup
    """
    from lakebed.seglake.access_keys import check_label

    run = invocation(context)
    check_label(label)  # before anything is touched: a mistake creates no root
    with run.place.writing(create=True) as store:
        made = store.keys.create(label=label, inflight_max=inflight_max)
    run.output.show(
        Item(KEY, made.info),
        Value("secret_key", made.secret),
        Text(f"access key  {made.info.access_key}", f"secret key  {made.secret}"),
    )


@app.command()
def disable(context: typer.Context, access_key: AccessKey) -> None:
    """Refuse what is signed with a key from now on; `enable` undoes it.

    \b
    lakebed s3 keys disable LAKEEXAMPLE
    """
    _change(invocation(context), access_key, is_enabled=False)


@app.command()
def enable(context: typer.Context, access_key: AccessKey) -> None:
    """Accept what is signed with a key that was disabled.

    \b
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
    """`NoSuchAccessKey` if it is not there: then nothing is touched."""
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
"""What a document has of a key. Never a secret."""

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
"""The table."""
