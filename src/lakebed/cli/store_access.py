"""How commands open a store, and the argument that names a log in it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, Annotated

import typer

from lakebed.cli.invocation import Invocation

# The engines are imported by the commands: the help needs none of them.
if TYPE_CHECKING:
    from lakebed.api.read_surface import ReadableStore
    from lakebed.api.surface import Store
    from lakebed.store.read_only import ReadOnlyStore

DAMAGED_EXIT_CODE = 65

LogName = Annotated[str, typer.Argument(metavar="LOG", help="The log's name.")]


def open_to_read(run: Invocation) -> AbstractContextManager[ReadableStore]:
    return run.place.reading()


def open_files(run: Invocation, what: str = "") -> ReadOnlyStore:
    """The files of a store, for a command or an option that reads them; `Usage` if the store is at
    a URL."""
    from lakebed.store.read_only import ReadOnlyStore

    return ReadOnlyStore(run.local_root(what).require())


@contextmanager
def open_to_write(run: Invocation, log: str, *, create: bool = False) -> Iterator[Store]:
    """The store, if the log exists or may be created; else nothing is touched."""
    from lakebed.aof.paths import check_log_name

    check_log_name(log)
    if not create:
        with open_to_read(run) as reading:
            require_log(reading, log)
    with run.place.writing(create=create) as store:
        yield store


def require_log(store: ReadableStore, log: str) -> None:
    """`NotFound` if there is no such log."""
    from lakebed.aof.paths import check_log_name
    from lakebed.base.errors import NotFound

    check_log_name(log)
    if log not in store.logs():
        raise NotFound(f"{store.root}: there is no log {log}")


@contextmanager
def quiet(name: str) -> Iterator[None]:
    """What these modules tell on standard error is part of the command's result, and told there."""
    import logging

    logger = logging.getLogger(name)
    level = logger.level
    logger.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        logger.setLevel(level)


@contextmanager
def reaching_tier2(log: str) -> Iterator[None]:
    """Where Tier 2 does not do its part, one line says what to do; its retries are not told."""
    from lakebed.aof.tiers.errors import Tier2Error

    with quiet("lakebed.aof.tiers"):
        try:
            yield
        except Tier2Error as error:
            raise advised(error, log) from error


def advised(error: Exception, log: str) -> Exception:
    """The same error with what to do about it, if that is known."""
    from lakebed.aof.tiers.errors import Missing, Tier2Error, Unauthorised

    if not isinstance(error, Tier2Error):
        return error
    if isinstance(error, Unauthorised):
        advice = (
            "Tier 2 refuses: mend the credentials ([aof_tier2], AWS_…) or the folder's rights; "
            f"lakebed aof retry-upload {log} uploads what failed"
        )
    elif isinstance(error, Missing):
        advice = f"Tier 2 has no such object: lakebed aof repair {log} --tier2"
    else:
        advice = "Tier 2 is not reached: look at url and endpoint of [aof_tier2], and try again"
    return type(error)(f"{error}; {advice}")
