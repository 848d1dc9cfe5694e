"""What can be wrong with a request, by the names S3 has for it where it has one."""

from __future__ import annotations

from lakebed.base.errors import AlreadyExists, BadName, DataError, InputError, NotFound, RetryError


class NoSuchBucket(NotFound):
    """There is no bucket of that name."""


class NoSuchKey(NotFound):
    """There is no object of that key, or its newest version is a delete marker."""

    def __init__(self, message: str, *, marker_id: str | None = None) -> None:
        """`marker_id` is the version id of the delete marker that hides the object."""
        super().__init__(message)
        self.marker_id = marker_id


class NoSuchVersion(NotFound):
    """There is no such version of that key."""


class NoSuchUpload(NotFound):
    """The upload never began, was completed, or was aborted."""


class NoSuchAccessKey(NotFound):
    """There is no access key of that name."""


class SecretKeyMismatch(DataError):
    """The file `secret.key` is missing, or is not the one that the secrets were sealed with."""


class MetadataLost(DataError):
    """The database is missing or empty, and what it described is there."""


class MethodNotAllowed(InputError):
    """The version asked for is a delete marker: it can be deleted, nothing else."""

    def __init__(self, message: str, *, marker_id: str, modified_ms: int = 0) -> None:
        """`modified_ms` is when the object was deleted."""
        super().__init__(message)
        self.marker_id = marker_id
        self.modified_ms = modified_ms


class BucketExists(AlreadyExists):
    """A bucket of that name is there, and is not as asked for."""


class BucketNotEmpty(InputError):
    """Objects or old versions are left in it."""


class ReservedBucket(InputError):
    """The bucket belongs to the store itself: it can be read, and not changed."""

    exit_code = 77


class BadBucketName(BadName):
    """Not as S3 allows it."""


class BadKey(BadName):
    """Empty, longer than 1,024 bytes of UTF-8, or no text."""


class BadState(InputError):
    """A bucket cannot go from its state of versioning to that one."""


class PreconditionFailed(InputError):
    """The object is not as the request wants it; nothing was changed."""


class ConditionConflict(RetryError):
    """Another request changed the object meanwhile: ask again."""


class BadDigest(InputError):
    """The bytes are not those that the caller's checksum is of; nothing was stored."""


class BadSize(InputError):
    """The body is shorter or longer than it was said to be; nothing was stored."""


class BadPart(InputError):
    """A part that was not uploaded, or has another ETag."""


class BadPartOrder(InputError):
    """Parts must be named in ascending order."""


class PartTooSmall(InputError):
    """Every part but the last has at least 5 MiB."""

    def __init__(self, message: str, *, number: int = 0, size: int = 0, minimum: int = 0) -> None:
        super().__init__(message)
        self.number = number
        self.size = size
        self.minimum = minimum


class BadRange(InputError):
    """A range that has no byte in the object."""

    def __init__(self, message: str, *, size: int) -> None:
        super().__init__(message)
        self.size = size


class Damaged(DataError):
    """A chunk whose bytes are not those that were stored. None of them was handed out."""
