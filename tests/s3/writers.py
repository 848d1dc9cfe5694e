"""Clients that change objects until the server is gone, and write down what it acknowledged."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable
from typing import Any

from botocore.exceptions import ConnectionError as NotConnected
from botocore.exceptions import HTTPClientError, IncompleteReadError

from lakebed.base.units import KIB, MIB
from tests.s3.ledger import Content, Ledger, Story, Upload

PART_BYTES_MIN = 5 * MIB
SIZES = (0, 1, 700, 5 * KIB, 40 * KIB, 70 * KIB, 300 * KIB, 5 * MIB)
WEIGHTS = (1, 2, 12, 8, 4, 4, 3, 1)  # most are small: those are committed many at once
UNANSWERED = (HTTPClientError, IncompleteReadError, NotConnected)


class Writer:
    """A thread with objects of its own. It ends when an answer does not come."""

    def __init__(self, ledger: Ledger, client: Any, stories: list[Story], seed: str) -> None:
        self._ledger = ledger
        self._client = client
        self._stories = stories
        self._random = random.Random(seed)
        self._name = seed
        self._turns = 0
        self._thread = threading.Thread(target=self._run, name=f"writer {seed}", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def join(self) -> None:
        self._thread.join(60)
        assert not self._thread.is_alive(), f"writer {self._name} hangs"

    def _run(self) -> None:
        kinds: list[tuple[Callable[[Story], None], int]] = [
            (self._put, 12),
            (self._delete, 3),
            (self._remove_version, 2),
            (self._copy, 2),
            (self._upload, 2),
            (self._delete_many, 1),
        ]
        acts = [act for act, _ in kinds]
        weights = [weight for _, weight in kinds]
        try:
            for story in self._stories:  # what a round before this one left open
                if story.upload is not None:
                    self._finish_upload(story, story.upload)
            while True:
                (act,) = self._random.choices(acts, weights)
                act(self._random.choice(self._stories))
        except UNANSWERED:
            return  # no answer: what was intended may have happened
        except BaseException as error:  # noqa: BLE001 - told by whoever waits
            self._ledger.fail(error)

    def _turn(self) -> str:
        self._turns += 1
        return f"{self._name}.{self._turns}"

    def _data(self) -> bytes:
        (size,) = self._random.choices(SIZES, WEIGHTS)
        return self._random.randbytes(size)

    def _put(self, story: Story) -> None:
        data, turn = self._data(), self._turn()
        story.intend(Content.of(data, turn))
        answer = self._client.put_object(
            Bucket=story.bucket, Key=story.key, Body=data, Metadata={"turn": turn}
        )
        story.acknowledge(answer.get("VersionId"))
        self._ledger.count()

    def _delete(self, story: Story) -> None:
        story.intend(None)
        answer = self._client.delete_object(Bucket=story.bucket, Key=story.key)
        story.acknowledge(answer.get("VersionId"))
        self._ledger.count()

    def _remove_version(self, story: Story) -> None:
        if not story.versions:
            return
        version_id = self._random.choice(list(story.versions))
        story.intend_removal(version_id)
        self._client.delete_object(Bucket=story.bucket, Key=story.key, VersionId=version_id)
        story.acknowledge_removal()
        self._ledger.count()

    def _delete_many(self, _story: Story) -> None:
        bucket = _story.bucket
        stories = [story for story in self._stories if story.bucket == bucket]
        doomed = self._random.sample(stories, self._random.randint(1, len(stories)))
        for story in doomed:
            story.intend(None)
        answer = self._client.delete_objects(
            Bucket=bucket, Delete={"Objects": [{"Key": story.key} for story in doomed]}
        )
        told = {one["Key"]: one for one in answer["Deleted"]}
        assert len(told) == len(doomed), f"{len(doomed)} were to be deleted: {answer}"
        for story in doomed:
            story.acknowledge(told[story.key].get("DeleteMarkerVersionId"))
            self._ledger.count()

    def _copy(self, story: Story) -> None:
        source = self._random.choice(self._stories)
        if source.current is None or source is story:
            return
        data = self._client.get_object(Bucket=source.bucket, Key=source.key)["Body"].read()
        copied = Content.of(data, source.current.turn)
        story.intend(copied._replace(etags=copied.etags | source.current.etags))
        answer = self._client.copy_object(
            Bucket=story.bucket,
            Key=story.key,
            CopySource={"Bucket": source.bucket, "Key": source.key},
        )
        story.acknowledge(answer.get("VersionId"))
        self._ledger.count()

    def _upload(self, story: Story) -> None:
        turn = self._turn()
        answer = self._client.create_multipart_upload(
            Bucket=story.bucket, Key=story.key, Metadata={"turn": turn}
        )
        story.upload = Upload(answer["UploadId"], turn)
        part_count = self._random.choice((1, 1, 1, 2))
        for number in range(1, part_count + 1):
            size = 9 * KIB if number == part_count else PART_BYTES_MIN
            self._put_part(story, story.upload, number, self._random.randbytes(size))
        self._complete(story, story.upload)

    def _put_part(self, story: Story, upload: Upload, number: int, data: bytes) -> None:
        upload.maybe_part = number, data
        self._client.upload_part(
            Bucket=story.bucket,
            Key=story.key,
            UploadId=upload.upload_id,
            PartNumber=number,
            Body=data,
        )
        upload.parts[number], upload.maybe_part = data, None
        self._ledger.count()

    def _complete(self, story: Story, upload: Upload) -> None:
        content = Content.of_parts(upload.parts.values(), upload.turn)
        story.intend(content)
        upload.may_be_complete = True
        listed = self._client.list_parts(
            Bucket=story.bucket, Key=story.key, UploadId=upload.upload_id
        )
        answer = self._client.complete_multipart_upload(
            Bucket=story.bucket,
            Key=story.key,
            UploadId=upload.upload_id,
            MultipartUpload={
                "Parts": [
                    {"PartNumber": part["PartNumber"], "ETag": part["ETag"]}
                    for part in listed["Parts"]
                ]
            },
        )
        story.acknowledge(answer.get("VersionId"))
        story.upload = None
        self._ledger.count()

    def _finish_upload(self, story: Story, upload: Upload) -> None:
        """One that a kill interrupted: its parts are there."""
        if upload.maybe_part is not None:
            self._put_part(story, upload, *upload.maybe_part)
        if not upload.parts:
            self._put_part(story, upload, 1, self._random.randbytes(KIB))
        self._complete(story, upload)
