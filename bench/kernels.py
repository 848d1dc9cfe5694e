"""Encoding and scanning: compiled, reference, and what the bytes alone cost."""

from __future__ import annotations

import random
from collections.abc import Iterator
from functools import partial
from typing import Any

import lakebed.kernels as compiled
from bench.row import Contestant, Row, Run
from lakebed.kernels import reference

SIZES = {"100 B": 100, "1 KiB": 1 << 10}
ENCODED_COUNT = 1_000  # a batch
SCANNED_BYTES = 16 << 20  # more than a core's own caches hold
REFERENCE_SCANNED_BYTES = 256 << 10
ROOM = 1 << 40


def rows() -> Iterator[Row]:
    for format_name, encode in (("aof", encode_aof), ("keratin", encode_keratin)):
        for size_name, size in SIZES.items():
            yield encode_row(f"{format_name}/encode/{size_name}", encode, size)
            yield scan_row(f"{format_name}/scan/{size_name}", format_name, encode, size)


def encode_aof(kernels: Any, payloads: list[bytes]) -> Any:
    return kernels.aof_encode(payloads, timestamps=1, ext_ids=0, capacity=ROOM)


def encode_keratin(kernels: Any, payloads: list[bytes]) -> Any:
    return kernels.keratin_encode(
        payloads, None, offsets=0, timestamps_ms=1, flags=0, capacity=ROOM
    )


def encode_row(name: str, encode: Any, size: int) -> Row:
    def setup(kernels: Any) -> Run:
        payloads = random_payloads(size, ENCODED_COUNT)

        def run() -> float:
            encode(kernels, payloads)
            return len(payloads)

        return run

    def joined() -> Run:
        payloads = random_payloads(size, ENCODED_COUNT)
        return lambda: len(b"".join(payloads)) / size

    return Row(
        name=name,
        unit="records",
        baseline="reference",
        contestants=[
            Contestant("compiled", partial(setup, compiled)),
            Contestant("reference", partial(setup, reference)),
            Contestant("only joined", joined),
        ],
    )


def scan_row(name: str, format_name: str, encode: Any, size: int) -> Row:
    def scanning(kernels: Any, data_bytes: int) -> Run:
        data = encode(compiled, random_payloads(size, data_bytes // size)).data
        scan = getattr(kernels, f"{format_name}_scan")

        def run() -> float:
            return float(scan(data, 0, len(data), count_max=ROOM).end)

        return run

    def summing() -> Run:
        data = encode(compiled, random_payloads(size, SCANNED_BYTES // size)).data
        checksum = compiled.crc64nvme if format_name == "aof" else compiled.crc32c

        def run() -> float:
            checksum(data)
            return len(data)

        return run

    return Row(
        name=name,
        unit="bytes",
        baseline="reference",
        contestants=[
            Contestant("compiled", partial(scanning, compiled, SCANNED_BYTES)),
            Contestant("reference", partial(scanning, reference, REFERENCE_SCANNED_BYTES)),
            Contestant("one checksum over all", summing),
        ],
    )


def random_payloads(size: int, count: int) -> list[bytes]:
    """Not all different: making them must not take longer than the measurement."""
    source = random.Random(size)
    some = [source.randbytes(size) for _ in range(min(count, 1000))]
    return [some[index % len(some)] for index in range(count)]
