"""What can be wrong with a request, by the names S3 has for it where it has one."""

from __future__ import annotations

from lakebed.base.errors import AlreadyExists, BadName, DataError, InputError, NotFound, RetryError


class NoSuchBucket(NotFound):
    """There is no bucket of that name."""


class NoSuchKey(NotFound):
    """There is no object with that key, or its newest version is a delete marker."""

    def __init__(self, message: str, *, marker_id: str | None = None) -> None:
        """`marker_id` is the version id of the delete marker that hides the object."""
        super().__init__(message)
        self.marker_id = marker_id


class NoSuchVersion(NotFound):
    """There is no such version of that key."""


class NoSuchUpload(NotFound):
    """There is no such upload: it was never started, or it was completed or aborted."""


class NoSuchAccessKey(NotFound):
    """There is no such access key."""


class SecretKeyMismatch(DataError):
    """The file `secret.key` is missing, or is not the one that encrypted the secrets."""


class MetadataLost(DataError):
    """The metadata database is missing or empty, but the data that it described exists."""


class MethodNotAllowed(InputError):
    """The requested version is a delete marker, which can only be deleted."""

    def __init__(self, message: str, *, marker_id: str, modified_ms: int = 0) -> None:
        """`modified_ms` is when the object was deleted."""
        super().__init__(message)
        self.marker_id = marker_id
        self.modified_ms = modified_ms


class BucketExists(AlreadyExists):
    """A bucket of that name exists with other properties than those requested."""


class BucketNotEmpty(InputError):
    """The bucket still has objects or old versions."""


class ReservedBucket(InputError):
    """The bucket belongs to the store itself: it can be read but not changed."""

    exit_code = 77


class BadBucketName(BadName):
    """The bucket name is not valid in S3."""


class BadKey(BadName):
    """The key is empty, longer than 1,024 bytes of UTF-8, or not text."""


class BadState(InputError):
    """A bucket cannot change from its current versioning state to the requested one."""


class PreconditionFailed(InputError):
    """The object does not meet the condition of the request. Nothing was changed."""


class ConditionConflict(RetryError):
    """Another request changed the object at the same time. Try again."""


class BadDigest(InputError):
    """The bytes do not match the caller's checksum. Nothing was stored."""


class BadSize(InputError):
    """The body is shorter or longer than declared. Nothing was stored."""


class BadPart(InputError):
    """A part was not uploaded, or has a different ETag."""


class BadPartOrder(InputError):
    """The parts are not in ascending order."""


class PartTooSmall(InputError):
    """A part other than the last has less than 5 MiB."""

    def __init__(self, message: str, *, number: int = 0, size: int = 0, minimum: int = 0) -> None:
        super().__init__(message)
        self.number = number
        self.size = size
        self.minimum = minimum


class BadRange(InputError):
    """The byte range does not overlap the object."""

    def __init__(self, message: str, *, size: int) -> None:
        super().__init__(message)
        self.size = size


class Damaged(DataError):
    """The bytes of a chunk do not match its hash. None of them were returned."""
