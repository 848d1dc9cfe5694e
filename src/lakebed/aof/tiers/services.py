"""The settings and object stores that the tiers of all logs of a root share."""

from __future__ import annotations

import contextlib
import logging
import os
from random import Random

from lakebed.aof.identity import OWN_FOLDER, OWN_STORE
from lakebed.aof.paths import LogPaths
from lakebed.aof.tiers.cold_segments import ColdSegments
from lakebed.aof.tiers.config import SharedTierConfig
from lakebed.aof.tiers.errors import Cancelled
from lakebed.aof.tiers.folder_store import FolderStore
from lakebed.aof.tiers.object_store import ObjectStore
from lakebed.aof.tiers.object_store_address import open_object_store
from lakebed.aof.tiers.retrying_store import RetryingStore
from lakebed.base.clock import NS_PER_S
from lakebed.base.counters import Counters
from lakebed.base.errors import BadConfig, LakebedError
from lakebed.base.events import event
from lakebed.base.files import Disk
from lakebed.base.runner import Runner

_log = logging.getLogger(__name__)


class TierServices:
    """Opens the object stores of Tier 2 for all logs of one root."""

    def __init__(
        self,
        root: str,
        *,
        disk: Disk,
        runner: Runner,
        config: SharedTierConfig | None = None,
        random: Random | None = None,
        store: ObjectStore | None = None,
        own_store: ObjectStore | None = None,
    ) -> None:
        """`store`, if given, is used for every address.

        `own_store` is the root's own object store, if that is open. The Tier 2 of new logs is then
        in that store, unless the settings name another address.
        """
        self.config = config or SharedTierConfig()
        self.counters = Counters()
        self._root = root
        self._disk = disk
        self._runner = runner
        self._random = random or Random()
        self._store_override = store
        self._own_store = own_store
        self._stopped = runner.event()
        self._mutex = runner.mutex()
        self._is_clean = False  # guarded by _mutex
        self._retries = self.counters.counter("tier2_retries")

    @property
    def address(self) -> str:
        """The address of Tier 2 for new logs."""
        return self.config.url or (OWN_FOLDER if self._own_store is None else OWN_STORE)

    def check_address(self, address: str) -> None:
        """Raises `BadConfig` if the address is the root's own object store and this is not open.

        Does nothing if one store is used for every address.
        """
        if address == OWN_STORE and self._own_store is None and self._store_override is None:
            raise BadConfig(
                f"{address}: the log's Tier 2 is in the object store of its own root, which is "
                "not open: open the log through lakebed.Store"
            )

    def store(self, address: str, *, is_writer: bool = False) -> ObjectStore:
        """Opens the store at the address of a log's Tier 2. Temporary failures are retried.

        With `is_writer`, the caller must hold the root's lock; leftovers of interrupted uploads in
        the root's own Tier 2 folder are then removed once.
        """
        self.check_address(address)
        if self._store_override is not None:
            store = self._store_override
        elif address == OWN_STORE and self._own_store is not None:
            store = self._own_store
        else:
            url = os.path.join(self._root, OWN_FOLDER) if address == OWN_FOLDER else address
            store = open_object_store(url, disk=self._disk, options=self.config.s3_options())
            if is_writer and address == OWN_FOLDER:
                self._clean(store)
        return RetryingStore(
            store,
            random=self._random,
            sleep_ns=self._sleep_ns,
            policy=self.config.retry_policy(),
            on_retry=self._on_retry,
        )

    def stop(self) -> None:
        """Ends all retries: calls that wait to retry a request raise `Cancelled`."""
        self._stopped.set()

    def _sleep_ns(self, duration_ns: int) -> None:
        if self._stopped.wait(duration_ns / NS_PER_S):
            raise Cancelled("the retry of a request to Tier 2 was stopped on request")

    def _clean(self, store: ObjectStore) -> None:
        """Removes the files of interrupted uploads from a folder store, on the first call only."""
        with self._mutex:
            is_clean, self._is_clean = self._is_clean, True
        if not is_clean and isinstance(store, FolderStore):
            with contextlib.suppress(LakebedError):  # leftovers only take space
                store.remove_leftovers()

    def _on_retry(self, operation: str, error: Exception) -> None:
        self._retries.add()
        event(_log, "tier2_retry", level=logging.WARNING, operation=operation, error=error)

    def cold(self, paths: LogPaths, address: str, *, is_writer: bool = False) -> ColdSegments:
        """Returns a `ColdSegments`, which opens a log's warm files and its objects at `address`."""
        return ColdSegments(
            self._disk,
            paths.warm,
            open_store=lambda: self.store(address, is_writer=is_writer),
            new_mutex=self._runner.mutex,
        )
