"""Opens the store for a command, and adds advice to errors of Tier 2."""

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

LogName = Annotated[str, typer.Argument(metavar="LOG", help="The name of the log.")]


def open_to_read(run: Invocation) -> AbstractContextManager[ReadableStore]:
    return run.place.reading()


def open_files(run: Invocation, what: str = "") -> ReadOnlyStore:
    """Opens the files of the store read-only, for `what`: a command or option that needs them.

    Raises `Usage` if the store is at a URL, and `NotFound` if its folder does not exist.
    """
    from lakebed.store.read_only import ReadOnlyStore

    return ReadOnlyStore(run.local_root(what).require())


@contextmanager
def open_to_write(run: Invocation, log: str, *, create: bool = False) -> Iterator[Store]:
    """Opens the store for writing. Does not open or create the log.

    Without `create`, raises `NotFound` and changes nothing if the log does not exist. With
    `create`, makes the root of the store if it does not exist.
    """
    from lakebed.aof.paths import check_log_name

    check_log_name(log)
    if not create:
        with open_to_read(run) as reading:
            require_log(reading, log)
    with run.place.writing(create=create) as store:
        yield store


def require_log(store: ReadableStore, log: str) -> None:
    """Raises `NotFound` if there is no such log."""
    from lakebed.aof.paths import check_log_name
    from lakebed.base.errors import NotFound

    check_log_name(log)
    if log not in store.logs():
        raise NotFound(f"{store.root}: there is no log {log}")


@contextmanager
def quiet(name: str) -> Iterator[None]:
    """Silences a logger within the block, because the command reports the same facts itself.

    Critical messages, and the warning that the kernels are not compiled, are still printed.
    """
    import logging

    logger, kernels = logging.getLogger(name), logging.getLogger("lakebed.kernels")
    level, kernels_level = logger.level, kernels.level
    kernels.setLevel(kernels.getEffectiveLevel())
    logger.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        logger.setLevel(level)
        kernels.setLevel(kernels_level)


@contextmanager
def reaching_tier2(log: str) -> Iterator[None]:
    """Adds advice to errors of Tier 2 that are raised in the block, and silences the logger of the
    tiers there."""
    from lakebed.aof.tiers.errors import Tier2Error

    with quiet("lakebed.aof.tiers"):
        try:
            yield
        except Tier2Error as error:
            raise advised(error, log) from error


def advised(error: Exception, log: str) -> Exception:
    """Returns an error of Tier 2 with advice, and any other error unchanged."""
    from lakebed.aof.tiers.errors import Missing, Tier2Error, Unauthorised

    if not isinstance(error, Tier2Error):
        return error
    if isinstance(error, Unauthorised):
        advice = (
            "Tier 2 refuses access: fix the credentials ([aof_tier2], AWS_…) or the permissions "
            "of its folder, and try again; if an upload had failed, then run lakebed aof "
            f"retry-upload {log}"
        )
    elif isinstance(error, Missing):
        advice = f"Tier 2 has no such object: run lakebed aof repair {log} --tier2"
    else:
        advice = "check the network, and url and endpoint in section [aof_tier2], and try again"
    return type(error)(f"{error}; {advice}")
