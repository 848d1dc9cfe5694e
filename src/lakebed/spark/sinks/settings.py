"""The parsed options of a write to a topic: plain data, sent to the tasks and to the process
that commits.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from random import Random
from secrets import randbits
from typing import Any

from lakebed.base.clock import SystemClock
from lakebed.base.errors import BadConfig, NotFound
from lakebed.base.runner import ThreadRunner
from lakebed.base.units import KIB, MIB
from lakebed.client.store import RemoteStore
from lakebed.host.connect import first_of, served
from lakebed.host.store import Store
from lakebed.keratin.compression import Compression
from lakebed.keratin.config import TopicConfig
from lakebed.kernels.disk import real_disk
from lakebed.spark.backends import BACKEND_OPTIONS, Backend, backend_of
from lakebed.spark.options import Options
from lakebed.spark.sinks.encoder import Spread, Target
from lakebed.spark.staging import Inline, Staging
from lakebed.spark.staging_bucket import BucketStaging
from lakebed.spark.staging_folder import FolderStaging

NAME = "lakebed.topic"
OPTIONS = (
    *BACKEND_OPTIONS,
    "topic",
    "stagingPath",
    "stagingBucket",
    "compression",
    "batchBytes",
    "createTopic",
    "partitions",
    "txnAppId",
    "txnVersion",
)
STAGING_FOLDER = "staging"  # below the root
WAIT_S = 30.0  # maximum wait while another process opens or closes the store
ANSWER_S = 1800.0  # a large commit sends no response until it is durable

_COMPRESSIONS = tuple(compression.name.lower() for compression in Compression)
_BATCH_BYTES_MIN, _BATCH_BYTES_MAX = KIB, 32 * MIB


@dataclass(frozen=True, kw_only=True)
class SinkSettings:
    """The parsed options of a write to a topic.

    `application` and `version` identify the write, so that it happens once. They are None if the
    options do not set them. A stream then uses the query's id as the application, and always the
    batch number as the version. A batch write then gets a random application, so a repeated write
    appends its messages again.
    """

    backend: Backend
    target: Target
    staging_path: str | None
    staging_bucket: str | None
    application: str | None
    version: int | None

    @property
    def spread(self) -> Spread:
        """How rows without a partition or key are spread over the partitions.

        Round robin is only used if staging records which batches to commit. Otherwise a repeated
        run must put each row into the same partition, so rows are spread by their value.
        """
        is_decided = self.staging_path or self.staging_bucket
        return Spread.BY_TURN if is_decided else Spread.BY_VALUE

    @contextmanager
    def staging(self) -> Iterator[Staging]:
        with ExitStack() as stack:
            if self.staging_path:
                runner = stack.enter_context(ThreadRunner())
                yield FolderStaging(self.staging_path, disk=real_disk(), runner=runner)
            elif self.staging_bucket:
                store = stack.enter_context(self.backend.connect())
                yield BucketStaging(store.bucket(self.staging_bucket), clock=SystemClock())
            else:
                yield Inline()


def settings_of(values: Mapping[str, Any], *, is_streaming: bool) -> SinkSettings:
    """Parses the options of a write to a topic. Creates the topic if it does not exist and the
    option `createTopic` is set.

    Raises `BadConfig` if an option is invalid, and `NotFound` if the topic does not exist and is
    not to be created.
    """
    options = Options(NAME, values, known=OPTIONS)
    backend = backend_of(options)
    staging_path, staging_bucket = options.text("stagingPath"), options.text("stagingBucket")
    if backend.path:
        if staging_bucket:
            raise BadConfig(
                f"{NAME}: the option stagingBucket can only be used with the option endpoint"
            )
        staging_path = os.path.abspath(staging_path or os.path.join(backend.path, STAGING_FOLDER))
    elif staging_path:
        raise BadConfig(
            f"{NAME}: the option stagingPath can only be used with the option path, because an "
            "endpoint cannot read the files of its clients; with an endpoint, set stagingBucket"
        )
    application, version = options.text("txnAppId"), options.number("txnVersion")
    if is_streaming and version is not None:
        raise BadConfig(
            f"{NAME}: a stream must not set the option txnVersion: its version is the batch number"
        )
    if not is_streaming and (application is None) != (version is None):
        raise BadConfig(f"{NAME}: set both options txnAppId and txnVersion, or neither")
    return SinkSettings(
        backend=backend,
        target=_target(options, backend),
        staging_path=staging_path,
        staging_bucket=staging_bucket,
        application=application,
        version=version,
    )


@contextmanager
def writing(backend: Backend) -> Iterator[Store | RemoteStore]:
    """Opens the store for writing within the `with` block.

    Connects to the endpoint or, for a path, to the process that has the store open; if there is
    none, opens the store in this process. Raises `Locked` if another process has it open and cannot
    be connected to within `WAIT_S` seconds.
    """
    with ThreadRunner() as runner, _opened(backend, runner) as store:
        yield store


def _opened(backend: Backend, runner: ThreadRunner) -> Store | RemoteStore:
    if not backend.path:
        return _connect_with_retries(backend)
    return first_of(
        lambda: _served(backend),
        lambda: Store.open(backend.path),
        runner=runner,
        random=Random(randbits(64)),
        wait_s=WAIT_S,
    )


def _served(backend: Backend) -> RemoteStore | None:
    probe = served(backend.path, retry_s=WAIT_S)
    if probe is None:
        return None
    probe.close()
    return _connect_with_retries(backend)


def _connect_with_retries(backend: Backend) -> RemoteStore:
    return RemoteStore.open(
        backend.endpoint or backend.path,
        access_key=backend.access_key or None,
        secret_key=backend.secret_key or None,
        ca_file=backend.ca_file or None,
        retry_s=WAIT_S,
        answer_s=ANSWER_S,
    )


def _target(options: Options, backend: Backend) -> Target:
    topic = options.required("topic")
    creates_topic = options.flag("createTopic", default=False)
    partitions = options.number("partitions", minimum=1)
    if partitions is not None and not creates_topic:
        raise BadConfig(f"{NAME}: the option partitions needs the option createTopic")
    batch_bytes = options.size("batchBytes", minimum=_BATCH_BYTES_MIN) or MIB
    if batch_bytes > _BATCH_BYTES_MAX:
        raise options.wrong("batchBytes", f"at most {_BATCH_BYTES_MAX} bytes")
    compression = options.choice("compression", _COMPRESSIONS, default="none")
    try:
        partition_count, config = _existing_topic(backend, topic)
        if partitions not in (None, partition_count):
            raise BadConfig(
                f"{NAME}: the topic {topic} has {partition_count} partitions, not {partitions}: "
                "change or remove the option partitions"
            )
    except NotFound:
        if not creates_topic:
            raise NotFound(
                f"{NAME}: {backend} has no topic {topic}; set createTopic to true to create it"
            ) from None
        partition_count, config = _created(backend, topic, partitions)
    return Target(
        topic=topic,
        partition_count=partition_count,
        message_bytes_max=config.message_bytes_max,
        request_bytes_max=config.request_bytes_max,
        batch_bytes=batch_bytes,
        compression=Compression[compression.upper()],
    )


def _existing_topic(backend: Backend, name: str) -> tuple[int, TopicConfig]:
    """Returns the number of partitions and the configuration of a topic.

    Raises `NotFound` if the topic does not exist, or if there is no store in the folder.
    """
    with backend.open() as store:
        topic = store.topics.open(name)
        return topic.partition_count, topic.config


def _created(backend: Backend, name: str, partitions: int | None) -> tuple[int, TopicConfig]:
    with writing(backend) as store:
        topic = store.topics.ensure(name, partitions=partitions)
        return topic.partition_count, topic.config
