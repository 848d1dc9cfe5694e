"""`lakebed s3 keys`: who may sign requests to the S3 endpoint."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from lakebed.cli.invocation import Invocation, invocation
from lakebed.cli.stores import open_to_read

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
    from lakebed.cli.s3_key_tables import key_document, key_lines

    run = invocation(context)
    with open_to_read(run) as store:
        found = store.keys.list()
    document = {"keys": [key_document(key) for key in found]}
    run.output.result(document, lines=key_lines(found))


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
    from lakebed.cli.s3_key_tables import key_document
    from lakebed.seglake.access_keys import check_label

    run = invocation(context)
    check_label(label)  # before anything is touched: a mistake creates no root
    with run.place.writing(create=True) as store:
        made = store.keys.create(label=label, inflight_max=inflight_max)
    document = {**key_document(made.info), "secret_key": made.secret}
    lines = [f"access key  {made.info.access_key}", f"secret key  {made.secret}"]
    run.output.result(document, lines=lines)


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
    from lakebed.cli.s3_key_tables import key_document, state_text

    _look_for(run, access_key)
    with run.place.writing() as store:
        keys = store.keys
        info = keys.enable(access_key) if is_enabled else keys.disable(access_key)
    run.output.result(key_document(info), lines=[f"{info.access_key}: {state_text(info)}"])


def _look_for(run: Invocation, access_key: str) -> KeyInfo:
    """`NoSuchAccessKey` if it is not there: then nothing is touched."""
    with open_to_read(run) as store:
        return store.keys.get(access_key)
