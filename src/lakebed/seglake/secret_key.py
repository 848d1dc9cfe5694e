"""The file `secret.key` of a root, whose key encrypts the secrets of access keys.

Checking a signature needs the secret itself, so secrets are encrypted, not hashed: AES-256-GCM with
a new nonce each time and the access key as associated data, so that the secret of one key cannot be
moved to another. The database alone reveals no secret. The file is created when the first secret is
encrypted, readable only by its owner, and never changes.

Invariant: a key file that encrypted a secret is never replaced. Each encrypted secret contains the
id of its key file. If the file is missing or belongs to another root, using a secret raises an
error, and the encrypted secrets are not changed, so that the right file can be restored.
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
    path: str  # of the key file
    key_id: bytes
    key: bytes

    def __repr__(self) -> str:
        return f"SecretKey({self.path!r})"

    def seal(self, secret: str, *, access_key: str, random_bytes: RandomBytes) -> bytes:
        nonce = random_bytes(_NONCE_BYTES)
        start = SEALED_SECRET.pack(SealedSecret(SECRET_VERSION, self.key_id, nonce))
        return start + AESGCM(self.key).encrypt(nonce, secret.encode(), access_key.encode())

    def unseal(self, sealed: bytes, *, access_key: str) -> str:
        """Decrypts the secret of an access key.

        Raises `SecretKeyMismatch` if another key encrypted the secret, `UnknownVersion` if the
        secret's format is unknown, and `Torn` or `Corrupt` if the secret is damaged.
        """
        start = SEALED_SECRET.unpack(sealed)
        what = f"the secret of access key {access_key}"
        if start.version != SECRET_VERSION:
            raise UnknownVersion(
                f"{what} is encrypted in an unknown format, version {start.version}"
            )
        if start.key_id != self.key_id:
            raise SecretKeyMismatch(
                f"{what} was encrypted with another key: restore the key file of this root",
                path=self.path,
                expected=start.key_id.hex(),
                found=self.key_id.hex(),
            )
        try:
            secret = AESGCM(self.key).decrypt(
                start.nonce, sealed[SEALED_SECRET.size :], access_key.encode()
            )
        except InvalidTag:
            raise Corrupt(f"{what} is damaged") from None
        return secret.decode()


def read_secret_key(disk: Disk, path: str) -> SecretKey:
    """Reads the key file.

    Raises `NotFound` if it does not exist, `UnknownVersion` if its format version is unknown, and
    `Corrupt` if it is damaged.
    """
    data = read_file(disk, path, size_max=SECRET_KEY_FILE.size)
    if len(data) < SECRET_KEY_FILE.size:
        raise Corrupt("the secret key file is truncated: restore it from a backup", path=path)
    record = SECRET_KEY_FILE.unpack(data)
    if record.magic != SECRET_KEY_MAGIC:
        raise Corrupt("the file is not a secret key file: wrong magic number", path=path)
    if record.version != SECRET_VERSION:
        raise UnknownVersion(f"unknown version {record.version} of the secret key file", path=path)
    if record.checksum != blake3(data[:_CHECKED_BYTES]).digest():
        raise Corrupt("the secret key file is damaged: wrong checksum", path=path)
    return SecretKey(path, record.key_id, record.key)


def require_secret_key(disk: Disk, path: str) -> SecretKey:
    """Reads the key file of a root that has secrets.

    Raises `SecretKeyMismatch` if the file does not exist, `UnknownVersion` if its format version is
    unknown, and `Corrupt` if it is damaged.
    """
    try:
        return read_secret_key(disk, path)
    except NotFound:
        raise SecretKeyMismatch(
            "the secret key file is missing, and access keys cannot be used without it: restore it "
            "from a backup",
            path=path,
        ) from None


def first_secret_key(disk: Disk, path: str, *, random_bytes: RandomBytes) -> SecretKey:
    """Returns the key of a root that has no secrets yet; creates the key file if there is none.

    The key file is durable on return. An existing file is written again, because the process that
    created it may have crashed before it was durable.
    """
    try:
        key = read_secret_key(disk, path)
    except NotFound:
        key = SecretKey(path, random_bytes(_KEY_ID_BYTES), random_bytes(_KEY_BYTES))
    _remove_temporaries(disk, path)
    replace_atomically(disk, path, encode_secret_key(key))
    return key


def _remove_temporaries(disk: Disk, path: str) -> None:
    """Removes temporary key files that a crash left."""
    folder, start = os.path.dirname(path), os.path.basename(path) + "."
    for name in disk.names(folder):
        if name.startswith(start) and name.endswith(TEMPORARY_SUFFIX):
            disk.unlink(os.path.join(folder, name))


def encode_secret_key(key: SecretKey) -> bytes:
    blank = SecretKeyFile(SECRET_KEY_MAGIC, SECRET_VERSION, key.key_id, key.key, bytes(32))
    checksum = blake3(SECRET_KEY_FILE.pack(blank)[:_CHECKED_BYTES]).digest()
    return SECRET_KEY_FILE.pack(blank._replace(checksum=checksum))
