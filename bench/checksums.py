"""The CRCs beside the PyPI packages, and beside a plain copy of the same bytes."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import crc32c as crc32c_package
from awscrt import checksums as awscrt_checksums

from bench.row import Contestant, Row, Run
from lakebed import kernels

SIZES = {"100 B": 100, "4 KiB": 4 << 10, "1 MiB": 1 << 20}
RUN_BYTES = 1 << 20  # of one run, in as many calls as it takes


def rows() -> Iterator[Row]:
    ours = {"crc32c": kernels.crc32c, "crc64nvme": kernels.crc64nvme}
    peers = {
        "crc32c": ("PyPI crc32c", crc32c_package.crc32c),
        "crc64nvme": ("awscrt", awscrt_checksums.crc64nvme),
    }
    for name, (peer_name, peer) in peers.items():
        for size_name, size in SIZES.items():
            yield Row(
                name=f"{name}/{size_name}",
                unit="bytes",
                baseline=peer_name,
                contestants=[
                    Contestant("lakebed", partial(calls, ours[name], size)),
                    Contestant(peer_name, partial(calls, peer, size)),
                    Contestant("copy", partial(copies, size)),
                ],
            )


def calls(function: Callable[..., Any], size: int) -> Run:
    data = random.Random(size).randbytes(size)
    count = max(1, min(2000, RUN_BYTES // size))

    def run() -> float:
        for _ in range(count):
            function(data)
        return count * size

    return run


def copies(size: int) -> Run:
    """What memory allows: the same calls, each copying the bytes into one place."""
    place = memoryview(bytearray(size))

    def copy(data: bytes) -> None:
        place[:] = data

    return calls(copy, size)
