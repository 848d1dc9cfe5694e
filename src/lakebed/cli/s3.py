"""`lakebed s3`: buckets and objects in a store.

Commands that only read open the store read-only: they take no lock and also work beside a writer.
No command but `buckets create` and `keys create` creates a store; only the first a bucket.
"""

from __future__ import annotations

import typer

from lakebed.cli import s3_buckets, s3_checks, s3_keys, s3_listing, s3_remove, s3_transfer
from lakebed.cli.invocation import invocation
from lakebed.cli.s3_stores import ObjectPlace, VersionOption, parse_object_place
from lakebed.cli.stores import open_to_read

app = typer.Typer(
    add_completion=False, help="Store objects in buckets, list, get, remove and check them."
)
app.add_typer(s3_buckets.app, name="buckets")
app.add_typer(s3_keys.app, name="keys")
app.command()(s3_listing.ls)
app.command()(s3_transfer.put)
app.command()(s3_transfer.get)
app.command()(s3_remove.rm)


@app.command()
def stat(context: typer.Context, place: ObjectPlace, version_id: VersionOption = None) -> None:
    """Show what is known of an object: size, ETag, version, headers, metadata, checksums.

    \b
    lakebed s3 stat photos/2025/city.jpg
    """
    from lakebed.cli.s3_tables import info_document, info_lines

    run = invocation(context)
    bucket, key = parse_object_place(place)
    with open_to_read(run) as store:
        info = store.open_bucket(bucket).head(key, version_id=version_id)
    run.output.result(info_document(info), lines=info_lines(info))


app.command()(s3_checks.verify)
