"""`lakebed damage`: lists recorded losses of data, and acknowledges them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from lakebed.cli.invocation import invocation
from lakebed.cli.report import Text, Value, members_of
from lakebed.cli.store_access import DAMAGED_EXIT_CODE, open_to_read
from lakebed.cli.values import moment_ms_text

if TYPE_CHECKING:  # the help needs no engine
    from lakebed.base.damage_ledger import DamageRecord

app = typer.Typer(
    add_completion=False,
    rich_markup_mode=None,
    help="List recorded data losses, and acknowledge them.",
)


@app.command("list")
def list_damage(context: typer.Context) -> None:
    """List recorded losses: which data was lost, where, how much, and where its bytes were saved.

    The exit code is 65 if any loss is not acknowledged, or was not recorded because the list was
    full. Works while another process writes.

    \b
    Examples:
      List losses:
        lakebed damage list
      Print them as JSON:
        lakebed --json damage list
    """
    run = invocation(context)
    with open_to_read(run) as store:
        ledger = store.damage.ledger()
    lines = [_line(record) for record in ledger.records]
    if ledger.forgotten_count:
        lines.append(f"{ledger.forgotten_count} more losses, for which the ledger had no space")
    run.output.show(
        Value("records", ledger.records),
        Value("forgotten_count", ledger.forgotten_count),
        Text(*lines or ["nothing is lost"]),
    )
    if ledger.unacknowledged or ledger.forgotten_count:
        raise typer.Exit(DAMAGED_EXIT_CODE)


@app.command()
def acknowledge(
    context: typer.Context,
    record_id: Annotated[
        int,
        typer.Argument(
            metavar="ID", help="The number of the loss, as lakebed damage list shows it."
        ),
    ],
) -> None:
    """Acknowledge a recorded loss, so that lakebed verify no longer reports it.

    lakebed damage list still lists the loss, as acknowledged. Readers of a topic then skip the lost
    messages. Damaged bytes that are still in a file are reported by lakebed verify all the same.

    \b
    Examples:
      Acknowledge loss 3:
        lakebed damage acknowledge 3
    """
    run = invocation(context)
    with run.place.writing() as store:
        record = store.damage.acknowledge(record_id)
    text = Text(f"{record.id}: acknowledged: {record}")
    run.output.show(*(Value(name, value) for name, value in members_of(record).items()), text)


def _line(record: DamageRecord) -> str:
    state = "acknowledged" if record.acknowledged_ms is not None else "found"
    moment_ms = record.acknowledged_ms or record.found_ms
    return f"{record.id}  {state} {moment_ms_text(moment_ms)}  {record}"
