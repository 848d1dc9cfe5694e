"""Opens the object store at an address. An address has one of these forms:

    s3://bucket[/prefix]        S3 or a compatible store, see `S3Options`
    file:///folder, or a path   a folder on the local disk
    memory://                   a store in memory, empty each time it is opened

Two more addresses, `identity.OWN_FOLDER` and `identity.OWN_STORE`, mean a folder or an object store
within the root itself; `services` opens those.
"""

from __future__ import annotations

import re
from urllib.parse import unquote

from lakebed.aof.tiers.folder_store import FolderStore
from lakebed.aof.tiers.object_store import ObjectStore, check_key
from lakebed.aof.tiers.obstore_store import S3Options, open_memory, open_s3
from lakebed.base.errors import BadConfig, BadName
from lakebed.base.files import Disk
from lakebed.base.units import shown

_BUCKET = re.compile(r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]", re.ASCII)


def open_object_store(url: str, *, disk: Disk, options: S3Options | None = None) -> ObjectStore:
    """Opens the store at an address; raises `BadConfig` if the address is not valid.

    Does not connect to the store or create a folder.
    """
    scheme, separator, path = url.partition("://")
    if not separator:
        return FolderStore(disk, _folder(url, url=url))
    if scheme == "file":
        return FolderStore(disk, _folder(unquote(path), url=url))
    if scheme == "memory" and not path:
        return open_memory()
    if scheme == "s3":
        bucket, _, prefix = path.partition("/")
        if not _BUCKET.fullmatch(bucket):
            raise BadConfig(
                f"{shown(url)}: {shown(bucket)} is not a valid bucket name: use 3 to 63 lower-case "
                "letters, digits, '.' and '-', with a letter or digit at both ends"
            )
        return open_s3(bucket, _checked(prefix.rstrip("/"), url=url), options or S3Options())
    raise BadConfig(
        f"{shown(url)} is not the address of an object store: use s3://bucket/prefix, "
        "file:///folder or a folder's path"
    )


def _folder(path: str, *, url: str) -> str:
    if not path.strip("/") or "\0" in path:
        raise BadConfig(f"{shown(url)}: the address must be the path of a folder other than /")
    if url.startswith("file:") and not path.startswith("/"):
        raise BadConfig(f"{shown(url)}: a file address needs three slashes, as in file:///folder")
    return path


def _checked(prefix: str, *, url: str) -> str:
    try:
        if prefix:
            check_key(prefix)
    except BadName as error:
        raise BadConfig(f"{shown(url)}: {error}") from None
    return prefix
