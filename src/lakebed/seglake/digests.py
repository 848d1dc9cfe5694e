"""The digests of a body: the MD5, which becomes the ETag, and the checksums that are stored.

Checksum values are base64, as in S3. The checksum of an object that was uploaded in parts is either
*composite* (the digest of the parts' digests, a dash and the number of parts) or covers the *full
object*. The checksum of the full object can be computed from those of the parts only if it is a
CRC.
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
    """A CRC with the interface of a `hashlib` hash."""

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
    """Whether the full object's checksum can be computed from the checksums of its parts."""
    return algorithm in _CRCS


class Expected(NamedTuple):
    """The digests that a body must have, as the client announced them."""

    md5: bytes | None = None
    checksums: tuple[Checksum, ...] = ()


class BodyDigests:
    """Computes the MD5 and the requested checksums of a body that arrives in pieces."""

    def __init__(self, algorithms: Iterable[Algorithm]) -> None:
        self._md5 = hashlib.md5(usedforsecurity=False)
        self._checksums = {algorithm: start(algorithm) for algorithm in algorithms}

    @classmethod
    def of(cls, data: Buffer, algorithms: Iterable[Algorithm]) -> BodyDigests:
        """Returns the digests of a complete body."""
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
        """Raises `BadDigest` if the body does not have the expected digests.

        The algorithms of the expected checksums must be among those that are computed.
        """
        if expected.md5 is not None and expected.md5 != self.md5:
            raise BadDigest("the MD5 of the body differs from the MD5 sent with the request")
        for checksum in expected.checksums:
            actual = encoded(self._checksums[checksum.algorithm].digest())
            if checksum.value != actual:
                raise BadDigest(
                    f"the {checksum.algorithm.value} of the body is {actual}, "
                    f"but the request announced {checksum.value}"
                )


def encoded(digest: bytes) -> str:
    return base64.b64encode(digest).decode()


def decoded(checksum: Checksum) -> bytes:
    """Returns the decoded bytes of a checksum that is not composite.

    Raises `InputError` if the value is not base64 or has the wrong length for its algorithm.
    """
    try:
        digest = base64.b64decode(checksum.value, validate=True)
    except (binascii.Error, ValueError):
        digest = b""
    if len(digest) != _LENGTHS[checksum.algorithm]:
        raise InputError(
            f"{shown(checksum.value)} is not a {checksum.algorithm.value} checksum in base64"
        )
    return digest


def composite(algorithm: Algorithm, parts: Sequence[Checksum]) -> Checksum:
    """Returns the composite checksum of an object that was uploaded in `parts`.

    It consists of the digest of the parts' digests, `-`, and the number of parts.
    """
    whole = start(algorithm)
    for part in parts:
        whole.update(decoded(part))
    return Checksum(algorithm, f"{encoded(whole.digest())}-{len(parts)}", is_composite=True)


def combined(algorithm: Algorithm, parts: Iterable[tuple[Checksum, int]]) -> Checksum:
    """Returns the checksum of the full object, from the checksum and size of each part in order.

    `algorithm` must be a CRC, and the checksums of the parts must have it.
    """
    combine = _COMBINE[algorithm]
    whole = 0
    for part, size in parts:
        whole = combine(whole, int.from_bytes(decoded(part), "big"), size)
    return Checksum(algorithm, encoded(whole.to_bytes(_LENGTHS[algorithm], "big")))


def multipart_etag(part_etags: Sequence[str]) -> str:
    """Returns the ETag of a multipart object: the MD5 of the parts' MD5s, `-`, and their number."""
    whole = hashlib.md5(usedforsecurity=False)
    for etag in part_etags:
        whole.update(bytes.fromhex(etag))
    return f"{whole.hexdigest()}-{len(part_etags)}"
