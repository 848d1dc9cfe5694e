"""Inputs that are wrong, or that change while they are looked at."""

from __future__ import annotations

import gc
import sys
import threading
from array import array
from collections.abc import Callable
from typing import Any

import pytest

from lakebed.base.errors import InputError
from lakebed.kernels.results import Stop
from tests.kernels.samples import U64_MAX, Kernels, aof_data

STRIDED = memoryview(bytes(20))[::2]


def encode(kernels: Kernels, payloads: Any, **named: Any) -> Any:
    return kernels.aof_encode(
        payloads, **{"timestamps": 0, "ext_ids": 0, "capacity": 1 << 30, **named}
    )


@pytest.mark.parametrize("wrong", [None, "text", 5, 1.5, [b"x"], object(), STRIDED])
def test_what_is_not_contiguous_bytes_is_refused(kernels: Kernels, wrong: Any) -> None:
    keratin = {"offsets": 0, "timestamps_ms": 0, "flags": 0, "capacity": 9}
    calls: list[Callable[[], object]] = [
        lambda: encode(kernels, [b"fine", wrong]),
        lambda: kernels.keratin_encode([b"fine", wrong], None, **keratin),
        lambda: kernels.aof_scan(wrong, 0, 0, count_max=1),
        lambda: kernels.keratin_scan(wrong, 0, 0, count_max=1),
        lambda: kernels.aof_find(wrong, 0, 0),
        lambda: kernels.crc32c(wrong),
        lambda: kernels.crc64nvme(wrong),
        lambda: kernels.write_and_sync(1, 0, [wrong], sync=False),
    ]
    if wrong is not None:
        calls.append(lambda: kernels.keratin_encode([b"fine"], [wrong], **keratin))
    for call in calls:
        with pytest.raises(InputError, match="must be"):
            call()


@pytest.mark.parametrize("wrong", ["text", b"bytes", 7, None, memoryview(b"ab")])
def test_what_is_not_a_sequence_of_payloads_is_refused(kernels: Kernels, wrong: Any) -> None:
    with pytest.raises(InputError):
        encode(kernels, wrong)


@pytest.mark.parametrize(
    "wrong",
    [-1, U64_MAX + 1, [1], [1, 2, 3], [1, -1], [1, U64_MAX + 1], [1, None], [1, 2.0], None, "ab"],
)
def test_numbers_out_of_range_or_of_another_count_are_refused(kernels: Kernels, wrong: Any) -> None:
    for name in ("timestamps", "ext_ids"):
        with pytest.raises(InputError, match=name):
            encode(kernels, [b"a", b"b"], **{name: wrong})


@pytest.mark.parametrize("wrong", [-1, 1 << 16, [0, 1 << 16], array("i", [0, -1]), [0]])
def test_flags_are_sixteen_bits(kernels: Kernels, wrong: Any) -> None:
    with pytest.raises(InputError, match="flags"):
        kernels.keratin_encode(
            [b"a", b"b"], None, offsets=0, timestamps_ms=0, flags=wrong, capacity=999
        )


def test_headers_are_one_a_payload(kernels: Kernels) -> None:
    for headers in ([], [b""], [b"", b"", b""]):
        with pytest.raises(InputError, match=r"headers has . items, expected 2"):
            kernels.keratin_encode(
                [b"a", b"b"], headers, offsets=0, timestamps_ms=0, flags=0, capacity=999
            )


@pytest.mark.parametrize(
    ("start", "end"), [(-1, 8), (0, 33), (9, 8), (33, 33), (0, 1 << 70), (-(1 << 70), 8), (0, None)]
)
def test_a_range_outside_the_buffer_is_refused(kernels: Kernels, start: Any, end: Any) -> None:
    for scan in (kernels.aof_scan, kernels.keratin_scan):
        with pytest.raises(InputError, match=r"start|end"):
            scan(bytes(32), start, end, count_max=1)
    with pytest.raises(InputError, match=r"start|end"):
        kernels.aof_find(bytes(32), start, end)


def test_limits_may_be_huge_but_not_negative(kernels: Kernels) -> None:
    assert len(encode(kernels, [b"a"], capacity=1 << 90).offsets) == 1
    assert kernels.aof_scan(b"", 0, 0, count_max=1 << 90).stop == Stop.END
    with pytest.raises(InputError, match="capacity"):
        encode(kernels, [b"a"], capacity=-1)
    with pytest.raises(InputError, match="count_max"):
        kernels.aof_scan(b"", 0, 0, count_max=-1)


def test_a_checksum_to_continue_must_have_its_width(kernels: Kernels) -> None:
    for wrong in (-1, 1 << 64, None, "0"):
        with pytest.raises(InputError, match="crc"):
            kernels.crc64nvme(b"", wrong)
        with pytest.raises(InputError, match="crc64"):
            encode(kernels, [b"a"], crc64=wrong)
    with pytest.raises(InputError, match="crc"):
        kernels.crc32c(b"", 1 << 32)


def test_a_number_that_empties_the_lists_while_it_is_read_changes_nothing(
    kernels: Kernels,
) -> None:
    payloads: list[bytes] = [b"kept %d" % index for index in range(50)]
    numbers: list[Any] = [0] * 50

    class Emptying:
        def __index__(self) -> int:
            payloads.clear()
            numbers.clear()
            gc.collect()
            return 7

    numbers[25] = Emptying()
    plain = encode(kernels, list(payloads), timestamps=[0] * 25 + [7] + [0] * 24)
    assert encode(kernels, payloads, timestamps=numbers).data == plain.data
    assert payloads == []


def test_an_iterator_that_changes_its_own_list_is_read_once(kernels: Kernels) -> None:
    class Growing(list[bytes]):
        def __len__(self) -> int:
            self.append(b"more")
            return 1 << 10

        def __iter__(self) -> Any:
            return iter((b"one", b"two"))

    assert len(encode(kernels, Growing([b"x"])).offsets) == 2


@pytest.mark.skipif(sys.version_info < (3, 12), reason="__buffer__ in Python is new in 3.12")
def test_a_buffer_that_empties_the_list_while_it_is_exported_changes_nothing(
    kernels: Kernels,
) -> None:
    payloads: list[Any] = []

    class Emptying:
        def __buffer__(self, flags: int) -> memoryview:
            payloads.clear()
            return memoryview(b"exported")

    payloads += [b"first", Emptying(), b"last"]
    assert len(encode(kernels, payloads).offsets) == 3


def test_a_released_view_is_refused(kernels: Kernels) -> None:
    view = memoryview(bytearray(10))
    view.release()
    with pytest.raises(InputError, match="memoryview"):
        encode(kernels, [view])


def test_every_buffer_is_released_after_success_and_after_refusal(kernels: Kernels) -> None:
    payload, buffer = bytearray(b"payload"), bytearray(aof_data([b"x"]))
    stamps = array("Q", [1])
    encode(kernels, [payload], timestamps=stamps)
    kernels.aof_scan(buffer, 0, len(buffer), count_max=5)
    kernels.crc32c(payload)
    for wrong in ([payload, None], [payload, b""]):
        with pytest.raises(InputError):
            encode(kernels, wrong, timestamps=stamps)
    with pytest.raises(InputError):
        kernels.aof_scan(buffer, 5, 1, count_max=5)
    payload.append(0)  # would raise BufferError while exported
    buffer.append(0)
    stamps.append(0)


def test_a_payload_that_another_thread_changes_is_summed_as_it_was_copied(
    compiled: Kernels,
) -> None:
    payloads = [bytearray(b"0" * 5_000) for _ in range(200)]
    stopping = threading.Event()

    def change() -> None:
        turn = 0
        while not stopping.is_set():
            turn += 1
            for payload in payloads[::7]:
                payload[turn % 5_000] = turn & 0xFF
                try:
                    payload.append(1)
                    payload.pop()
                except BufferError:  # it is being encoded
                    pass

    thread = threading.Thread(target=change)
    thread.start()
    try:
        for _ in range(30):
            data = encode(compiled, payloads).data
            scan = compiled.aof_scan(data, 0, len(data), count_max=1000)
            assert (len(scan.offsets), scan.stop) == (200, Stop.END)
    finally:
        stopping.set()
        thread.join()


def test_a_list_that_another_thread_changes_is_encoded_as_it_was(compiled: Kernels) -> None:
    payloads = [b"0" * 100] * 1000
    stopping = threading.Event()

    def change() -> None:
        while not stopping.is_set():
            payloads.clear()
            payloads.extend([b"%d" % index * 20 for index in range(1000)])

    thread = threading.Thread(target=change)
    thread.start()
    try:
        for _ in range(100):
            data = encode(compiled, payloads).data
            assert compiled.aof_scan(data, 0, len(data), count_max=9999).stop == Stop.END
    finally:
        stopping.set()
        thread.join()


def test_a_buffer_that_changes_under_a_scan_is_never_left(compiled: Kernels) -> None:
    buffer = bytearray(aof_data([b"x" * 100] * 2000))
    whole = bytes(buffer)
    stopping = threading.Event()

    def change() -> None:
        while not stopping.is_set():
            for index in range(0, len(buffer), 128 * 37):
                buffer[index : index + 4] = b"\xff\xff\xff\x7f"
                buffer[index : index + 4] = whole[index : index + 4]

    thread = threading.Thread(target=change)
    thread.start()
    try:
        for _ in range(100):
            scan = compiled.aof_scan(buffer, 0, len(buffer), count_max=1 << 40)
            assert scan.end <= len(buffer)
            assert compiled.aof_find(buffer, 8, len(buffer)) < len(buffer)
    finally:
        stopping.set()
        thread.join()
