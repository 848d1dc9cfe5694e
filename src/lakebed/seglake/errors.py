"""The errors of the object store, named as in S3 where S3 has a name for them."""

from __future__ import annotations

from lakebed.base.errors import AlreadyExists, BadName, DataError, InputError, NotFound, RetryError


class NoSuchBucket(NotFound):
    """The bucket does not exist."""


class NoSuchKey(NotFound):
    """The object does not exist, or its newest version is a delete marker."""

    def __init__(self, message: str, *, marker_id: str | None = None) -> None:
        """`marker_id` is the version id of the delete marker that is the newest version, if any."""
        super().__init__(message)
        self.marker_id = marker_id


class NoSuchVersion(NotFound):
    """The object has no version with that id."""


class NoSuchUpload(NotFound):
    """No such multipart upload is in progress: the id is wrong, or the upload has already ended."""


class NoSuchAccessKey(NotFound):
    """The access key does not exist."""


class SecretKeyMismatch(DataError):
    """The file `secret.key` is missing, or does not contain the key that encrypted the secrets."""


class MetadataLost(DataError):
    """The metadata database is missing or empty, or records no change, but the store has data.

    Data here means segments, manifest files, `secret.key` or a write-ahead log.
    """


class MethodNotAllowed(InputError):
    """The requested version is a delete marker, which can only be deleted."""

    def __init__(self, message: str, *, marker_id: str, modified_ms: int = 0) -> None:
        """`marker_id` is the delete marker's version id, and `modified_ms` its creation time."""
        super().__init__(message)
        self.marker_id = marker_id
        self.modified_ms = modified_ms


class BucketExists(AlreadyExists):
    """The bucket already exists, with a different versioning state than requested."""


class BucketNotEmpty(InputError):
    """The bucket still has objects or old versions."""


class ReservedBucket(InputError):
    """The bucket belongs to the store itself and is read-only for clients."""

    exit_code = 77


class BadBucketName(BadName):
    """The bucket name breaks S3's naming rules."""


class BadKey(BadName):
    """The key is empty, longer than 1,024 bytes of UTF-8, or not valid Unicode."""


class BadState(InputError):
    """The bucket cannot be created with, or change to, the requested versioning state."""


class PreconditionFailed(InputError):
    """The object does not meet a condition of the request; nothing was changed."""


class ConditionConflict(RetryError):
    """Another request changed the source of a copy at the same time; the copy can be retried."""


class BadDigest(InputError):
    """The body or the completed object does not match an MD5 or checksum of the request.

    No object or part was stored.
    """


class BadSize(InputError):
    """The body or the completed object is shorter or longer than announced.

    No object or part was stored.
    """


class BadPart(InputError):
    """The request names a part that was not uploaded, or whose ETag or checksum is different."""


class BadPartOrder(InputError):
    """The request does not list each part once, in ascending order of part numbers."""


class PartTooSmall(InputError):
    """A part of a multipart upload, other than the last, is smaller than the minimum."""

    def __init__(self, message: str, *, number: int = 0, size: int = 0, minimum: int = 0) -> None:
        super().__init__(message)
        self.number = number
        self.size = size
        self.minimum = minimum


class BadRange(InputError):
    """The requested range contains no byte of the object."""

    def __init__(self, message: str, *, size: int) -> None:
        super().__init__(message)
        self.size = size


class Damaged(DataError):
    """A stored chunk is missing, or its bytes are damaged; none of its bytes were returned.

    Also raised for a copy whose source is marked as damaged.
    """
