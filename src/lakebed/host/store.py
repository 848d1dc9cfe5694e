"""`lakebed.Store`: a store that serves `lakebed.sock` in its root while it is open for writing."""

from __future__ import annotations

from typing import Literal, Self, Unpack, overload

from lakebed.base.files import PathLike
from lakebed.host.local_server import open_local_server
from lakebed.store import store
from lakebed.store.read_only import ReadOnlyStore
from lakebed.store.store import StoreOptions


class Store(store.Store):
    """A store that this process has open for writing.

    It serves the socket `lakebed.sock` in its root, so that other processes can use it, unless it
    was opened with `serves=False` or a `disk`.
    """

    @overload
    @classmethod
    def open(
        cls,
        root: PathLike,
        *,
        read_only: Literal[False] = False,
        serves: bool = True,
        **options: Unpack[StoreOptions],
    ) -> Self: ...

    @overload
    @classmethod
    def open(
        cls,
        root: PathLike,
        *,
        read_only: Literal[True],
        serves: bool = True,
        **options: Unpack[StoreOptions],
    ) -> ReadOnlyStore: ...

    @classmethod
    def open(
        cls,
        root: PathLike,
        *,
        read_only: bool = False,
        serves: bool = True,
        **options: Unpack[StoreOptions],
    ) -> Self | ReadOnlyStore:
        """Opens a store for writing, and creates it if needed; with `read_only=True`, opens an
        existing store for reading.

        Opening for writing raises `Locked` if the store is already open for writing, in another
        process or in this one. Opening for reading takes no lock, and raises `NotFound` if the root
        does not exist. Settings that are not passed as `config`, `topic_config`, `group_config`,
        `object_config` or `tier_config` come from `lakebed.toml` and the environment; if a `disk`
        is passed, they are the defaults. Of the settings that are passed, a read-only store uses
        only `tier_config`. A writer serves the local socket unless `serves` is false or a `disk` is
        passed.
        """
        if read_only:
            return super().open(root, read_only=True, **options)
        opened = super().open(root, **options)
        if serves and options.get("disk") is None:
            server = open_local_server(opened)
            if server is not None:
                opened.accompany(server)
        return opened
