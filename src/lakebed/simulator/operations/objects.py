"""Client operations on objects and buckets: put, multipart upload, copy, read, list and delete."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from random import Random
from typing import Any

from lakebed.base.errors import InputError, LakebedError, NotFound
from lakebed.seglake.errors import (
    BadState,
    BucketExists,
    BucketNotEmpty,
    Damaged,
    MethodNotAllowed,
    NoSuchBucket,
    NoSuchKey,
    PreconditionFailed,
    ReservedBucket,
)
from lakebed.seglake.model import Deleted, ObjectInfo, State, Versioning
from lakebed.simulator.context import Answer, Context, Operation, Outcome, pick
from lakebed.simulator.model.objects import (
    BucketModel,
    KeyModel,
    KeyState,
    ModelVersion,
    Versions,
    after_delete,
    after_put,
    after_removal,
)
from lakebed.simulator.plan import Step
from lakebed.simulator.violation import Promise, Violation, require
from lakebed.store.lake_object_store import BUCKET as TIER2_BUCKET

NAMES = ("photos", "plain", "guarded")
KEYS = ("a", "b", "c/d", "c/e")
SIZES = (0, 20, 20, 5_000, 70_000)
MODIFIED_SLACK_MS = 2_000
_PART_BYTES_MIN = 10
HEAD_BYTES = 12  # enough of a content to tell it from all others
_VERSIONING = (Versioning.ENABLED, Versioning.DISABLED, Versioning.SUSPENDED)


def versions_of(versioning: Versioning) -> Versions:
    return Versions(versioning is Versioning.ENABLED, versioning is Versioning.SUSPENDED)


def _name(step: Step) -> str:
    return NAMES[step.arguments["bucket"]]


def _key(step: Step) -> str:
    return KEYS[step.arguments["key"]]


def known_bucket(context: Context, name: str) -> BucketModel | None:
    return context.model.buckets.get(name)


def content_of(step: Step, size: int, part: int = 0) -> bytes:
    head = f"object {step.number}.{part} ".encode()
    return head.ljust(size, b"0123456789"[step.number % 10 :][:1])[:size]


def part_heads(content: bytes) -> set[bytes]:
    """Returns the first bytes of each part of a content. Contents may have parts in common."""
    starts = (match.start() for match in re.finditer(b"object ", content))
    return {content[start : start + _PART_BYTES_MIN] for start in starts}


def _draw_bucket(random: Random) -> dict[str, Any]:
    return {"bucket": random.choice([0, 0, 1, 1, 2])}


def _draw_key(random: Random) -> dict[str, Any]:
    return {**_draw_bucket(random), "key": random.randrange(len(KEYS))}


@contextmanager
def _alone(context: Context, *keys: tuple[str, str]) -> Iterator[bool]:
    """Reserves objects for the caller. Each of `keys` is a bucket and a key, or a bucket and an
    empty key, which reserves the whole bucket.

    Yields False, and reserves nothing, if another client has reserved one of them.
    """
    busy: set[tuple[str, str]] = context.parts.setdefault("busy", set())
    wanted = set(keys)
    wholes = {(bucket, "") for bucket, _ in keys}
    is_whole = any(not key for _, key in keys)
    others = {entry for entry in busy if is_whole and (entry[0], "") in wholes}
    if busy & (wanted | wholes) or others:
        yield False
        return
    busy |= wanted
    try:
        yield True
    finally:
        busy -= wanted


def _missing_bucket(context: Context, name: str, what: str) -> Answer:
    known = known_bucket(context, name)
    if known is not None:
        require(
            known.maybe_gone or context.is_any_damaged,
            Promise.KEPT,
            f"{what}: bucket {name} is missing",
        )
        del context.model.buckets[name]
    return Answer(Outcome.NOTHING, f"{what}: bucket {name} does not exist")


def _require_bucket(context: Context, name: str) -> BucketModel | None:
    known = known_bucket(context, name)
    if known is not None:
        known.maybe_gone = False
    return known


# Buckets.


def _draw_create(random: Random) -> dict[str, Any]:
    return {**_draw_bucket(random), "versioning": random.choice([None, 0, 1])}


def _create_bucket(context: Context, step: Step) -> Answer:
    name = _name(step)
    index = step.arguments["versioning"]
    versioning = None if index is None else _VERSIONING[index]
    what = f"create bucket {name}"
    with _alone(context, (name, "")) as is_alone:
        if not is_alone:
            return Answer(Outcome.NOTHING, f"{what}: skipped, because another client is using it")
        known = known_bucket(context, name)
        context.model.maybe_buckets.add(name)
        try:
            context.surface(step).bucket(name, versioning=versioning)
            info = context.store.lake.buckets.get(name)
        except BucketExists:
            return Answer(
                Outcome.REFUSED, f"{what}: it already exists with another versioning state"
            )
        except LakebedError as error:
            if isinstance(error, InputError):
                context.model.maybe_buckets.discard(name)
            return context.refused(error, what, is_damaged=context.is_any_damaged)
        context.model.maybe_buckets.discard(name)
        if known is None:
            context.model.buckets[name] = BucketModel(name, versions_of(info.versioning))
        return Answer(Outcome.OK, what)


def _delete_bucket(context: Context, step: Step) -> Answer:
    name = _name(step)
    what = f"delete bucket {name}"
    with _alone(context, (name, "")) as is_alone:
        if not is_alone:
            return Answer(Outcome.NOTHING, f"{what}: skipped, because another client is using it")
        known = known_bucket(context, name)
        if known is not None and known.may_be_empty:
            known.maybe_gone = True
        try:
            context.store.delete_bucket(name)
        except BucketNotEmpty:
            wrong = f"{what}: refused as not empty, although it is empty"
            require(known is None or not known.is_empty, Promise.DELETED, wrong)
            return Answer(Outcome.REFUSED, f"{what}: it is not empty")
        except NotFound:
            return _missing_bucket(context, name, what)
        except LakebedError as error:
            return context.refused(error, what, is_damaged=context.is_any_damaged)
        wrong = f"{what}: deleted, although it has objects"
        require(known is None or known.may_be_empty, Promise.KEPT, wrong)
        context.model.buckets.pop(name, None)
        return Answer(Outcome.OK, what)


def _draw_versioning(random: Random) -> dict[str, Any]:
    return {**_draw_bucket(random), "versioning": random.choice([0, 2])}


def _set_versioning(context: Context, step: Step) -> Answer:
    name, versioning = _name(step), _VERSIONING[step.arguments["versioning"]]
    what = f"set versioning of bucket {name} to {versioning.value}"
    with _alone(context, (name, "")) as is_alone:
        known = known_bucket(context, name)
        if not is_alone or known is None:
            return Answer(
                Outcome.NOTHING, f"{what}: skipped, because it does not exist or is in use"
            )
        before = known.versions
        known.maybe_versions = [before, versions_of(versioning)]
        try:
            context.store.lake.buckets.set_versioning(name, versioning)
        except (BadState, ReservedBucket):
            known.maybe_versions = []
            return Answer(Outcome.REFUSED, what)
        except NoSuchBucket:
            return _missing_bucket(context, name, what)
        except LakebedError as error:
            return context.refused(error, what, is_damaged=context.is_any_damaged)
        known.versions, known.maybe_versions = versions_of(versioning), []
        return Answer(Outcome.OK, what)


# Writing.


def _draw_put(random: Random) -> dict[str, Any]:
    return {
        **_draw_key(random),
        "size": random.choice(SIZES),
        "condition": random.choice([None] * 5 + ["absent", "match", "stale"]),
    }


def _put(context: Context, step: Step) -> Answer:
    content = content_of(step, step.arguments["size"])
    what = f"put {len(content)} bytes as {_name(step)}/{_key(step)}"

    def act(bucket: Any, condition: dict[str, str]) -> ObjectInfo:
        info: ObjectInfo = bucket.put(_key(step), content, **condition)
        return info

    return _write(context, step, what, content, act)


def _draw_upload(random: Random) -> dict[str, Any]:
    return {
        **_draw_key(random),
        "sizes": [
            random.choice([_PART_BYTES_MIN, 3_000, 40_000]) for _ in range(random.choice([1, 2, 3]))
        ],
        "ends": random.choice(["complete", "complete", "abort", "never"]),
        "condition": None,
    }


def _upload(context: Context, step: Step) -> Answer:
    parts = [content_of(step, size, part) for part, size in enumerate(step.arguments["sizes"])]
    content = b"".join(parts)
    ends = step.arguments["ends"]
    what = (
        f"upload {len(parts)} parts as {_name(step)}/{_key(step)}, "
        f"{'leave the upload open' if ends == 'never' else ends + ' the upload'}"
    )

    def act(bucket: Any, condition: dict[str, str]) -> ObjectInfo | None:
        upload = bucket.upload(_key(step))
        for number, part in enumerate(parts, 1):
            upload.put(number, part)
        if ends == "abort":
            upload.abort()
        return upload.complete(**condition) if ends == "complete" else None

    return _write(context, step, what, content, act, is_written=ends == "complete")


def _write(
    context: Context,
    step: Step,
    what: str,
    content: bytes,
    act: Callable[[Any, dict[str, str]], ObjectInfo | None],
    *,
    is_written: bool = True,
) -> Answer:
    name, key = _name(step), _key(step)
    with _alone(context, (name, key)) as is_alone:
        known = known_bucket(context, name)
        if not is_alone or known is None:
            return Answer(
                Outcome.NOTHING, f"{what}: skipped, because the bucket does not exist or is in use"
            )
        model, versions = known.key(key), known.versions
        condition, must_fail, must_pass = _condition(context, step, known, model)
        begun_ms = context.machine.wall_ms

        def change(state: KeyState, version_id: str | None = None) -> KeyState:
            return after_put(state, ModelVersion(version_id, content), versions)

        before = list(model.states)
        if is_written:
            for each in known.possible_versions:
                model.maybe_changed(
                    lambda state, each=each: after_put(state, ModelVersion(None, content), each)  # type: ignore[misc]
                )
        try:
            bucket = context.bucket_surface(step, name)
            info = act(bucket, condition)
        except PreconditionFailed:
            model.states = before
            require(not must_pass, Promise.ERRORS, f"{what}: refused, although the condition holds")
            return Answer(Outcome.REFUSED, f"{what}: the condition does not hold")
        except NoSuchBucket:
            model.states = before
            return _missing_bucket(context, name, what)
        except LakebedError as error:
            if isinstance(error, InputError):
                model.states = before
            return context.refused(error, what, is_damaged=context.is_any_damaged)
        if not is_written or info is None:
            return Answer(Outcome.OK, what)
        require(
            not must_fail, Promise.KEPT, f"{what}: accepted, although the condition does not hold"
        )
        _check_modified(context, info, begun_ms, what)
        model.states = before
        if info.is_null != (not versions.is_enabled) and len(known.possible_versions) > 1:
            versions = next(v for v in known.possible_versions if v.is_enabled != info.is_null)
            known.versions, known.maybe_versions = versions, []
        model.changed(
            lambda state: after_put(state, ModelVersion(info.version_id, content), versions)
        )
        if all(len(state) == 1 for state in model.states):  # no older version is left
            known.damaged_keys.discard(key)
        context.parts.setdefault("etags", {})[name, key] = (content, info.etag)
        return Answer(Outcome.OK, what)


def _condition(
    context: Context, step: Step, known: BucketModel, model: KeyModel
) -> tuple[dict[str, str], bool, bool]:
    """Returns the condition of a put, whether the store must refuse the put, and whether it must
    accept the put. Both are false if it is not certain whether the condition is met.
    """
    kind = step.arguments["condition"]
    current = model.current()
    is_there, is_absent = None not in current, current == {None}
    is_sure = model.is_known and not known.damaged_keys
    if kind is None:
        is_guarded = known.name == "guarded" and context.machine.settings["if_match_bucket"]
        return {}, is_guarded and is_there and is_sure, is_sure and (not is_guarded or is_absent)
    if kind == "absent":
        return {"if_none_match": "*"}, is_there and is_sure, is_absent and is_sure
    if kind == "stale":
        return {"if_match": "f" * 32}, is_sure, False
    content, etag = context.parts.get("etags", {}).get((known.name, _key(step)), (None, "0" * 32))
    is_current = current == {content} and content is not None
    return {"if_match": etag}, content not in current and is_sure, is_current and is_sure


def _check_modified(context: Context, info: ObjectInfo, begun_ms: int, what: str) -> None:
    """Checks that Last-Modified is the current wall-clock time, even if the clock was set back."""
    low, high = begun_ms - MODIFIED_SLACK_MS, context.machine.wall_ms + MODIFIED_SLACK_MS
    wrong = f"{what}: Last-Modified is {info.modified_ms}, but the clock showed {begun_ms}"
    require(low <= info.modified_ms <= high, Promise.TIMES, wrong)


def _is_marked(context: Context, name: str, key: str) -> bool:
    """Returns whether the store has marked the object as damaged, as it does when a read fails."""
    try:
        return context.open_bucket(name).head(key).state is State.DAMAGED
    except LakebedError:
        return False


def _draw_copy(random: Random) -> dict[str, Any]:
    return {**_draw_key(random), "target": random.randrange(len(KEYS)), "condition": None}


def _copy(context: Context, step: Step) -> Answer:
    name, key, target = _name(step), _key(step), KEYS[step.arguments["target"]]
    what = f"copy {name}/{key} to {target}"
    with _alone(context, (name, key), (name, target)) as is_alone:
        known = known_bucket(context, name)
        if not is_alone or known is None or key == target:
            return Answer(
                Outcome.NOTHING,
                f"{what}: skipped, because the keys are equal or the bucket is missing or in use",
            )
        source, model, versions = known.key(key), known.key(target), known.versions
        contents = {content for content in source.current() if content is not None}
        before = list(model.states)
        for content in contents:
            for each in known.possible_versions:
                model.maybe_changed(
                    lambda state, each=each, content=content: after_put(  # type: ignore[misc]
                        state, ModelVersion(None, content), each
                    )
                )
        is_marked = key in known.damaged_keys and _is_marked(context, name, key)
        try:
            info = context.bucket_surface(step, name).copy(key, target)
        except (NoSuchKey, MethodNotAllowed):
            model.states = before
            wrong = f"{what}: the source is missing"
            require(None in source.current() or key in known.damaged_keys, Promise.KEPT, wrong)
            return Answer(Outcome.REFUSED, f"{what}: the object does not exist")
        except PreconditionFailed:
            model.states = before
            return Answer(Outcome.REFUSED, f"{what}: the bucket requires If-Match")
        except Damaged as error:
            model.states = before
            return context.refused(error, what, is_damaged=key in known.damaged_keys)
        except NoSuchBucket:
            model.states = before
            return _missing_bucket(context, name, what)
        except LakebedError as error:
            if isinstance(error, InputError):
                model.states = before
            return context.refused(error, what, is_damaged=context.is_any_damaged)
        require(
            bool(contents),
            Promise.NOT_INVENTED,
            f"{what}: copied, although the source does not exist",
        )
        context.parts.get("etags", {}).pop((name, target), None)
        wrong = f"{what}: copied, although the source is marked as damaged"
        require(not is_marked, Promise.DAMAGE_NEVER_SERVED, wrong)
        if info.is_null != (not versions.is_enabled) and len(known.possible_versions) > 1:
            versions = next(v for v in known.possible_versions if v.is_enabled != info.is_null)
        model.states = [
            after_put(state, ModelVersion(info.version_id, content), versions)
            for state in before
            for content in sorted(contents)
        ]
        if key in known.damaged_keys:
            known.damaged_keys.add(target)
        return Answer(Outcome.OK, what)


def _draw_delete(random: Random) -> dict[str, Any]:
    return {**_draw_key(random), "version": random.choice([None, None, 0, 1])}


def _delete(context: Context, step: Step) -> Answer:
    name, key = _name(step), _key(step)
    with _alone(context, (name, key)) as is_alone:
        known = known_bucket(context, name)
        if not is_alone or known is None:
            return Answer(
                Outcome.NOTHING,
                f"delete {name}/{key}: skipped, because the bucket does not exist or is in use",
            )
        model = known.key(key)
        version_id = _version_to_delete(step, model)
        what = f"delete {name}/{key}" + (
            "" if version_id is None else f", version {_shown(model, version_id)}"
        )
        before = list(model.states)
        _maybe_deleted(known, model, version_id)
        try:
            deleted = context.bucket_surface(step, name).delete(key, version_id=version_id)
        except NoSuchBucket:
            model.states = before
            return _missing_bucket(context, name, what)
        except LakebedError as error:
            if isinstance(error, InputError):
                model.states = before
            return context.refused(error, what, is_damaged=context.is_any_damaged)
        model.states = before
        _deleted(known, model, version_id, deleted)
        return Answer(Outcome.OK, what)


def _shown(model: KeyModel, version_id: str) -> str:
    for index, version in enumerate(model.states[0]):
        if version.version_id == version_id:
            return f"{index} of {len(model.states[0])}"
    return version_id


def _version_to_delete(step: Step, model: KeyModel) -> str | None:
    index = step.arguments.get("version")
    if index is None or not model.is_known:
        return None
    ids = [version.version_id for version in model.states[0] if version.version_id is not None]
    ids = [
        found for found, version in zip(ids, model.states[0], strict=False) if not version.is_null
    ]
    return pick(ids, index) if ids else None


def _maybe_deleted(known: BucketModel, model: KeyModel, version_id: str | None) -> None:
    if version_id is not None:
        model.maybe_changed(lambda state: after_removal(state, version_id))
        return
    for each in known.possible_versions:
        model.maybe_changed(lambda state, each=each: after_delete(state, None, each))  # type: ignore[misc]


def _deleted(known: BucketModel, model: KeyModel, version_id: str | None, deleted: Deleted) -> None:
    if version_id is not None:
        model.changed(lambda state: after_removal(state, version_id))
        return
    versions = known.versions
    if len(known.possible_versions) > 1:
        for each in known.possible_versions:
            model.maybe_changed(lambda state, each=each: after_delete(state, None, each))  # type: ignore[misc]
        return
    made = deleted.version_id if deleted.is_marker else None
    if versions.is_enabled and not deleted.is_marker:
        return  # there was no object to hide
    model.changed(lambda state: after_delete(state, made, versions))


def _draw_delete_many(random: Random) -> dict[str, Any]:
    return {**_draw_bucket(random), "count": random.choice([2, 3, 4]), "key": random.randrange(4)}


def _delete_many(context: Context, step: Step) -> Answer:
    name = _name(step)
    keys = [
        KEYS[(step.arguments["key"] + index) % len(KEYS)]
        for index in range(step.arguments["count"])
    ]
    keys = list(dict.fromkeys(keys))
    what = f"delete {', '.join(keys)} in bucket {name}"
    with _alone(context, *((name, key) for key in keys)) as is_alone:
        known = known_bucket(context, name)
        if not is_alone or known is None:
            return Answer(
                Outcome.NOTHING, f"{what}: skipped, because the bucket does not exist or is in use"
            )
        before = {key: list(known.key(key).states) for key in keys}
        for key in keys:
            _maybe_deleted(known, known.key(key), None)
        try:
            results = context.bucket_surface(step, name).delete_many(keys)
        except NoSuchBucket:
            return _missing_bucket(context, name, what)
        except LakebedError as error:
            return context.refused(error, what, is_damaged=context.is_any_damaged)
        failures = []
        for key, result in zip(keys, results, strict=True):
            if isinstance(result, Deleted):
                known.key(key).states = before[key]
                _deleted(known, known.key(key), None, result)
            else:
                failures.append(context.refused(result, what, is_damaged=context.is_any_damaged))
        return failures[0] if failures else Answer(Outcome.OK, what)


# Reading.


def _get(context: Context, step: Step) -> Answer:
    name, key = _name(step), _key(step)
    what = f"get {name}/{key}"
    with _alone(context, (name, key)) as is_alone:
        known = known_bucket(context, name)
        if not is_alone or known is None:
            return Answer(
                Outcome.NOTHING, f"{what}: skipped, because the bucket does not exist or is in use"
            )
        model = known.key(key)
        is_damaged = key in known.damaged_keys
        try:
            content = context.bucket_surface(step, name).read(key)
        except (NoSuchKey, MethodNotAllowed):
            if not is_damaged:
                model.saw_current(None, what)
            return Answer(Outcome.REFUSED, f"{what}: the object does not exist")
        except NoSuchBucket:
            return _missing_bucket(context, name, what)
        except LakebedError as error:
            return context.refused(error, what, is_damaged=is_damaged)
        _compare(model, content, what, is_damaged=is_damaged)
        return Answer(Outcome.OK, f"{what}: {len(content)} bytes")


def _compare(model: KeyModel, content: bytes, what: str, *, is_damaged: bool) -> None:
    if is_damaged:
        known = {version.content for state in model.states for version in state}
        require(content in known, Promise.DAMAGE_NEVER_SERVED, f"{what}: bytes that no client put")
    else:
        model.saw_current(content, what)


def _list(context: Context, step: Step) -> Answer:
    return check_bucket(context, _name(step), reads=False)


def check_bucket(context: Context, name: str, *, reads: bool) -> Answer:
    """Compares all versions of all keys with the model, and with `reads` also their contents."""
    what = f"list bucket {name}"
    with _alone(context, (name, "")) as is_alone:
        known = known_bucket(context, name)
        if not is_alone or known is None:
            return Answer(
                Outcome.NOTHING, f"{what}: skipped, because it does not exist or is in use"
            )
        try:
            bucket = context.open_bucket(name)
            rows = [listed.row for listed in bucket.versions()]
            current = [row.key for row in bucket.list()]
            if reads:
                _read_versions(context, bucket, known, rows)
        except NoSuchBucket:
            return _missing_bucket(context, name, what)
        except LakebedError as error:
            return context.refused(error, what, is_damaged=context.is_any_damaged)
        known.maybe_gone = False
        seen: dict[str, list[ModelVersion]] = {}
        for row in rows:
            is_marker = row.state is State.DELETED
            content = None if is_marker else bytes(row.size)
            version = ModelVersion(row.version_id, content, row.is_null)
            seen.setdefault(row.key, []).append(version)
        for key in sorted({*seen, *known.keys}):
            known.key(key).seen(seen.get(key, []), f"{name}/{key}")
        expected = [key for key, model in sorted(known.keys.items()) if None not in model.current()]
        wrong = f"{what}: the keys are {current}, expected {expected}"
        require(current == expected, Promise.KEPT, wrong)
        return Answer(Outcome.OK, f"{what}: {len(rows)} versions of {len(seen)} keys")


def _read_versions(context: Context, bucket: Any, known: BucketModel, rows: list[Any]) -> None:
    """Reads every version, and checks that its bytes are those that were put."""
    by_id: dict[str | None, set[bytes | None]] = {}
    for model in known.keys.values():
        for version in (version for state in model.states for version in state):
            by_id.setdefault(version.version_id, set()).add(version.content)
    for row in rows:
        if row.state is State.DELETED:
            continue
        where = f"{known.name}/{row.key}"
        try:
            content = bucket.read(row.key, version_id="null" if row.is_null else row.version_id)
        except LakebedError as error:
            context.refused(error, f"read {where}", is_damaged=row.key in known.damaged_keys)
            continue
        is_damaged = row.key in known.damaged_keys
        promise = Promise.DAMAGE_NEVER_SERVED if is_damaged else Promise.KEPT
        expected = by_id.get(row.version_id)
        if expected is not None and row.version_id is not None:
            require(
                content in expected,
                promise,
                f"{where}: a version has different bytes than were put",
            )
            known.key(row.key).resolve(row.version_id, content)
            continue
        states = known.key(row.key).states
        possible = {version.content for state in states for version in state}
        require(content in possible, promise, f"{where}: a version has bytes that no client put")
        known.key(row.key).identify(row.version_id, content)


def _touch_reserved(context: Context, step: Step) -> Answer:
    """Tries to delete an object of the bucket that is reserved for logs. The store must refuse."""
    what = f"delete an object of the reserved bucket {TIER2_BUCKET}"
    try:
        bucket = context.open_bucket(TIER2_BUCKET)
        keys = [row.key for row in bucket.list()]
        if not keys:
            return Answer(Outcome.NOTHING, f"{what}: the bucket is empty")
        key = pick(keys, step.arguments["key"])
        context.bucket_surface(step, TIER2_BUCKET).delete(key)
    except ReservedBucket:
        return Answer(Outcome.OK, f"{what}: refused, as required")
    except NoSuchBucket:
        return Answer(Outcome.NOTHING, f"{what}: the bucket does not exist")
    except LakebedError as error:
        return context.refused(error, what, is_damaged=context.is_any_damaged)
    raise Violation(Promise.KEPT, f"{what}: it was not refused")


def check_buckets(context: Context) -> None:
    """Checks that the store has the buckets that were created and not deleted, and no others.

    Accepts a bucket whose creation or deletion is in doubt either way. Then checks the contents of
    each bucket. Does nothing if the model has no buckets.
    """
    if not context.model.buckets and not context.model.maybe_buckets:
        return
    infos = {info.name: info for info in context.store.buckets()}
    for name in NAMES:
        known = known_bucket(context, name)
        info = infos.get(name)
        if info is None:
            _missing_bucket(context, name, "list buckets")
        elif known is None:
            wrong = f"bucket {name} exists, although it was deleted or never created"
            may = name in context.model.maybe_buckets
            require(may or context.is_any_damaged, Promise.DELETED, wrong)
            context.model.buckets[name] = BucketModel(name, versions_of(info.versioning))
        else:
            versions = versions_of(info.versioning)
            wrong = f"bucket {name} has unexpected versioning: {info.versioning.value}"
            require(versions in known.possible_versions, Promise.KEPT, wrong)
            known.versions, known.maybe_versions = versions, []
    context.model.maybe_buckets.clear()
    for name in sorted(context.model.buckets):
        check_bucket(context, name, reads=True)


OPERATIONS = (
    Operation("bucket.create", 1, _draw_create, _create_bucket),
    Operation("bucket.delete", 0.5, _draw_bucket, _delete_bucket),
    Operation("bucket.versioning", 0.5, _draw_versioning, _set_versioning),
    Operation("object.put", 8, _draw_put, _put),
    Operation("object.upload", 2, _draw_upload, _upload),
    Operation("object.copy", 2, _draw_copy, _copy),
    Operation("object.delete", 3, _draw_delete, _delete),
    Operation("object.delete_many", 1, _draw_delete_many, _delete_many),
    Operation("object.get", 4, _draw_key, _get),
    Operation("object.list", 2, _draw_bucket, _list),
    Operation("object.reserved", 0.5, _draw_key, _touch_reserved),
)
