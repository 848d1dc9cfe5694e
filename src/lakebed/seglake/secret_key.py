"""The file `secret.key` of a root, and what is sealed with it: the secrets of access keys.

A secret must be known in clear to check a signature, so it is not hashed but encrypted: AES-256-GCM
with a new nonce each time, the access key being the associated data, so that the secret of one key
cannot be put in the place of another's. Whoever has the database alone has no secret. The file is
made when the first secret is sealed, for its owner alone to read, and never changed.

Invariant: a file is never put in the place of one that sealed something. What it sealed names it;
a missing file, or that of another root, is an error that says so, and what is sealed stays as it
is until the right file is back.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import NamedTuple

from blake3 import blake3
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from lakebed.base.errors import Corrupt, NotFound, UnknownVersion
from lakebed.base.files import TEMPORARY_SUFFIX, Disk, read_file, replace_atomically
from lakebed.seglake.errors import SecretKeyMismatch
from lakebed.seglake.format import (
    SEALED_SECRET,
    SECRET_KEY_FILE,
    SECRET_KEY_MAGIC,
    SECRET_VERSION,
    SealedSecret,
    SecretKeyFile,
)

RandomBytes = Callable[[int], bytes]

_KEY_ID_BYTES, _KEY_BYTES, _NONCE_BYTES = 16, 32, 12
_CHECKED_BYTES = SECRET_KEY_FILE.offset_of("checksum")


class SecretKey(NamedTuple):
    path: str  # where it was read from
    key_id: bytes
    key: bytes

    def __repr__(self) -> str:
        return f"SecretKey({self.path!r})"

    def seal(self, secret: str, *, access_key: str, random_bytes: RandomBytes) -> bytes:
        nonce = random_bytes(_NONCE_BYTES)
        start = SEALED_SECRET.pack(SealedSecret(SECRET_VERSION, self.key_id, nonce))
        return start + AESGCM(self.key).encrypt(nonce, secret.encode(), access_key.encode())

    def unseal(self, sealed: bytes, *, access_key: str) -> str:
        """The secret; an error that says which of the two, file or secret, is not right."""
        start = SEALED_SECRET.unpack(sealed)
        what = f"the secret of access key {access_key}"
        if start.version != SECRET_VERSION:
            raise UnknownVersion(f"{what} is sealed in version {start.version}")
        if start.key_id != self.key_id:
            raise SecretKeyMismatch(
                f"not the key that sealed {what}: restore the file that belongs to this root",
                path=self.path,
                expected=start.key_id.hex(),
                found=self.key_id.hex(),
            )
        try:
            opened = AESGCM(self.key).decrypt(
                start.nonce, sealed[SEALED_SECRET.size :], access_key.encode()
            )
        except InvalidTag:
            raise Corrupt(f"{what} is damaged") from None
        return opened.decode()


def read_secret_key(disk: Disk, path: str) -> SecretKey:
    """`NotFound` if there is none."""
    data = read_file(disk, path, size_max=SECRET_KEY_FILE.size)
    if len(data) < SECRET_KEY_FILE.size:
        raise Corrupt("the key that seals secrets is cut short", path=path)
    record = SECRET_KEY_FILE.unpack(data)
    if record.magic != SECRET_KEY_MAGIC:
        raise Corrupt("not the key that seals secrets", path=path)
    if record.version != SECRET_VERSION:
        raise UnknownVersion(f"version {record.version} of the key that seals secrets", path=path)
    if record.checksum != blake3(data[:_CHECKED_BYTES]).digest():
        raise Corrupt("the key that seals secrets is damaged", path=path)
    return SecretKey(path, record.key_id, record.key)


def require_secret_key(disk: Disk, path: str) -> SecretKey:
    """Of a root where something was sealed."""
    try:
        return read_secret_key(disk, path)
    except NotFound:
        raise SecretKeyMismatch(
            "missing, and the secrets of access keys were sealed with it: restore it", path=path
        ) from None


def first_secret_key(disk: Disk, path: str, *, random_bytes: RandomBytes) -> SecretKey:
    """Of a root where nothing was sealed yet: durable when this returns.

    If there is one, it stays. Whoever made it may have crashed before it was durable, so that it
    is written once more.
    """
    try:
        key = read_secret_key(disk, path)
    except NotFound:
        key = SecretKey(path, random_bytes(_KEY_ID_BYTES), random_bytes(_KEY_BYTES))
    _remove_temporaries(disk, path)
    replace_atomically(disk, path, encode_secret_key(key))
    return key


def _remove_temporaries(disk: Disk, path: str) -> None:
    """What a crash left: a key that nobody uses is nothing to leave about."""
    folder, start = os.path.dirname(path), os.path.basename(path) + "."
    for name in disk.names(folder):
        if name.startswith(start) and name.endswith(TEMPORARY_SUFFIX):
            disk.unlink(os.path.join(folder, name))


def encode_secret_key(key: SecretKey) -> bytes:
    blank = SecretKeyFile(SECRET_KEY_MAGIC, SECRET_VERSION, key.key_id, key.key, bytes(32))
    checksum = blake3(SECRET_KEY_FILE.pack(blank)[:_CHECKED_BYTES]).digest()
    return SECRET_KEY_FILE.pack(blank._replace(checksum=checksum))
