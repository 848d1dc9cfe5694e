"""Reads the segments that are not in Tier 0, directly from their warm files or objects.

A read does not wait until the segment is restored to Tier 0: it fetches and decompresses only the
frames that it needs.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Iterator, Mapping

from lakebed.aof.envelope import check_footer
from lakebed.aof.format import records_end_max
from lakebed.aof.manifest.state import Residency, SegmentState
from lakebed.aof.tiers.frames import ReadCounters
from lakebed.aof.tiers.names import WarmName
from lakebed.aof.tiers.object_store import ANSWERS_MAX, ObjectSource, ObjectStore
from lakebed.aof.tiers.ranges import FileSource, RangeSource
from lakebed.aof.tiers.seekable_reader import SeekableReader
from lakebed.aof.view import SegmentInfo
from lakebed.base.errors import DataError, LakebedError, NotFound
from lakebed.base.events import event
from lakebed.base.files import Disk
from lakebed.base.files.windows import Window
from lakebed.base.runner import Mutex

_log = logging.getLogger(__name__)


class ColdBytes:
    """The decompressed bytes of a segment, read from its warm file or its object in Tier 2.

    If the warm file is missing or damaged, the object is read instead. An object that arrives
    damaged is fetched again, because it may have been damaged in transit. This class implements
    `base.files.windows.ByteSource`.
    """

    def __init__(self, cold: ColdSegments, info: SegmentInfo) -> None:
        self._cold = cold
        self._resources = contextlib.ExitStack()
        self._info = info
        self._sources = iter(cold.sources(info))  # an iterator over a list, which threads may share
        self._reader = self._open_next(None)
        self.size = self._reader.size

    def window(self, start: int, end: int) -> Window:
        while True:
            reader = self._reader
            try:
                return Window(memoryview(reader.read(start, end - start)), start)
            except (NotFound, DataError) as error:
                if reader is self._reader:  # no other thread has replaced it
                    self._reader = self._open_next(error)

    def close(self) -> None:
        self._resources.close()

    def _open_next(self, error: LakebedError | None) -> SeekableReader:
        """Opens the next copy of the segment that can be opened.

        If no further copy can be opened, raises the error of the last copy that was tried; if none
        was left to try, raises `error`.
        """
        for info in self._sources:
            if error is not None and self._info.tier == 1:
                self._cold.on_failure(info.segment_id)
            try:
                return self._resources.enter_context(self._cold.reader(info))
            except (NotFound, DataError) as failure:
                error = failure
        assert error is not None, "there is at least one source"
        raise error


class ColdSegments:
    """Opens the warm files and objects of one log. Thread-safe."""

    def __init__(
        self,
        disk: Disk,
        warm_folder: str,
        *,
        open_store: Callable[[], ObjectStore],
        new_mutex: Callable[[], Mutex],
    ) -> None:
        """`open_store` opens the log's Tier 2; it is called when the first object is needed."""
        self._disk = disk
        self._warm_folder = warm_folder
        self._open_store = open_store
        self._new_mutex = new_mutex
        self.counters = ReadCounters()
        # Set by the owner: `look_up` returns a segment's recorded state, and `on_failure` is
        # called with the id of a segment whose warm file is bad.
        self.look_up: Callable[[int], SegmentState | None] = lambda _: None
        self.on_failure: Callable[[int], None] = lambda _: None
        self._store: ObjectStore | None = None

    @property
    def store(self) -> ObjectStore:
        if self._store is None:
            self._store = self._open_store()
        return self._store

    def warm_path(self, name: WarmName) -> str:
        return f"{self._warm_folder}/{name}"

    def warm_names(self) -> dict[int, WarmName]:
        """Returns the names of the existing warm files, by segment id."""
        if not self._disk.is_folder(self._warm_folder):
            return {}
        names = map(WarmName.parse, self._disk.names(self._warm_folder))
        return {name.segment_id: name for name in names if name is not None}

    @contextlib.contextmanager
    def opened(self, info: SegmentInfo) -> Iterator[RangeSource]:
        """Opens the warm file or object of a segment until the context ends.

        Raises `NotFound` if the file or object no longer exists.
        """
        if info.tier == 1:
            with self._disk.open(info.path) as file:
                yield FileSource(file)
        else:
            yield ObjectSource(self.store, info.path, size=self.store.head(info.path).size)

    @contextlib.contextmanager
    def reader(self, info: SegmentInfo) -> Iterator[SeekableReader]:
        with self.opened(info) as source:
            yield SeekableReader(source, mutex=self._new_mutex(), counters=self.counters)

    def sources(self, info: SegmentInfo) -> list[SegmentInfo]:
        """Returns the copies of a segment from which to read, in the order in which to try them.

        An object is listed several times, because its bytes may arrive damaged.
        """
        if info.tier == 2:
            return [info] * ANSWERS_MAX
        state = self.look_up(info.segment_id)
        if state is None or not state.residency & Residency.TIER2:
            return [info]
        return [info, *self.sources(_info(state, tier=2, path=state.key))]

    def bytes_of(self, info: SegmentInfo) -> ColdBytes:
        """Opens a segment for reading; its bytes are decompressed as they are read."""
        return ColdBytes(self, info)

    def record_count_after(self, info: SegmentInfo) -> int:
        """Returns the number of records in the log up to the end of that segment.

        Returns 0 if all copies of the segment are missing or damaged. Raises other errors, because
        the segment may be readable later.
        """
        try:
            content = self.bytes_of(info)
            try:
                start = records_end_max(content.size)
                slot = content.window(start, content.size).buffer
                footer = check_footer(slot, info, size=content.size)
            finally:
                content.close()
        except (NotFound, DataError) as error:
            event(_log, "cold_footer_unread", level=logging.WARNING, path=info.path, error=error)
            return 0
        return 0 if footer is None else footer.base_record_count + footer.record_count

    def infos(self, states: Iterator[SegmentState]) -> list[SegmentInfo]:
        """Returns an entry for each segment in `states` that can be read only from a colder tier.

        The entries have the order of `states`.
        """
        warm = self.warm_names()
        infos = (place(state, self._warm_folder, warm) for state in states)
        return [info for info in infos if info is not None]


def place(
    state: SegmentState, warm_folder: str, warm: Mapping[int, WarmName]
) -> SegmentInfo | None:
    """Returns the copy from which to read a segment that is only in colder tiers.

    That is its warm file, or else its object. Returns None for any other segment, and if the
    recorded warm file does not exist and there is no object.
    """
    if not state.is_cold:
        return None
    name = warm.get(state.segment_id)
    if state.residency & Residency.TIER1 and name is not None:
        return _info(state, tier=1, path=f"{warm_folder}/{name}")
    if state.residency & Residency.TIER2:
        return _info(state, tier=2, path=state.key)
    return None


def _info(state: SegmentState, *, tier: int, path: str) -> SegmentInfo:
    return SegmentInfo(
        segment_id=state.segment_id,
        base_offset=state.base_offset,
        created_at=0,  # only the segment's own header stores it
        path=path,
        is_sealed=True,
        end=state.durable_bytes,
        tier=tier,
    )
