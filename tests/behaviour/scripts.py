"""Scripts of calls with arguments that are right, nearly right, and wrong.

What no type checker would let pass is not here: what a program may get wrong is values.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from hypothesis import strategies as st

from lakebed.seglake.model import Algorithm


class Spoken(NamedTuple):
    call: str
    options: dict[str, Any]


Script = st.SearchStrategy[list[Spoken]]


def call(name: str, /, **options: st.SearchStrategy[Any]) -> st.SearchStrategy[Spoken]:
    return st.builds(Spoken, st.just(name), st.fixed_dictionaries(options))


def script(*calls: st.SearchStrategy[Spoken], first: Spoken | None = None) -> Script:
    """The calls that come more often are there more often."""
    rest = st.lists(st.one_of(*calls), min_size=12, max_size=24)
    return rest if first is None else rest.map(lambda found: [first, *found])


def maybe(strategy: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.none() | strategy


HUGE: Final = st.sampled_from([1 << 31, 1 << 32, (1 << 63) - 1, 1 << 63, 1 << 64, 1 << 80])
SMALL: Final = st.integers(0, 12)
NUMBERS: Final = st.one_of(SMALL, SMALL, SMALL, st.sampled_from([-1, -(1 << 63)]), HUGE)
PARTITIONS: Final = st.sampled_from([0, 0, 0, 0, 1, 1, 2, -1, 1 << 40])
DATA: Final = st.one_of(st.binary(max_size=20), st.sampled_from([b"", b"x" * 900, b"x" * 1100]))
PAYLOADS: Final = st.lists(DATA | st.just(None), max_size=4) | st.lists(DATA, min_size=1)
HEADERS: Final = st.lists(st.tuples(st.text(max_size=5), maybe(st.binary(max_size=5))), max_size=2)
WORDS: Final = st.sampled_from(["a", "b", "ä", "a b", "", "x" * 300, ".", "..", "a/b", "a\0b"])

_NO_NAMES = st.sampled_from([".", "..", "a/b", "A b", "ä", "x" * 300, "a\0"])
_STAGED = st.lists(st.sampled_from([b"a", b"b", b""]))  # an empty one is no batch
_STAMPS = st.one_of(st.integers(1, 100), st.lists(st.integers(1, 100), max_size=3), NUMBERS)
_PRODUCERS = st.tuples(
    st.sampled_from([5, 5, 5, 6, -1, 1 << 63]),
    st.sampled_from([0, 0, 1, 1, 2, -1, 1 << 15]),
    st.sampled_from([0, 0, 1, 2, 3, 5, -1, 1 << 31]),
)
_SETTINGS = st.sampled_from(
    [
        {}, {"message_bytes_max": 1000}, {"retention_ms": 5_000_000}, {"nonsense": 1},
        {"segment_bytes": 1}, {"segment_bytes": "text"}, {"ack": "after_fsync"}, {"ack": "never"},
        {"compact": True}, {"message_bytes_max": 1 << 70}, {"retention_ms": -1}, {"": 0},
        {"linger_ms_max": 1.5}, {"compact": "yes"},
    ]
)  # fmt: skip


def _appends() -> st.SearchStrategy[Spoken]:
    """With one thing that may be wrong."""
    right: dict[str, Any] = {
        "payloads": [b"a", b"b"], "partition": 0, "timestamps_ms": 9, "ack": None, "producer": None
    }  # fmt: skip
    odd: dict[str, st.SearchStrategy[Any]] = {
        "payloads": PAYLOADS,
        "partition": PARTITIONS,
        "headers": st.lists(HEADERS, max_size=3),
        "timestamps_ms": _STAMPS,
        "not_before_ms": st.sampled_from([0, 5, 1 << 50, -1, 1 << 63]),
        # Not after_write: when its messages are synced, and seen, is a matter of time.
        "ack": st.sampled_from(["after_fsync", "after_replicated"]),
        "timeout": st.just(5.0),
        "producer": _PRODUCERS,
    }
    return st.one_of(
        *[
            call(
                "append", **{one: st.just(value) for one, value in right.items()} | {name: odd_one}
            )
            for name, odd_one in odd.items()
        ],
        call(
            "append",
            payloads=st.lists(st.binary(min_size=1, max_size=9), min_size=1),
            key=maybe(st.binary(max_size=3)),
            timestamps_ms=st.just(3),
            ack=st.none(),
            producer=st.none(),
        ),
    )


def _plain_appends() -> st.SearchStrategy[Spoken]:
    """That succeed, most of them."""
    return call(
        "append",
        payloads=st.lists(st.binary(max_size=30), min_size=1, max_size=5),
        partition=st.sampled_from([0, 1]),
        timestamps_ms=st.integers(1, 100),
        ack=st.none(),
        producer=st.none(),
    )


TOPICS: Final = script(
    _plain_appends(),
    _plain_appends(),
    _appends(),
    _appends(),
    _appends(),
    call("append_keyed", messages=st.lists(st.tuples(maybe(st.binary(max_size=4)), DATA))),
    call("read", partition=PARTITIONS, start=maybe(NUMBERS), end=maybe(NUMBERS)),
    call(
        "scan", partition=PARTITIONS, offset=NUMBERS,
        max_bytes=maybe(NUMBERS), max_messages=maybe(NUMBERS),
    ),
    call(
        "read_batches", partition=PARTITIONS, start=maybe(SMALL), end=maybe(SMALL),
        batch_bytes_max=st.sampled_from([None, 1, 100, 1000, 1 << 30]),
    ),
    call("get", partition=PARTITIONS, offset=NUMBERS),
    # No larger limit: a record is larger if a client's producer sent it.
    call("fetch", partition=PARTITIONS, offset=NUMBERS, max_bytes=NUMBERS),
    call("follow", partition=PARTITIONS, start=maybe(NUMBERS)),
    call("ends", partition=PARTITIONS),
    call("offset_for_time", partition=PARTITIONS, timestamp_ms=st.integers(0, 120) | NUMBERS),
    call("truncate", partition=PARTITIONS, offset=SMALL | st.sampled_from([-1, 1 << 62])),
    call("seal", partition=PARTITIONS),
    call("sync", partition=PARTITIONS),
    call("segments", partition=PARTITIONS),
    call(
        "commit",
        application=WORDS,
        version=NUMBERS,
        batches=st.dictionaries(PARTITIONS, _STAGED, max_size=2),
    ),
    call("create", partitions=NUMBERS, settings=_SETTINGS),
    call("ensure", partitions=maybe(NUMBERS), settings=st.just({})),
    call("create_named", name=_NO_NAMES),
    call("configure", settings=_SETTINGS),
    call("delete"),
    call("names"),
    first=Spoken("create", {"partitions": 2, "settings": {"message_bytes_max": 1000}}),
)  # fmt: skip

_LEASES = st.sampled_from([60_000, 60_000, 120_000, 0, -1, 1 << 50, 1 << 64])
_LONG_LEASES = st.sampled_from([60_000, 120_000])
# One message, or all: a client's has a number on its way, which counts, too.
_BYTES = st.sampled_from([None, 1, 1, 1 << 20, 1 << 80])
_NO_BYTES = st.sampled_from([0, -1, -(1 << 63)])

GROUPS: Final = script(
    *[
        call(
            "append",
            keys=st.lists(st.sampled_from([b"a", b"b", b"c"]), min_size=1, max_size=5),
            partition=st.sampled_from([0, 1]),
        )
    ]
    * 3,
    *[call("lease", max_messages=st.integers(1, 6), lease_ms=_LONG_LEASES)] * 3,
    call("lease", max_messages=st.integers(1, 6), max_bytes=_BYTES, lease_ms=_LONG_LEASES),
    call("lease_wrongly", max_bytes=_NO_BYTES, lease_ms=_LONG_LEASES),
    call("lease_wrongly", max_messages=NUMBERS, lease_ms=_LONG_LEASES),
    call("lease_wrongly", max_messages=st.just(1), lease_ms=_LEASES),
    call("lease_wrongly", max_messages=SMALL, wait_s=st.sampled_from([-1.0, 1e12, 0.0])),
    call("ack", number=SMALL),
    call("ack", number=SMALL),
    call("ack_all", start=SMALL, end=SMALL),
    call("nack", number=SMALL, delay_ms=st.sampled_from([0, 0, 0, 600_000, -1, 1 << 63])),
    call("nack_all", start=SMALL, end=SMALL),
    call("extend", number=SMALL, lease_ms=maybe(_LEASES)),
    call("ack_stolen", number=SMALL, epoch=st.sampled_from([-1, 1, 100, 1 << 40])),
    call("lag"),
    call("describe"),
    call("peek", max_messages=NUMBERS, max_bytes=_BYTES | _NO_BYTES),
    call("reset", partition=maybe(PARTITIONS)),
    call("seek", offset=NUMBERS, partition=PARTITIONS),
    call("seek_to_time", timestamp_ms=st.integers(-1, 1 << 62)),
    call("seek_to_end"),
    call("dead_letters"),
    call("redrive", max_messages=NUMBERS),
    call("groups"),
    call("delete_group", group=st.sampled_from(["a group/ä", "none", "..", "x" * 300])),
    first=Spoken("append", {"keys": [b"a", b"b", b"a"], "partition": 0}),
)  # fmt: skip

_PLACES = st.integers(-9, 12)
_DURATIONS = st.sampled_from([60_000, 60_000, 120_000, 0, -1, 1 << 63, 1 << 80])

LOGS: Final = script(
    *[
        call(
            "append",
            payloads=st.lists(st.binary(min_size=1, max_size=30), min_size=1, max_size=4),
            ext_ids=st.integers(0, 9),
            timestamps=st.integers(1, 100),
        )
    ]
    * 3,
    call(
        "append",
        payloads=st.lists(DATA, min_size=1, max_size=3),
        ext_ids=st.one_of(NUMBERS, st.lists(SMALL, max_size=3)),
        timestamps=_STAMPS,
    ),
    call("append_one", payload=DATA, ext_id=NUMBERS, timestamp=NUMBERS, timeout=st.just(None)),
    call("append_one", payload=DATA, ext_id=SMALL, timestamp=SMALL, timeout=st.just(5.0)),
    call("get", number=_PLACES),
    call("read", start=maybe(_PLACES), end=maybe(_PLACES)),
    call("read_batches", start=maybe(_PLACES), end=maybe(_PLACES)),
    call("read_backward", start=maybe(_PLACES)),
    call("follow", start=maybe(SMALL)),
    call("seek_timestamp", timestamp_ns=st.integers(0, (1 << 64) - 1)),
    call("seal"),
    call("segments"),
    call("residency"),
    call("watermark", watermark=NUMBERS),
    call("ends"),
    call("open", name=_NO_NAMES),
    call("pin", segment_start=NUMBERS, segment_end=NUMBERS, duration_ms=_DURATIONS),
    call("pin", segment_start=st.just(0), segment_end=st.just(5), duration_ms=_DURATIONS),
    call("pin_offsets", partition=PARTITIONS, start=SMALL, end=NUMBERS, duration_ms=_DURATIONS),
    call("active"),
    call("renew", number=SMALL, duration_ms=_DURATIONS),
    call("release", number=SMALL),
    first=Spoken("append", {"payloads": [b"first"], "timestamps": 5}),
)  # fmt: skip

_KEYS = st.one_of(
    st.sampled_from(["k", "k", "k", "a/1", "a/2", "b"]),
    st.sampled_from(["/", "//", ".", "..", "a/../b", "ä ?#%&+", "a\nb", "\0", "x" * 1025]),
    st.sampled_from(["a\\b", " ", "%2e%2e", "x" * 1024]),
)
_VERSIONS = st.sampled_from([None, None, None, 0, 1, 2, -1])
_RANGES = st.tuples(maybe(NUMBERS), maybe(NUMBERS))
_KINDS = st.sampled_from(["enabled", "suspended", "disabled"])
_CONTENTS = st.sampled_from(
    [
        None, None, {"content_type": "image/jpeg"}, {"metadata": {"a": "b", "ä": "ö"}},
        {"cache_control": "no-store", "expires": "never"}, {"metadata": {"": ""}},
        {"metadata": {"a": "x" * 5000}}, {"content_type": "x" * 5000},
    ]
)  # fmt: skip
_ETAGS = st.sampled_from([None, None, None, "*", "0" * 32, "nonsense", '"quoted"', ""])

OBJECTS: Final = script(
    *[
        call(
            "put", key=st.sampled_from(["k", "a/1", "a/2"]), source=st.binary(max_size=50),
            content=st.none(), algorithm=st.none(),
        )
    ]
    * 2,
    call(
        "put", key=_KEYS, source=st.binary(max_size=50), content=_CONTENTS,
        if_match=_ETAGS, if_none_match=_ETAGS,
        algorithm=maybe(st.sampled_from(Algorithm)),
    ),
    call("get", key=_KEYS, version=_VERSIONS, byte_range=maybe(_RANGES)),
    call("get", key=st.just("k"), version=_VERSIONS, byte_range=_RANGES),
    call("read", key=_KEYS, version=_VERSIONS),
    call("head", key=_KEYS, version=_VERSIONS),
    call("delete", key=_KEYS, version=_VERSIONS, if_match=_ETAGS),
    call("delete_many", keys=st.lists(_KEYS, max_size=3), version=_VERSIONS),
    call("list", prefix=st.sampled_from(["", "a/", "\0", "ä"]), after=_KEYS),
    call(
        "list_page", prefix=st.sampled_from(["", "a", "a/"]), after=_KEYS,
        delimiter=st.sampled_from(["", "/", "//", "ä", "\0"]), max_keys=st.integers(1, 9) | HUGE,
    ),
    call("bucket", versioning=maybe(_KINDS)),
    call("bucket_named", name=st.sampled_from(["A", "..", "a/b", "a_b", "x" * 64, "1.1.1.1"])),
    call("set_versioning", versioning=_KINDS),
    call("buckets"),
    call("delete_bucket"),
    call("create_key", label=WORDS, inflight_max=maybe(st.integers(-1, 9))),
    call("key", call=st.sampled_from(["get", "disable", "enable"]), number=st.integers(-1, 3)),
    first=Spoken("bucket", {"versioning": None}),
)  # fmt: skip
