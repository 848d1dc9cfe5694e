"""Creates, lists, disables and enables the access keys that clients sign requests with.

Only two methods return a secret: `create`, to the caller that creates the key, and `open`, to the
code that checks a signature. The database stores secrets encrypted (see `secret_key`).

A crash may lose the time when a key was last used.
"""

from __future__ import annotations

import contextlib
import os
from base64 import b32encode
from typing import TYPE_CHECKING, Any

from lakebed.base.clock import NS_PER_MS, Clock
from lakebed.base.commit import Barrier
from lakebed.base.errors import AlreadyExists, InputError, LakebedError, TooLarge
from lakebed.base.files import Disk
from lakebed.base.runner import Runner
from lakebed.base.units import shown
from lakebed.seglake.change import Change
from lakebed.seglake.errors import NoSuchAccessKey
from lakebed.seglake.meta.database import Database
from lakebed.seglake.meta.rows import ApiKeyRow
from lakebed.seglake.meta.snapshots import Snapshots
from lakebed.seglake.meta.writer import Writer
from lakebed.seglake.model import RW_POLICY, Chunk, CreatedKey, KeyInfo

# Imported only when a secret is encrypted or decrypted, which most processes never do.
if TYPE_CHECKING:
    from lakebed.seglake.secret_key import RandomBytes, SecretKey

# The policy of the access key that the server creates as the first credentials. A key with this
# policy has no limit of concurrent requests.
ROOT_POLICY = "root"

LABEL_CHARACTERS_MAX = 256

_ACCESS_KEY_START = "LAKE"
_ACCESS_KEY_RANDOM_BYTES = 10  # encoded as 16 letters and digits
_SECRET_RANDOM_BYTES = 25  # encoded as 40 letters and digits


class ReadOnlyAccessKeys:
    """Lists access keys, never their secrets. Thread-safe."""

    def __init__(self, metadata: Snapshots) -> None:
        self._metadata = metadata

    def list(self) -> list[KeyInfo]:
        """Returns all keys, oldest first."""
        with self._metadata.snapshot() as reader:
            return [_info(row) for row in reader.api_keys()]

    def get(self, access_key: str) -> KeyInfo:
        """Returns the key; raises `NoSuchAccessKey` if it does not exist."""
        with self._metadata.snapshot() as reader:
            row = reader.api_key(access_key)
        return _info(_require(row, access_key))


class AccessKeys(ReadOnlyAccessKeys):
    """Creates, lists, enables and disables access keys. Thread-safe."""

    def __init__(
        self,
        database: Database,
        barrier: Barrier[Change[Any], Any],
        *,
        disk: Disk,
        path: str,
        clock: Clock,
        runner: Runner,
        random_bytes: RandomBytes = os.urandom,
    ) -> None:
        """`path` names the file `secret.key`, which `create` writes for the first access key."""
        super().__init__(database)
        self._barrier = barrier
        self._disk = disk
        self._path = path
        self._clock = clock
        self._random_bytes = random_bytes
        self._mutex = runner.mutex()
        self._secret_key: SecretKey | None = None  # guarded by the mutex
        self.generation = 0  # grows whenever the result of `open` may have changed

    def create(
        self, *, label: str = "", inflight_max: int | None = None, policy: str = RW_POLICY
    ) -> CreatedKey:
        """Creates an access key and returns it with its secret. The key is durable on return.

        `inflight_max` limits its concurrent requests; None means the endpoint's limit. A key with
        the policy `root` has no limit.
        """
        check_label(label)
        if inflight_max is not None and inflight_max < 1:
            raise InputError(
                f"inflight_max is {inflight_max}, but must be at least 1 concurrent request"
            )
        access_key = _ACCESS_KEY_START + self._letters(_ACCESS_KEY_RANDOM_BYTES)
        secret = self._letters(_SECRET_RANDOM_BYTES)
        sealed = self._sealing_key().seal(
            secret, access_key=access_key, random_bytes=self._random_bytes
        )
        created_ms = self._clock.wall_ns() // NS_PER_MS
        row = ApiKeyRow(
            access_key, sealed, policy, True, inflight_max, label or None, created_ms, None
        )

        def apply(writer: Writer, _chunks: tuple[Chunk, ...]) -> None:
            if writer.api_key(access_key) is not None:
                raise AlreadyExists(f"access key {access_key} already exists")
            writer.add_api_key(row)

        Change(self._barrier, apply).run()
        self.generation += 1
        return CreatedKey(_info(row), secret)

    def disable(self, access_key: str) -> KeyInfo:
        """Disables the key: requests signed with it are refused. Idempotent.

        Raises `NoSuchAccessKey` if the key does not exist.
        """
        return self.set_enabled(access_key, is_enabled=False)

    def enable(self, access_key: str) -> KeyInfo:
        """Enables a disabled key again. Idempotent.

        Raises `NoSuchAccessKey` if the key does not exist.
        """
        return self.set_enabled(access_key, is_enabled=True)

    def set_enabled(self, access_key: str, *, is_enabled: bool) -> KeyInfo:
        """Enables or disables the key. Idempotent.

        Raises `NoSuchAccessKey` if the key does not exist.
        """

        def apply(writer: Writer, _chunks: tuple[Chunk, ...]) -> ApiKeyRow:
            row = _require(writer.api_key(access_key), access_key)
            writer.enable_api_key(access_key, is_enabled=is_enabled)
            return row._replace(is_enabled=is_enabled)

        try:
            return _info(Change(self._barrier, apply).run())
        finally:
            self.generation += 1  # also on failure: the commit may have happened

    def open(self, access_key: str) -> tuple[KeyInfo, str] | None:
        """Returns the key and its secret, or None if the key is unknown or disabled.

        Raises `SecretKeyMismatch` if `secret.key` is missing or belongs to another store, and
        another `DataError` if it or the stored secret is damaged.
        """
        with self._metadata.snapshot() as reader:
            row = reader.api_key(access_key)
        if row is None or not row.is_enabled:
            return None
        with self._mutex:
            key = self._required_key()
        return _info(row), key.unseal(row.secret, access_key=access_key)

    def note_use(self, access_key: str, *, used_ms: int) -> None:
        """Records that the key was used at `used_ms`, without waiting until that is durable.

        The time may be lost, without an error, if the commit queue is full, the change fails or the
        process crashes.
        """

        def apply(writer: Writer, _chunks: tuple[Chunk, ...]) -> None:
            writer.note_use_of_api_key(access_key, used_ms)

        with contextlib.suppress(LakebedError):  # the next write reports a lasting failure
            Change(self._barrier, apply).submit(timeout=0)

    def _sealing_key(self) -> SecretKey:
        from lakebed.seglake.secret_key import first_secret_key

        with self._mutex:
            with self._metadata.snapshot() as reader:
                has_secrets = bool(reader.api_keys())
            if has_secrets or self._secret_key is not None:
                return self._required_key()
            self._secret_key = first_secret_key(
                self._disk, self._path, random_bytes=self._random_bytes
            )
            return self._secret_key

    def _required_key(self) -> SecretKey:
        """Returns the key that encrypts the secrets of access keys. The caller must hold the mutex.

        Raises `SecretKeyMismatch` if the file `secret.key` is missing, and another `DataError` if
        it is damaged.
        """
        from lakebed.seglake.secret_key import require_secret_key

        if self._secret_key is None:
            self._secret_key = require_secret_key(self._disk, self._path)
        return self._secret_key

    def _letters(self, byte_count: int) -> str:
        return b32encode(self._random_bytes(byte_count)).decode()


def check_label(label: str) -> None:
    if len(label) > LABEL_CHARACTERS_MAX:
        raise TooLarge("the length of a key's label", size=len(label), limit=LABEL_CHARACTERS_MAX)
    if not label.isprintable():
        raise InputError(f"the label {shown(label)} contains characters that are not printable")


def _require(row: ApiKeyRow | None, access_key: str) -> ApiKeyRow:
    if row is None:
        raise NoSuchAccessKey(f"access key {shown(access_key)} does not exist")
    return row


def _info(row: ApiKeyRow) -> KeyInfo:
    return KeyInfo(
        access_key=row.access_key,
        label=row.label or "",
        policy=row.policy,
        is_enabled=row.is_enabled,
        inflight_max=row.inflight_max,
        created_ms=row.created_ms,
        last_used_ms=row.last_used_ms,
    )
