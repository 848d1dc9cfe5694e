"""Finds the manifest log that a command names by the log's name or its stream id."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakebed.cli.report import Column

# The help needs none of the engines.
if TYPE_CHECKING:
    from lakebed.api.read_surface import ReadableManifestLog, ReadableStore

DAMAGE_MARK = "!!"

MANIFEST_LOG = (
    Column("log"),
    Column("stream_id", "stream"),
    Column("manifest_log_enabled", "is_enabled"),
)


def require_manifest_log(store: ReadableStore, log: str) -> ReadableManifestLog:
    """Returns the manifest log of a log, given the log's name or stream id.

    Raises `NotFound` if there is no such log, or if it has no manifest log or an empty one.
    """
    from lakebed.aof.paths import check_log_name
    from lakebed.base.errors import NotFound

    check_log_name(log)
    manifest = store.manifest_log(log)
    if manifest is None:
        raise NotFound(
            f"log {log} has no manifest log, because it was last written by a version of "
            "Lakebed without manifest logs, or because the manifest log and log.json are lost: "
            "opening the log for writing creates one if manifest_log_enabled is on"
        )
    reader = manifest.reader
    if not reader.chunk_indexes() and not reader.snapshot_ids():
        raise NotFound(f"{manifest.log}: {_why_empty(store, manifest)}")
    return manifest


def title(manifest: ReadableManifestLog) -> str:
    """Returns the heading of a report: the log's name, its stream id, and `switched off` if its
    manifest log is off."""
    state = ", switched off" if manifest.is_enabled is False else ""
    return f"{manifest.log}: stream {manifest.stream}{state}"


def _why_empty(store: ReadableStore, manifest: ReadableManifestLog) -> str:
    if manifest.is_enabled is False:
        return "its manifest log is switched off and empty"
    if store.open_log(manifest.log).segments():
        return "its manifest log is empty; opening the log for writing records its segments"
    return "its manifest log is still empty"
