"""The digests of a body: MD5 for its ETag, and the checksums that are stored with an object.

Values are written in base64 as S3 writes them. The checksum of a multipart upload is either
*composite*, the digest of its parts' digests with their number behind it, or that of the *full
object*, which only CRCs can be combined to.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple, Protocol

from lakebed.base.errors import InputError
from lakebed.base.layout import Buffer
from lakebed.base.units import shown
from lakebed.kernels import crc32_combine, crc32c, crc32c_combine, crc64_combine, crc64nvme
from lakebed.seglake.errors import BadDigest
from lakebed.seglake.model import Algorithm, Checksum

MD5_BYTES = 16

_Crc = Callable[[Buffer, int], int]


class Digest(Protocol):
    def update(self, data: Buffer, /) -> None: ...

    def digest(self) -> bytes: ...


class _RunningCrc:
    """A CRC with the face of a hash."""

    __slots__ = ("_crc", "_function", "_length")

    def __init__(self, function: _Crc, length: int) -> None:
        self._function = function
        self._length = length
        self._crc = 0

    def update(self, data: Buffer, /) -> None:
        self._crc = self._function(data, self._crc)

    def digest(self) -> bytes:
        return self._crc.to_bytes(self._length, "big")


_CRCS: Mapping[Algorithm, tuple[_Crc, int]] = {
    Algorithm.CRC32: (zlib.crc32, 4),
    Algorithm.CRC32C: (crc32c, 4),
    Algorithm.CRC64NVME: (crc64nvme, 8),
}
_COMBINE = {
    Algorithm.CRC32: crc32_combine,
    Algorithm.CRC32C: crc32c_combine,
    Algorithm.CRC64NVME: crc64_combine,
}
_LENGTHS = {Algorithm.SHA1: 20, Algorithm.SHA256: 32} | {
    algorithm: length for algorithm, (_, length) in _CRCS.items()
}


def start(algorithm: Algorithm) -> Digest:
    if algorithm in _CRCS:
        return _RunningCrc(*_CRCS[algorithm])
    return hashlib.new(algorithm.value.lower(), usedforsecurity=False)


def can_be_full(algorithm: Algorithm) -> bool:
    """Whether the checksum of a whole can be had from those of its parts."""
    return algorithm in _CRCS


class Expected(NamedTuple):
    """What the caller says about a body; what differs is refused with `BadDigest`."""

    md5: bytes | None = None
    checksums: tuple[Checksum, ...] = ()


class BodyDigests:
    """MD5, and the checksums that are wanted, of a body that arrives in pieces."""

    def __init__(self, algorithms: Iterable[Algorithm]) -> None:
        self._md5 = hashlib.md5(usedforsecurity=False)
        self._checksums = {algorithm: start(algorithm) for algorithm in algorithms}

    @classmethod
    def of(cls, data: Buffer, algorithms: Iterable[Algorithm]) -> BodyDigests:
        """Of a body that is all there."""
        digests = cls(algorithms)
        digests.update(data)
        return digests

    def update(self, data: Buffer) -> None:
        self._md5.update(data)
        for digest in self._checksums.values():
            digest.update(data)

    @property
    def md5(self) -> bytes:
        return self._md5.digest()

    def checksums(self) -> tuple[Checksum, ...]:
        return tuple(
            Checksum(algorithm, encoded(digest.digest()))
            for algorithm, digest in self._checksums.items()
        )

    def check(self, expected: Expected) -> None:
        """`BadDigest` if the body is another than the caller says."""
        if expected.md5 is not None and expected.md5 != self.md5:
            raise BadDigest("the MD5 of the body is not the one that was given with it")
        for wanted in expected.checksums:
            found = encoded(self._checksums[wanted.algorithm].digest())
            if wanted.value != found:
                raise BadDigest(
                    f"the {wanted.algorithm.value} of the body is {found}, "
                    f"not {wanted.value} as was given with it"
                )


def encoded(digest: bytes) -> str:
    return base64.b64encode(digest).decode()


def decoded(checksum: Checksum) -> bytes:
    """The bytes of one that is not composite; `InputError` if it is none of its kind."""
    try:
        digest = base64.b64decode(checksum.value, validate=True)
    except (binascii.Error, ValueError):
        digest = b""
    if len(digest) != _LENGTHS[checksum.algorithm]:
        raise InputError(f"{shown(checksum.value)} is no {checksum.algorithm.value} in base64")
    return digest


def composite(algorithm: Algorithm, parts: Sequence[Checksum]) -> Checksum:
    """The digest of the parts' digests, and how many they are."""
    whole = start(algorithm)
    for part in parts:
        whole.update(decoded(part))
    return Checksum(algorithm, f"{encoded(whole.digest())}-{len(parts)}", is_composite=True)


def combined(algorithm: Algorithm, parts: Iterable[tuple[Checksum, int]]) -> Checksum:
    """The checksum of all parts, one behind the other, from (checksum, size) of each."""
    combine = _COMBINE[algorithm]
    whole = 0
    for part, size in parts:
        whole = combine(whole, int.from_bytes(decoded(part), "big"), size)
    return Checksum(algorithm, encoded(whole.to_bytes(_LENGTHS[algorithm], "big")))


def multipart_etag(part_etags: Sequence[str]) -> str:
    """The MD5 of the parts' MD5s, and how many they are."""
    whole = hashlib.md5(usedforsecurity=False)
    for etag in part_etags:
        whole.update(bytes.fromhex(etag))
    return f"{whole.hexdigest()}-{len(part_etags)}"
