"""What the tiers of all logs of a root share: the settings, and the object stores they use."""

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
    """One for each root that is open."""

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
        """`store` takes the place of whatever an address means.

        `own_store` is in the root's own object store, if that can be reached: then it is where new
        logs have their Tier 2, unless the settings say otherwise.
        """
        self.config = config or SharedTierConfig()
        self.counters = Counters()
        self._root = root
        self._disk = disk
        self._runner = runner
        self._random = random or Random()
        self._given = store
        self._own_store = own_store
        self._stopped = runner.event()
        self._mutex = runner.mutex()
        self._is_clean = False  # guarded by _mutex
        self._retries = self.counters.counter("tier2_retries")

    @property
    def address(self) -> str:
        """Of Tier 2, for logs that are created now."""
        return self.config.url or (OWN_FOLDER if self._own_store is None else OWN_STORE)

    def check_address(self, address: str) -> None:
        """`BadConfig` if nothing at that address can be reached from here."""
        if address == OWN_STORE and self._own_store is None and self._given is None:
            raise BadConfig(
                f"{address}: this log's Tier 2 is inside its store: "
                "open the log through lakebed.Store, not by itself"
            )

    def store(self, address: str, *, is_writer: bool = False) -> ObjectStore:
        """The store at an address that a log has recorded; failures that pass are tried again.

        The root's own folder is cleaned for its first writer: who has the root's lock is alone.
        """
        self.check_address(address)
        if self._given is not None:
            found = self._given
        elif address == OWN_STORE and self._own_store is not None:
            found = self._own_store
        else:
            url = os.path.join(self._root, OWN_FOLDER) if address == OWN_FOLDER else address
            found = open_object_store(url, disk=self._disk, options=self.config.s3_options())
            if is_writer and address == OWN_FOLDER:
                self._clean(found)
        return RetryingStore(
            found,
            random=self._random,
            sleep_ns=self._sleep_ns,
            policy=self.config.retry_policy(),
            on_retry=self._on_retry,
        )

    def stop(self) -> None:
        """Nothing is tried again from here on: who waits to do so is told `Cancelled`."""
        self._stopped.set()

    def _sleep_ns(self, duration_ns: int) -> None:
        if self._stopped.wait(duration_ns / NS_PER_S):
            raise Cancelled("Tier 2: stopped on request")

    def _clean(self, found: ObjectStore) -> None:
        """Once, and before anything is put."""
        with self._mutex:
            is_clean, self._is_clean = self._is_clean, True
        if not is_clean and isinstance(found, FolderStore):
            with contextlib.suppress(LakebedError):  # what is left takes space, no more
                found.remove_leftovers()

    def _on_retry(self, operation: str, error: Exception) -> None:
        self._retries.add()
        event(_log, "tier2_retry", level=logging.WARNING, operation=operation, error=error)

    def cold(self, paths: LogPaths, address: str, *, is_writer: bool = False) -> ColdSegments:
        """The colder copies of a log's segments."""
        return ColdSegments(
            self._disk,
            paths.warm,
            open_store=lambda: self.store(address, is_writer=is_writer),
            new_mutex=self._runner.mutex,
        )
