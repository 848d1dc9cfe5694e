"""Client operations on consumer groups, such as lease, ack, seek, redrive and delete."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from random import Random
from typing import Any, NamedTuple

from lakebed.base.clock import NS_PER_MS
from lakebed.base.errors import Closed, DiskError, InputError, LakebedError, NotFound
from lakebed.base.simulation.node import UNBOUNDED_BYTES
from lakebed.simulator.context import Answer, Context, Operation, Outcome
from lakebed.simulator.model.groups import VAGUE_NS, GroupModel, GroupPartitionModel, ModelLease
from lakebed.simulator.model.topics import PartitionModel, TopicModel
from lakebed.simulator.operations import topics
from lakebed.simulator.plan import Step
from lakebed.simulator.settings import configs_of
from lakebed.simulator.violation import Promise, require
from lakebed.store.group import Group
from lakebed.store.leased_message import LeasedMessage
from lakebed.stroma.errors import StaleLease
from lakebed.stroma.group_opener import damage_name

NAMES = ("billing", "audit")
HELD_MAX = 60  # how many tokens the consumers keep: the newest ones


class Token(NamedTuple):
    """A leased message that a consumer treats as its own, even after the lease has ended."""

    topic: str
    group: str
    model: GroupModel  # the model of the group it was leased from
    message: LeasedMessage
    lease: ModelLease


def open_group(
    context: Context, step: Step, *, creates: bool = True
) -> tuple[Group, GroupModel, TopicModel]:
    """Returns the step's group with its model and the model of its topic.

    If the group does not exist, creates it, or without `creates` raises `NotFound`. Raises
    `NotFound` if the topic does not exist, and `Closed` if it is deleted meanwhile.
    """
    topic_name, name = topics.NAMES[step.arguments["topic"]], NAMES[step.arguments["group"]]
    return open_named(context, topic_name, name, creates=creates)


def open_named(
    context: Context, topic_name: str, name: str, *, creates: bool = True
) -> tuple[Group, GroupModel, TopicModel]:
    topic, topic_model = topics.open_topic(context, topic_name)
    key = (topic_name, name)
    if not creates and key not in context.model.groups:
        raise NotFound(f"topic {topic_name} has no group {name}")
    group = topic.group(name)
    if context.model.topics.get(topic_name) is not topic_model:
        raise Closed(f"topic {topic_name} was deleted")
    model = context.model.groups.get(key)
    if model is not None and model.maybe_deleted:
        model = _found_again(group, model)
        if model is None:
            forget(context, key)
    if model is None:
        parts = [
            GroupPartitionModel(f"group {name} of {part.name}") for part in topic_model.partitions
        ]
        former = topic_model.former_letters.get(name)
        model = context.model.groups[key] = GroupModel(
            topic_name, name, parts, letters=set(former or ()), is_recreated=former is not None
        )
    if context.handles.get(("group", *key)) is not group:
        context.handles["group", *key] = group
        config = configs_of(context.machine.settings).group
        model.delivery_count_max = config.delivery_count_max
        model.lease_ms = config.lease_ms
        model.syncs = config.syncs_each
        model.sync_ms = config.sync_ms
        model.per_key_order = config.per_key_order
        model.incarnations = _incarnations(group)
        for part in model.partitions:
            part.delivery_count_max = config.delivery_count_max
    if any(part.is_time_doubtful for part in model.partitions):
        _note_opened(context, group, model)
    return group, model, topic_model


def doubt_times(context: Context) -> None:
    """Records that opening a partition from now on puts the ends of its leases and delays in doubt.

    In a partition that is open now, they stay certain until it is closed and opened again.
    """
    for model in context.model.groups.values():
        for part in model.partitions:
            part.is_time_doubtful = True


def note_opened_parts(context: Context) -> None:
    """Records which partitions of all groups are open, so that a later opening is noticed."""
    for key, model in sorted(context.model.groups.items()):
        group = context.handles.get(("group", *key))
        if isinstance(group, Group):
            _note_opened(context, group, model)


def _note_opened(context: Context, group: Group, model: GroupModel) -> None:
    opened = {part.name.partition: part for part in group.opened_parts()}
    for number, part in enumerate(model.partitions):
        key = ("group part", model.topic, model.name, str(number))
        found = opened.get(number)
        if found is None:
            part.maybe_opened(context.machine.now_ns)  # by the caller's next call
        elif context.handles.get(key) is not found:
            context.handles[key] = found
            part.maybe_opened(context.machine.now_ns)
            part.is_time_doubtful = False


def _incarnations(group: Group) -> list[int]:
    """Returns the incarnation of the group in each partition, in order. Opens all partitions."""
    return [part.incarnation for part in group.parts]


def _found_again(group: Group, model: GroupModel) -> GroupModel | None:
    """Returns the model if the group survived a deletion in doubt, or None if it is a new group."""
    now = _incarnations(group)
    if model.incarnations and model.incarnations != now:
        kept = sum(before == after for before, after in zip(model.incarnations, now, strict=False))
        wrong = (
            f"group {model.name} of topic {model.topic} was deleted, but not in {kept} partitions"
        )
        require(not kept or model.is_damaged, Promise.DELETED, wrong)
        return None
    model.maybe_deleted = False
    return model


@contextmanager
def _in_flight(model: GroupModel) -> Iterator[None]:
    for part in model.partitions:
        part.in_flight += 1
        part.call_count += 1
    try:
        yield
    finally:
        for part in model.partitions:
            part.in_flight -= 1


def _draw_group(random: Random) -> dict[str, Any]:
    return {"topic": random.randrange(len(topics.NAMES)), "group": random.randrange(len(NAMES))}


def _draw_lease(random: Random) -> dict[str, Any]:
    return {
        **_draw_group(random),
        "max": random.choice([1, 2, 5, 20]),
        "lease_ms": random.choice([None, None, 200, 30_000]),
        "wait_ms": random.choice([0, 0, 0, 50]),
        "wire": topics.draw_wire(random),
    }


def _lease(context: Context, step: Step) -> Answer:
    topic_name = topics.NAMES[step.arguments["topic"]]
    try:
        group, model, topic_model = open_group(context, step)
    except NotFound:
        return topics.missing(context, topic_name)
    what = (
        f"lease up to {step.arguments['max']} messages for group {model.name} of topic {topic_name}"
    )
    begun_ns = context.machine.now_ns
    wall_ms = context.machine.wall_ms
    ends = [min(known.written_ns, default=known.end) for known in topic_model.partitions]
    lease_ms = step.arguments["lease_ms"]
    target = context.group_surface(step, group)
    disk = context.machine.world.disk
    fired_count = disk.faults.fired_count
    lost_count = step.arguments.get("wire") or 0  # responses that will be lost may grant leases
    _lease_lost(context, model, lost_count)
    _may_move_letters(model, topic_model)
    with _in_flight(model), _may_be_lost(context, model):
        try:
            leased = target.lease(
                max_messages=step.arguments["max"],
                lease_ms=lease_ms,
                wait_s=0
                if step.arguments.get("wire") is not None
                else step.arguments["wait_ms"] / 1000,
            )
        except LakebedError as error:
            is_undone = _is_read_failure(error) and model.syncs
            if not is_undone and not isinstance(error, InputError):
                _lease_lost(context, model)
            return context.refused(error, what, is_damaged=_is_damaged(model, topic_model))
    if context.model.groups.get((topic_name, model.name)) is not model:
        return Answer(Outcome.OK, f"{what}: the group was deleted during the call")
    _lease_lost(context, model, lost_count)  # again: other clients may have leased in between
    # The error of one partition is not reported if others returned messages.
    has_failed = disk.faults.fired_count > fired_count or disk.capacity_bytes < UNBOUNDED_BYTES
    if context.is_troubled and has_failed and not (context.only_reads_fail and model.syncs):
        _lease_lost(context, model)
    until_ns = begun_ns + (lease_ms or model.lease_ms) * NS_PER_MS
    _delivered(context, model, topic_model, leased, until_ns, context.machine.latest_wall_ms)
    if len(leased) < step.arguments["max"] and context.machine.now_ns == begun_ns:
        _check_nothing_left(context, model, topic_model, ends, wall_ms)
    places = ", ".join(f"{m.partition}/{m.offset}" for m in leased)
    outcome = Outcome.OK if leased else Outcome.NOTHING
    return Answer(outcome, f"{what}: {places or 'no messages'}")


@contextmanager
def _may_be_lost(context: Context, model: GroupModel) -> Iterator[None]:
    """If a crash ends the block, records that the group may have leases unknown to the model."""
    try:
        yield
    except Exception:
        raise
    except BaseException:
        _lease_lost(context, model)
        raise


def _lease_lost(context: Context, model: GroupModel, count: int = 1) -> None:
    for part in model.partitions if count else ():
        part.lost_lease_count += count
        part.vague_until_ns = context.machine.now_ns + VAGUE_NS


def _may_move_letters(model: GroupModel, topic_model: TopicModel) -> None:
    for number, part in enumerate(model.partitions):
        part.may_move_letters(list(topic_model.partitions[number].messages))


def _check_nothing_left(
    context: Context,
    model: GroupModel,
    topic_model: TopicModel,
    ends: Sequence[int],
    wall_ms: int,
) -> None:
    """Checks that no other message was available, after a lease returned fewer than requested."""
    if context.is_troubled or model.per_key_order or _is_damaged(model, topic_model):
        return
    now_ns = context.machine.now_ns
    for number, part in enumerate(model.partitions):
        known = topic_model.partitions[number]
        if part.in_flight or known.in_flight:
            continue
        for offset, message in known.messages.items():
            is_due = message.not_before_ms <= wall_ms and offset < ends[number]
            is_there = is_due and _stays(topic_model, number, offset)
            what = f"{part.name}: offset {offset} is available, but a lease did not return it"
            require(not (is_there and part.is_available(offset, now_ns)), Promise.SCHEDULE, what)


def _is_read_failure(error: LakebedError) -> bool:
    return isinstance(error, DiskError) and error.operation == "read"


def _is_damaged(model: GroupModel, topic_model: TopicModel) -> bool:
    return (
        model.is_damaged
        or topic_model.is_damaged
        or any(part.is_damaged for part in topic_model.partitions)
    )


def _delivered(
    context: Context,
    model: GroupModel,
    topic_model: TopicModel,
    leased: Sequence[LeasedMessage],
    until_ns: int,
    wall_ms: int,
) -> None:
    epochs: dict[int, int] = {}
    now_ns = context.machine.now_ns
    for message in leased:
        part = model.partitions[message.partition]
        known = topic_model.partitions[message.partition]
        is_same = epochs.setdefault(message.partition, message.epoch) == message.epoch
        require(is_same, Promise.LEASE, f"{part.name}: one lease call returned two epochs")
        _compare(known, message, wall_ms)
        _check_key_order(model, part, topic_model, message, now_ns)
        what = f"{part.name}: offset {message.offset} was delivered {message.delivery_count} times"
        limit = model.delivery_count_max
        require(not limit or message.delivery_count <= limit, Promise.DEAD_LETTERS, what)
        part.delivered(
            message.offset,
            epoch=message.epoch,
            until_ns=until_ns,
            delivery_count=message.delivery_count,
            now_ns=now_ns,
        )
        lease = part.leases[message.offset]
        tokens(context).append(Token(model.topic, model.name, model, message, lease))
    for partition, epoch in epochs.items():
        model.partitions[partition].epoch_used(epoch)
    del tokens(context)[:-HELD_MAX]


def _compare(known: PartitionModel, message: LeasedMessage, wall_ms: int) -> None:
    seen = topics.seen_of(message.message)
    where = f"{known.name}: a lease of offset {message.offset}"
    expected = known.messages.get(message.offset)
    if expected is None:
        known.adopt(message.offset, seen.message)
    else:
        promise = Promise.DAMAGE_NEVER_SERVED if known.is_damaged else Promise.KEPT
        require(
            seen.message[:3] == expected[:3],
            promise,
            f"{where} returned different bytes than were appended",
        )
    what = f"{where} was granted before its scheduled time, {seen.message.not_before_ms} ms"
    require(seen.message.not_before_ms <= wall_ms, Promise.SCHEDULE, what)


def _check_key_order(
    model: GroupModel,
    part: GroupPartitionModel,
    topic_model: TopicModel,
    message: LeasedMessage,
    now_ns: int,
) -> None:
    if not model.per_key_order or message.key is None or part.in_flight > 0:
        return
    known = topic_model.partitions[message.partition]
    for offset, lease in part.leases.items():
        other = known.messages.get(offset)
        is_before = offset < message.offset and _stays(topic_model, message.partition, offset)
        if is_before and other is not None and other.key == message.key:
            what = (
                f"{part.name}: offset {message.offset} was leased while offset {offset} with the "
                "same key is leased to another holder"
            )
            is_held = part.is_certain(lease, now_ns) and lease.epoch != message.epoch
            require(not is_held, Promise.ORDER, what)


def lease_all(
    context: Context, group: Group, model: GroupModel, topic_model: TopicModel
) -> list[LeasedMessage]:
    """Leases up to 200 messages and checks them. For use while no other client is active."""
    begun_ns = context.machine.now_ns
    _may_move_letters(model, topic_model)
    leased = group.lease(max_messages=200)
    until_ns = begun_ns + model.lease_ms * NS_PER_MS
    _delivered(context, model, topic_model, leased, until_ns, context.machine.latest_wall_ms)
    return leased


def tokens(context: Context) -> list[Token]:
    held: list[Token] = context.parts.setdefault("tokens", [])
    return held


def _draw_settle(random: Random) -> dict[str, Any]:
    return {
        **_draw_group(random),
        "first": random.randrange(1000),
        "count": random.choice([1, 1, 2, 6]),
        "delay_ms": random.choice([0, 0, 100, 4_000]),
        "wire": topics.draw_wire(random),
    }


def _chosen(context: Context, step: Step) -> list[Token]:
    """Returns some tokens of the step's group that come from the same lease call and partition.

    The lease may be old, and the group may have been deleted since.
    """
    topic_name, name = topics.NAMES[step.arguments["topic"]], NAMES[step.arguments["group"]]
    mine = [token for token in tokens(context) if (token.topic, token.group) == (topic_name, name)]
    if not mine:
        return []
    first = mine[step.arguments["first"] % len(mine)]
    message = first.message
    together = [
        token
        for token in mine
        if token.model is first.model
        and (token.message.partition, token.message.epoch) == (message.partition, message.epoch)
    ]
    return together[: step.arguments["count"]]


def _settle(context: Context, step: Step, verb: str) -> Answer:
    """Acks, nacks, gives back or extends leased messages, and checks the result.

    The lease may have ended long ago, and its group or topic may have been deleted since.
    """
    chosen = _chosen(context, step)
    topic_name = topics.NAMES[step.arguments["topic"]]
    if not chosen:
        return Answer(Outcome.NOTHING, f"{verb}: no consumer holds a message")
    try:
        group, model, topic_model = open_group(context, step, creates=False)
    except NotFound:
        return Answer(Outcome.NOTHING, f"{verb}: the group does not exist")
    except Closed as error:
        return context.refused(error, verb)
    places = ", ".join(f"{t.message.partition}/{t.message.offset}" for t in chosen)
    what = (
        f"{verb} {places} of group {model.name} of topic {topic_name}, "
        f"epoch {chosen[0].message.epoch}"
    )
    part = model.partitions[chosen[0].message.partition % len(model.partitions)]
    is_same_group = chosen[0].model is model
    leases = [token.lease for token in chosen]
    now_ns = context.machine.now_ns
    is_certain = is_same_group and all(
        part.is_certain(lease, now_ns)
        and _stays(topic_model, chosen[0].message.partition, lease.offset)
        for lease in leases
    )
    is_stale = not is_same_group or any(
        part.is_stale(lease, is_ack=verb == "ack")
        and _stays(topic_model, chosen[0].message.partition, lease.offset)
        for lease in leases
    )
    is_alone, call_count = part.in_flight == 0, part.call_count
    if is_same_group:
        part.doubt([lease.offset for lease in leases if part.holds(lease)])
    fresh: list[int] = []
    if is_same_group and verb == "ack":
        fresh = part.maybe_acked([lease.offset for lease in leases])
    counts = {}
    if is_same_group and verb == "give back":
        counts = part.maybe_uncount([lease.offset for lease in leases])
    with _in_flight(model):
        try:
            extended = _call(context, step, group, verb, chosen)
        except StaleLease as error:
            if step.arguments.get("wire"):  # the call whose response was lost may have settled it
                return Answer(
                    Outcome.UNKNOWN,
                    f"{what}: a response was lost, and the retry was refused as stale",
                )
            if is_same_group:
                part.not_acked(fresh)
                part.restore_counts(counts)
            is_alone = is_alone and part.call_count == call_count + 1
            wrong = f"{what}: refused, although the lease is valid: {error}"
            require(not (is_certain and is_alone and not model.is_damaged), Promise.HOLDER, wrong)
            _drop(context, chosen)
            return Answer(Outcome.REFUSED, f"{what}: refused as stale")
        except LakebedError as error:
            # A former topic of that name may have had more partitions.
            expected = () if is_same_group else (InputError,)
            is_damaged = _is_damaged(model, topic_model)
            return context.refused(error, what, is_damaged=is_damaged, expected=expected)
    is_alone = is_alone and part.call_count == call_count + 1
    wrong = (
        f"{what}: accepted, although the messages are settled or leased to another holder, or the "
        "group was replaced"
    )
    require(not (is_stale and is_alone), Promise.HOLDER, wrong)
    if not is_same_group or context.model.groups.get((topic_name, model.name)) is not model:
        return Answer(Outcome.OK, f"{what}: the group was replaced")
    if verb == "ack":
        part.acked(leases, context.machine.now_ns, is_certain=is_certain)
        _drop(context, chosen)
    elif verb == "extend":
        _extended(context, part, chosen, extended, now_ns)
    else:
        delay_ms = step.arguments["delay_ms"] if verb == "nack" else 0
        until_ns = now_ns + delay_ms * NS_PER_MS if delay_ms else None
        part.given_back(leases, until_ns=until_ns)
        if verb == "give back":
            part.uncount(part.restore_counts(counts), is_durable=model.syncs)
        _drop(context, chosen)
    return Answer(Outcome.OK, what)


def _stays(topic_model: TopicModel, number: int, offset: int) -> bool:
    """Returns whether the topic certainly still has the message, if it was appended.

    That is: neither retention, compaction, truncation nor damage can have removed it.
    """
    known, rule = topic_model.partitions[number], topic_model.rule
    is_removable = rule.compact or rule.retention_bytes or rule.retention_ms
    is_old = offset < max(known.start, known.maybe_truncated_before)
    return not is_removable and not is_old and not known.is_damaged


def _call(
    context: Context, step: Step, group: Group, verb: str, chosen: list[Token]
) -> list[LeasedMessage]:
    messages = [token.message for token in chosen]
    target = context.group_surface(step, group)
    if verb == "ack":
        target.ack_all(messages)
    elif verb == "nack":
        target.nack_all(messages, delay_ms=step.arguments["delay_ms"])
    elif verb == "give back":
        target.give_back(messages)
    else:
        return [target.extend(message, lease_ms=20_000) for message in messages]
    return []


def _extended(
    context: Context,
    part: GroupPartitionModel,
    chosen: list[Token],
    extended: list[LeasedMessage],
    now_ns: int,
) -> None:
    held = tokens(context)
    for token, message in zip(chosen, extended, strict=True):
        lease = token.lease._replace(until_ns=now_ns + 20_000 * NS_PER_MS)
        part.maybe_leases.pop(lease.offset, None)
        part.leases[lease.offset] = lease
        if token in held:
            held[held.index(token)] = token._replace(message=message, lease=lease)


def _drop(context: Context, chosen: list[Token]) -> None:
    """Drops the settled tokens, unless the first offset is a multiple of four.

    In that case keeps them, so that a later step settles the messages again.
    """
    if chosen and chosen[0].message.offset % 4:
        gone = {id(token) for token in chosen}
        context.parts["tokens"] = [token for token in tokens(context) if id(token) not in gone]


def _ack(context: Context, step: Step) -> Answer:
    return _settle(context, step, "ack")


def _nack(context: Context, step: Step) -> Answer:
    return _settle(context, step, "nack")


def _give_back(context: Context, step: Step) -> Answer:
    return _settle(context, step, "give back")


def _extend(context: Context, step: Step) -> Answer:
    return _settle(context, step, "extend")


def _release(context: Context, step: Step) -> Answer:
    return _change_all(context, step, "release", lambda group: group.release())


def _reset(context: Context, step: Step) -> Answer:
    return _change_all(context, step, "reset", lambda group: group.reset())


def _draw_seek(random: Random) -> dict[str, Any]:
    return {**_draw_group(random), "to_end": random.random() < 0.4, "share": random.random()}


def _seek(context: Context, step: Step) -> Answer:
    if step.arguments["to_end"]:
        return _change_all(context, step, "seek to the end", lambda group: group.seek(to_end=True))
    return _change_all(context, step, "seek", None)


def _change_all(context: Context, step: Step, verb: str, change: Any) -> Answer:
    topic_name = topics.NAMES[step.arguments["topic"]]
    try:
        group, model, topic_model = open_group(context, step, creates=False)
    except NotFound:
        return Answer(Outcome.NOTHING, f"{verb}: the group does not exist")
    what = f"{verb}: group {model.name} of topic {topic_name}"
    if any(part.in_flight for part in model.partitions):
        return Answer(
            Outcome.NOTHING, f"{what}: skipped, because another client is using the group"
        )
    places = {}
    if verb == "seek":
        known = topic_model.partitions[0]
        place = known.start + int((known.end - known.start) * step.arguments["share"])
        places = {0: min(place, group.topic.partition(0).high_watermark())}
        change = lambda group: group.seek(places[0], partition=0)  # noqa: E731
    affected = model.partitions[:1] if places else model.partitions
    for number, part in enumerate(affected):
        part.doubt_all()
        if verb != "release":
            part.doubt_everything()
        if "seek" in verb:
            ends_at = group.topic.partition(number).high_watermark()
            part.maybe_settled.update(range(places.get(number, ends_at)))
    with _in_flight(model):
        try:
            change(group)
        except LakebedError as error:
            return context.refused(error, what, is_damaged=_is_damaged(model, topic_model))
    if context.model.groups.get((topic_name, model.name)) is not model:
        return Answer(Outcome.OK, f"{what}: the group was deleted during the call")
    for number, part in enumerate(affected):
        if verb == "release":
            part.released()
        else:
            known = topic_model.partitions[number]
            end = min(known.written_ns, default=known.end) if "end" in verb else 0
            part.started_over(places.get(number, end), context.machine.now_ns)
            if "end" in verb:  # messages appended during the call are settled or not
                ends_at = group.topic.partition(number).high_watermark()
                part.maybe_settled.update(range(end, ends_at))
    return Answer(Outcome.OK, what)


def _delete(context: Context, step: Step) -> Answer:
    topic_name, name = topics.NAMES[step.arguments["topic"]], NAMES[step.arguments["group"]]
    what = f"delete group {name} of topic {topic_name}"
    key = (topic_name, name)
    topics.note_deletion(context, damage_name(topic_name, name))
    known = context.model.groups.get(key)
    if known is not None:
        known.deleting += 1
        for part in known.partitions:
            part.doubt_everything()
    try:
        topic, _ = topics.open_topic(context, topic_name)
        topic.delete_group(name)
    except NotFound:
        if known is not None and not known.maybe_deleted and context.model.groups.get(key) is known:
            is_there = topic_name in context.model.topics
            require(
                not is_there or topic_name in context.model.maybe_deleted or known.deleting > 1,
                Promise.KEPT,
                f"{what}: the group is missing",
            )
        forget(context, key)
        return Answer(Outcome.NOTHING, f"{what}: the group does not exist")
    except LakebedError as error:
        if known is not None:
            known.maybe_deleted = True
        return context.refused(error, what, is_damaged=known is not None and known.is_damaged)
    except BaseException:
        if known is not None:
            known.maybe_deleted = True
        raise
    finally:
        if known is not None:
            known.deleting -= 1
    if context.model.groups.get(key) is known:
        forget(context, key)
    return Answer(Outcome.OK, what)


def forget(context: Context, key: tuple[str, str]) -> None:
    """Records that a group was deleted. A new group of that name gets its dead letters."""
    model = context.model.groups.pop(key, None)
    topic_model = context.model.topics.get(key[0])
    if topic_model is not None:
        topic_model.former_letters[key[1]] = set() if model is None else set(model.letters)


def _dead_letters(context: Context, step: Step) -> Answer:
    topic_name = topics.NAMES[step.arguments["topic"]]
    try:
        group, model, topic_model = open_group(context, step, creates=False)
    except NotFound:
        return Answer(Outcome.NOTHING, "list dead letters: the group does not exist")
    return look_at_letters(context, group, model, topic_model, topic_name)


def look_at_letters(
    context: Context, group: Group, model: GroupModel, topic_model: TopicModel, topic_name: str
) -> Answer:
    """Lists the dead letters of a group and checks them.

    Every dead letter must equal its message, if the topic still has that, and the message must not
    have been acked. All dead letters listed earlier must still exist.
    """
    what = f"list dead letters of group {model.name} of topic {topic_name}"
    try:
        letters = group.dead_letters()
    except LakebedError as error:
        return context.refused(
            error, what, is_damaged=_is_damaged(model, topic_model) or context.is_any_damaged
        )
    if model.in_flight_any or context.model.groups.get((topic_name, model.name)) is not model:
        return Answer(Outcome.OK, f"{what}: {len(letters)} letters")
    found = {(letter.partition, letter.offset) for letter in letters}
    lost = sorted(model.letters - found)
    wrong = f"{what}: {lost[:3]} were listed earlier, but are missing"
    may = model.is_damaged or context.is_any_damaged or context.machine.has_retained_topics
    require(not lost or may, Promise.DEAD_LETTERS, wrong)
    model.letters &= found
    for letter in letters:
        part = model.partitions[letter.partition]
        expected = topic_model.partitions[letter.partition].messages.get(letter.offset)
        wrong = f"{what}: {letter.partition}/{letter.offset} has different bytes than the message"
        same = expected is None or (letter.value or None, letter.key) == (
            expected.value or None,
            expected.key,
        )
        require(same, Promise.DEAD_LETTERS, wrong)
        wrong = f"{what}: {letter.partition}/{letter.offset} is listed, but was acked"
        may = letter.offset not in part.acked_in_force or part.has_started_over
        may = may or model.is_recreated  # the letter may be the former group's
        may = may or (letter.partition, letter.offset) in model.letters
        require(may, Promise.HOLDER, wrong)
        part.buried.add(letter.offset)
    model.letters |= found
    return Answer(Outcome.OK, f"{what}: {len(letters)} letters")


def _redrive(context: Context, step: Step) -> Answer:
    topic_name = topics.NAMES[step.arguments["topic"]]
    try:
        group, model, topic_model = open_group(context, step, creates=False)
    except NotFound:
        return Answer(Outcome.NOTHING, "redrive: the group does not exist")
    what = f"redrive dead letters of group {model.name} of topic {topic_name}"
    if model.in_flight_any:
        return Answer(
            Outcome.NOTHING, f"{what}: skipped, because another client is using the group"
        )
    try:
        letters = group.dead_letters()
    except LakebedError as error:
        return context.refused(
            error, what, is_damaged=_is_damaged(model, topic_model) or context.is_any_damaged
        )
    if not letters:
        return Answer(Outcome.NOTHING, f"{what}: there are no dead letters")
    before = set(model.letters)
    model.letters.clear()
    for letter in letters:
        known = topic_model.partitions[letter.partition]
        known.may_be_copied(letter.value)
        model.partitions[letter.partition].buried.add(letter.offset)
    # A move to the dead letters that a failure cut short is repeated, perhaps during this call.
    for part, known in zip(model.partitions, topic_model.partitions, strict=True):
        for offset, message in known.messages.items():
            if part.may_be_buried(offset) and offset not in part.acked_in_force:
                known.may_be_copied(message.value)
    with _in_flight(model):
        try:
            count = group.redrive()
        except LakebedError as error:
            if isinstance(error, InputError):
                model.letters = before
            return context.refused(
                error, what, is_damaged=_is_damaged(model, topic_model) or context.is_any_damaged
            )
    if context.model.topics.get(topic_name) is not topic_model:
        return Answer(Outcome.OK, f"{what}: the topic was deleted during the call")
    words = topics.read_topic(context, topic_name).words
    if not _is_damaged(model, topic_model) and count >= len(letters):
        _check_redriven(topic_model, letters, what)
    return Answer(Outcome.OK, f"{what}: {count} messages; {words}")


def _check_redriven(topic_model: TopicModel, letters: Sequence[Any], what: str) -> None:
    """Checks that each redriven message, or a later message with its key, is in the topic again."""
    for letter in letters:
        known = topic_model.partitions[letter.partition]
        is_there = any(
            message.value == letter.value or (letter.key is not None and message.key == letter.key)
            for offset, message in known.messages.items()
            if offset > letter.offset
        )
        wrong = f"{what}: {letter.partition}/{letter.offset} is not in the topic again"
        require(
            is_there or known.in_flight > 0 or known.start > letter.offset, Promise.ACCOUNTED, wrong
        )


def _draw_peek(random: Random) -> dict[str, Any]:
    return {**_draw_group(random), "max": random.choice([1, 10])}


def _peek(context: Context, step: Step) -> Answer:
    topic_name = topics.NAMES[step.arguments["topic"]]
    try:
        group, model, topic_model = open_group(context, step, creates=False)
    except NotFound:
        return Answer(Outcome.NOTHING, "peek: the group does not exist")
    what = f"peek at group {model.name} of topic {topic_name}"
    try:
        peeked = group.peek(max_messages=step.arguments["max"])
        lag = group.lag()
    except LakebedError as error:
        return context.refused(error, what, is_damaged=_is_damaged(model, topic_model))
    # The gaps of a topic that is no longer compacted count: the store does not know of them.
    is_counted = group.topic.config.compact or not topic_model.rule.compact
    if is_counted and not model.in_flight_any and not _is_damaged(model, topic_model):
        _check_lag(lag, model, topic_model)
    for message in peeked:
        part = model.partitions[message.partition]
        wrong = f"{part.name}: peek returned offset {message.offset}, which is settled"
        require(message.offset not in part.settled or part.in_flight > 0, Promise.HOLDER, wrong)
    return Answer(Outcome.OK, f"{what}: {len(peeked)} messages, lag {sum(lag.values())}")


def _check_lag(lag: Mapping[int, int], model: GroupModel, topic_model: TopicModel) -> None:
    """Checks that the lag is at most the number of messages from the first unsettled offset on.

    That offset may be one whose message was compacted away: the group does not know this before it
    leases there again.
    """
    for number, part in enumerate(model.partitions):
        known = topic_model.partitions[number]
        if known.in_flight or known.doubts or part.has_started_over:
            continue
        offsets = range(known.start, known.end)
        first = next((offset for offset in offsets if offset not in part.settled), known.end)
        count = sum(offset >= first for offset in known.messages)
        wrong = f"{part.name}: the lag is {lag.get(number)}, but {count} messages can be unsettled"
        require(lag.get(number, 0) <= count, Promise.ACCOUNTED, wrong)


class _Broken(Exception):
    """The error that a faulty listener raises."""


def _listen(context: Context, step: Step) -> Answer:
    """Adds a listener that always raises, which must not affect any other caller."""
    try:
        group, model, _ = open_group(context, step)
    except NotFound:
        return topics.missing(context, topics.NAMES[step.arguments["topic"]])

    def listener() -> None:
        raise _Broken

    group.on_change(listener)
    return Answer(
        Outcome.OK,
        f"add a listener that always raises to group {model.name} of topic {model.topic}",
    )


OPERATIONS = (
    Operation("group.lease", 14, _draw_lease, _lease),
    Operation("group.ack", 9, _draw_settle, _ack),
    Operation("group.nack", 3, _draw_settle, _nack),
    Operation("group.give_back", 1, _draw_settle, _give_back),
    Operation("group.extend", 2, _draw_settle, _extend),
    Operation("group.release", 0.5, _draw_group, _release),
    Operation("group.reset", 0.3, _draw_group, _reset),
    Operation("group.seek", 0.5, _draw_seek, _seek),
    Operation("group.delete", 0.5, _draw_group, _delete),
    Operation("group.dead_letters", 1.5, _draw_group, _dead_letters),
    Operation("group.redrive", 0.8, _draw_group, _redrive),
    Operation("group.peek", 1, _draw_peek, _peek),
    Operation("group.listen", 0.3, _draw_group, _listen),
)
