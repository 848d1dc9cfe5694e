"""Client operations on topics: create, produce, read, truncate, configure and delete."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Any

from lakebed.base.errors import (
    AlreadyExists,
    Busy,
    InputError,
    LakebedError,
    NoSpace,
    NotFound,
    OutcomeUnknown,
    TooLarge,
    TooManyFiles,
)
from lakebed.keratin.config import TopicConfig
from lakebed.keratin.errors import OffsetOutOfRange, OutOfOrderSequence, PartlyAppended
from lakebed.keratin.headers import Producer
from lakebed.keratin.message import Message
from lakebed.keratin.record_batch import build
from lakebed.simulator.context import Answer, Context, Operation, Outcome, pick
from lakebed.simulator.model.topics import (
    Doubt,
    ModelMessage,
    PartitionModel,
    SeenMessage,
    TopicModel,
    TopicRule,
)
from lakebed.simulator.plan import Step
from lakebed.simulator.violation import Promise, Violation, require
from lakebed.store.dead_letters import dead_letter_topic
from lakebed.store.topics import StoreTopic

NAMES = ("orders", "events")
KEYS = (b"red", b"green", b"blue")
SIZES = (8, 8, 100, 3_000, 9_000)
WAIT_S = 20.0
PRODUCER_MS = 20_000  # a producer that was idle for longer continues with another id
PARTITIONS_TOO_MANY = 1001  # a number, and not the store's limit: a wrong limit must be found

NOTHING_DONE = (InputError, Busy, NoSpace, TooManyFiles)
"""Errors that guarantee that nothing was or will be appended. After any other error the append is
in doubt until the topic is reopened and read.
"""
_OWN_HEADERS = "lakebed-"


def rule_of(config: TopicConfig) -> TopicRule:
    return TopicRule(
        compact=config.compact,
        retention_ms=config.retention_ms,
        retention_bytes=config.retention_bytes,
        tombstone_ms=config.tombstone_ms,
        syncs=config.ack == "after_fsync",
    )


def new_model(name: str, topic_id: str, partitions: int) -> TopicModel:
    models = [PartitionModel(f"topic {name}/{number}") for number in range(partitions)]
    return TopicModel(name, topic_id, models)


def open_topic(context: Context, name: str) -> tuple[StoreTopic, TopicModel]:
    """Returns the topic and its model.

    Raises `NotFound` if the store has no such topic, or if the topic was deleted during the call.
    """
    deletes: list[str] = context.parts.setdefault("topic_deletes", [])
    delete_count = deletes.count(name)
    topic = context.store.topics.open(name)
    if name not in context.model.topics and deletes.count(name) > delete_count:
        raise NotFound(f"topic {name} was deleted at the same time")
    model = learn(context, topic)
    return topic, model


def learn(context: Context, topic: StoreTopic) -> TopicModel:
    """Returns the model of an existing topic. Creates the model if the topic's creation was in
    doubt; raises a `Violation` if the topic must not exist.
    """
    model = context.model.topics.get(topic.name)
    if model is None:
        what = f"topic {topic.name} exists, although it was deleted or never created"
        may = topic.name in context.model.maybe_created
        require(may or context.is_any_damaged, Promise.DELETED, what)
        model = new_model(topic.name, topic.topic_id, topic.partition_count)
        context.model.topics[topic.name] = model
    context.model.maybe_created.discard(topic.name)
    if context.handles.get(("topic", topic.name)) is not topic:
        context.handles["topic", topic.name] = topic
        what = f"topic {topic.name} has another id than the topic that was created"
        require(model.topic_id == topic.topic_id, Promise.DELETED, what)
        model.rule = model.rule.or_else(rule_of(topic.config))
        for partition in model.partitions:
            partition.settled()
    return model


def missing(context: Context, name: str) -> Answer:
    """Returns the answer for a missing topic, and checks that the topic may be missing."""
    known = context.model.topics.get(name)
    if known is not None and not known.is_damaged:
        may = name in context.model.maybe_deleted
        require(may, Promise.KEPT, f"topic {name} was created, but is missing")
        forget(context, name)
    return Answer(Outcome.NOTHING, f"topic {name} does not exist")


def forget(context: Context, name: str) -> None:
    """Removes a deleted topic and its groups from the model."""
    context.model.topics.pop(name, None)
    context.model.maybe_deleted.discard(name)
    for key in [key for key in context.model.groups if key[0] == name]:
        del context.model.groups[key]


def seen_of(message: Message) -> SeenMessage:
    headers = tuple(pair for pair in message.headers if not pair[0].startswith(_OWN_HEADERS))
    model = ModelMessage(
        message.key, message.value, headers, message.not_before_ms, message.timestamp_ms
    )
    return SeenMessage(message.offset, model)


def draw_wire(random: Random) -> int | None:
    """Draws how many responses to an HTTP call are lost, or None for a call without HTTP."""
    return random.choice([None, None, 0, 0, 1, 3])


def _draw_topic(random: Random) -> dict[str, Any]:
    return {"topic": random.randrange(len(NAMES))}


def _draw_create(random: Random) -> dict[str, Any]:
    return {
        **_draw_topic(random),
        "partitions": random.choice([1, 1, 2, 3] + [PARTITIONS_TOO_MANY] * (random.random() < 0.1)),
        "compact": random.choice([None, None, True, False]),
        "message_bytes_max": random.choice([None, None, 4_000]),
    }


def _create(context: Context, step: Step) -> Answer:
    name = NAMES[step.arguments["topic"]]
    partitions = step.arguments["partitions"]
    given = {key: step.arguments[key] for key in ("compact", "message_bytes_max")}
    settings = {key: value for key, value in given.items() if value is not None}
    what = f"create topic {name} with {partitions} partitions"
    is_known = name in context.model.topics
    note_deletion(context, name, dead_letter_topic(name))
    deletes: list[str] = context.parts.setdefault("topic_deletes", [])
    delete_count = deletes.count(name) // 2  # each begins and ends
    context.model.maybe_created.add(name)
    topics = context.surface(step).topics
    try:
        topic = topics.create(name, partitions=partitions, settings=settings)
    except AlreadyExists:
        if not is_known:
            require(
                name in context.model.topics
                or context.is_any_damaged
                or name in context.model.maybe_created,
                Promise.DELETED,
                f"{what}: it exists, although it was deleted or never created",
            )
        else:
            context.model.maybe_created.discard(name)
        return Answer(Outcome.REFUSED, f"{what}: it already exists")
    except InputError as error:
        if not is_known:
            context.model.maybe_created.discard(name)
        is_too_many = partitions >= PARTITIONS_TOO_MANY
        return context.refused(error, what, expected=(InputError,) if is_too_many else ())
    finally:
        if is_known and name in context.model.topics:
            context.model.maybe_created.discard(name)
    found = context.model.topics.get(name)
    if (
        found is not None and found.topic_id == topic.topic_id
    ):  # a concurrent step already added it to the model
        return Answer(Outcome.OK, what)
    what_wrong = f"{what}: it replaced an existing topic"
    may = name in context.model.maybe_deleted or context.is_any_damaged
    require(not is_known or may or name not in context.model.topics, Promise.KEPT, what_wrong)
    require(
        partitions < PARTITIONS_TOO_MANY,
        Promise.BOUNDED,
        f"{what}: accepted, although that is too many partitions",
    )
    forget(context, name)
    context.model.maybe_created.discard(name)
    context.model.topics[name] = new_model(name, topic.topic_id, partitions)
    if deletes.count(name) > 2 * delete_count:  # a delete at the same time may have come after
        context.model.maybe_deleted.add(name)
    return Answer(Outcome.OK, what)


def _delete(context: Context, step: Step) -> Answer:
    name = NAMES[step.arguments["topic"]]
    what = f"delete topic {name}"
    known = context.model.topics.get(name)
    if known is not None:
        context.model.maybe_deleted.add(name)
    deletes: list[str] = context.parts.setdefault("topic_deletes", [])
    deletes.append(name)
    _maybe_close_groups(context, name)
    try:
        context.surface(step).topics.delete(name)
    except NotFound:
        return missing(context, name)
    except LakebedError as error:
        _maybe_close_groups(context, name)
        return context.refused(error, what, is_damaged=known is not None and known.is_damaged)
    finally:
        deletes.append(name)
    if context.model.topics.get(name) is known:
        forget(context, name)
        context.model.maybe_created.discard(name)
    letters = dead_letter_topic(name)
    is_left = letters in context.store.topics.names() and name not in context.model.topics
    is_known = known is not None and not context.is_any_damaged and not context.has_ever_troubled
    wrong = f"{what}: its dead letters were not deleted"
    require(
        not (is_left and is_known and not context.parts.get("doubtful_letters")),
        Promise.DELETED,
        wrong,
    )
    return Answer(Outcome.OK, what)


def note_deletion(context: Context, *names: str) -> None:
    """Records that the damage records of these topics or groups may have been removed."""
    context.parts.setdefault("deleted_names", set()).update(names)


def _maybe_close_groups(context: Context, name: str) -> None:
    """Records that a deletion closes the topic's groups. If the deletion fails, they are opened
    again.
    """
    for key, group in context.model.groups.items():
        if key[0] == name:
            group.maybe_closed(context.machine.now_ns, is_disk_failing=context.is_troubled)


def _draw_produce(random: Random) -> dict[str, Any]:
    return {
        **_draw_topic(random),
        "partition": random.randrange(3),
        "count": random.choice([1, 1, 2, 4]),
        "size": random.choice(SIZES),
        "key": random.choice([None, 0, 1, 2]),
        "tombstone": random.random() < 0.05,
        "header": random.random() < 0.2,
        "delay_ms": random.choice([0] * 8 + [300, 5_000, 600_000]),
        "producer": random.choice([None, None, None, 0, 1]),
        "ack": random.choice([None, None, "after_write", "after_fsync"]),
        "waits": random.random() < 0.85,
        "wait_ms": random.choice([None] * 9 + [0, 1, 30]),
        "wire": draw_wire(random),
    }


def _messages_of(context: Context, step: Step) -> list[ModelMessage]:
    arguments = step.arguments
    key = None if arguments["key"] is None else KEYS[arguments["key"]]
    delay_ms = arguments["delay_ms"]
    not_before_ms = context.machine.wall_ms + delay_ms if delay_ms else 0
    headers = (("trace", str(step.number).encode()),) if arguments["header"] else ()
    is_tombstone = arguments["tombstone"] and key is not None
    return [
        ModelMessage(
            key,
            None if is_tombstone else _value(step, index, arguments["size"]),
            headers,
            not_before_ms,
        )
        for index in range(1 if is_tombstone else arguments["count"])
    ]


def _value(step: Step, index: int, size: int) -> bytes:
    return f"{step.number}.{index} ".encode().ljust(size, b"m")


def _produce(context: Context, step: Step) -> Answer:
    name = NAMES[step.arguments["topic"]]
    try:
        topic, model = open_topic(context, name)
    except NotFound:
        return missing(context, name)
    number = step.arguments["partition"] % topic.partition_count
    partition = model.partitions[number]
    messages = _messages_of(context, step)
    drawn = messages
    producer, messages = _producer_of(context, step, model, number, messages)
    what = f"produce {len(messages)} messages of {step.arguments['size']} bytes to {partition.name}"
    doubt = Doubt(messages)
    partition.doubts.append(doubt)
    rule = rule_of(topic.config)
    ack = step.arguments["ack"]
    if ack is not None:
        rule.syncs = ack == "after_fsync"
    partition.in_flight += 1
    try:
        future = _append(context, step, topic, number, messages, producer)
        is_wire = step.arguments.get("wire") is not None
        if not step.arguments["waits"] and producer is None and not is_wire:
            context.parts.setdefault("appends", []).append((partition, doubt, rule, future))
            return Answer(Outcome.UNKNOWN, f"{what}, without waiting for the result")
        wait_ms = None if is_wire else step.arguments.get("wait_ms")
        try:
            base, count = future.result(WAIT_S if wait_ms is None else wait_ms / 1000)
        except OutcomeUnknown:
            if wait_ms is None:
                raise
            context.parts.setdefault("appends", []).append((partition, doubt, rule, future))
            return Answer(Outcome.UNKNOWN, f"{what}: no result within {wait_ms} ms")
    except OutOfOrderSequence as error:
        if messages is drawn:  # otherwise the first attempt may have stored them
            partition.refused(doubt)
        return _out_of_order(context, model, number, step, what, error)
    except LakebedError as error:
        if isinstance(error, NOTHING_DONE):
            if messages is drawn:  # otherwise the first attempt may have stored them
                partition.refused(doubt)
            if producer is not None:
                _rewind(context, model, number, step, is_repeated=messages is not drawn)
        is_damaged = model.is_damaged or partition.is_damaged
        return context.refused(error, what, is_damaged=is_damaged, expected=(TooLarge,))
    finally:
        partition.in_flight -= 1
    require(count == len(messages), Promise.ONCE, f"{what}: {count} messages were stored")
    if context.model.topics.get(name) is model:
        if messages is drawn:
            partition.acknowledged(doubt, base, rule, context.machine.now_ns)
        elif rule.syncs:  # otherwise readers may not return it yet
            _check_repeated(context, topic, model, number, messages)
        if producer is not None:
            _confirm(context, model, number, step)
    return Answer(Outcome.OK, f"{what}: first offset {base}")


def _check_repeated(
    context: Context,
    topic: StoreTopic,
    model: TopicModel,
    number: int,
    messages: Sequence[ModelMessage],
) -> None:
    """Checks that all messages of an append that a producer sent again are in the partition."""
    known = model.partitions[number]
    answer = _read_partition(context, topic, model, number)
    is_sure = answer.outcome is Outcome.OK and model.is_kept_whole
    if is_sure and not known.in_flight and not known.written_ns:
        missing = [m for m in messages if m.value is not None and m.value not in known.places]
        what = f"{known.name}: {len(missing)} messages of a repeated append are missing"
        require(not missing or known.is_damaged, Promise.KEPT, what)


def _append(
    context: Context,
    step: Step,
    topic: StoreTopic,
    number: int,
    messages: Sequence[ModelMessage],
    producer: Producer | None,
) -> Any:
    key, not_before_ms = messages[0].key, messages[0].not_before_ms
    surface = context.surface(step)
    target = topic if surface is context.machine.store else surface.topics.open(topic.name)
    named: dict[str, Any] = {} if producer is None else {"producer": producer}
    ack = step.arguments["ack"]
    if ack is not None:
        from lakebed.keratin.config import Ack

        named["ack"] = Ack(ack)
    return target.append_batch(
        [message.value for message in messages],
        key=key,
        partition=number,
        headers=[message.headers for message in messages],
        not_before_ms=not_before_ms,
        **named,
    )


# Producers repeat an append unchanged until it is acknowledged.


def _producer_of(
    context: Context, step: Step, model: TopicModel, number: int, messages: list[ModelMessage]
) -> tuple[Producer | None, list[ModelMessage]]:
    index = step.arguments["producer"]
    if (
        index is None or model.partitions[number].in_flight
    ):  # another step may use the same producer
        return None, messages
    kept = _producers(context).setdefault((model.topic_id, number, index), [0, None, index, 0])
    if (
        abs(context.machine.wall_ms - kept[3]) > PRODUCER_MS
    ):  # the partition may have forgotten the producer
        kept[:3] = [0, None, kept[2] + 10]
    kept[3] = context.machine.wall_ms
    if kept[1] is None:
        kept[1] = messages
    else:
        doubts = model.partitions[number].doubts
        for doubt in [
            doubt for doubt in doubts if doubt.messages is kept[1] or doubt.messages == kept[1]
        ]:
            doubts.remove(doubt)
    return Producer(100 + kept[2], 0, kept[0]), kept[1]


def doubt_producers(context: Context) -> None:
    """Records that partitions may have forgotten idle producers, because the clock was set.

    Called at once, because the clock may be set back before such a producer appends again.
    """
    for kept in _producers(context).values():
        if abs(context.machine.wall_ms - kept[3]) > PRODUCER_MS:
            kept[3] = -PRODUCER_MS


def _producers(context: Context) -> dict[tuple[str, int, int], list[Any]]:
    producers: dict[tuple[str, int, int], list[Any]] = context.parts.setdefault("producers", {})
    return producers


def _kept(context: Context, model: TopicModel, number: int, step: Step) -> list[Any] | None:
    return _producers(context).get((model.topic_id, number, step.arguments["producer"]))


def _confirm(context: Context, model: TopicModel, number: int, step: Step) -> None:
    kept = _kept(context, model, number, step)
    if kept is not None:
        kept[0] += len(kept[1])
        kept[1] = None


def _rewind(
    context: Context, model: TopicModel, number: int, step: Step, *, is_repeated: bool
) -> None:
    """Drops a refused append of a producer; the next append reuses its sequence number.

    If an earlier attempt may have stored the messages, the producer gets a new id instead, as
    clients do.
    """
    kept = _kept(context, model, number, step)
    if kept is not None:
        kept[:3] = [0, None, kept[2] + 10] if is_repeated else [kept[0], None, kept[2]]


def _out_of_order(
    context: Context, model: TopicModel, number: int, step: Step, what: str, error: LakebedError
) -> Answer:
    """Gives the producer a new id, because the partition forgot the producer or lost its earlier
    appends.
    """
    kept = _kept(context, model, number, step)
    assert kept is not None, f"{what}: {error}"
    kept[:3] = [0, None, kept[2] + 10]
    return Answer(Outcome.REFUSED, f"{what}: sequence refused, continue with a new producer id")


def settle_appends(context: Context) -> None:
    """Records in the model the results of completed appends that no client waited for."""
    left = []
    for partition, doubt, rule, future in context.parts.pop("appends", []):
        if not future.done():
            left.append((partition, doubt, rule, future))
        elif doubt in partition.doubts:
            try:
                base, _ = future.result(0)
            except LakebedError as error:
                if isinstance(error, NOTHING_DONE):
                    partition.refused(doubt)
            else:
                partition.acknowledged(doubt, base, rule, context.machine.now_ns)
    if left:
        context.parts["appends"] = left


def _draw_keyed(random: Random) -> dict[str, Any]:
    return {
        **_draw_topic(random),
        "count": random.choice([2, 3, 6]),
        "size": random.choice([8, 100]),
    }


def _produce_keyed(context: Context, step: Step) -> Answer:
    name = NAMES[step.arguments["topic"]]
    try:
        topic, model = open_topic(context, name)
    except NotFound:
        return missing(context, name)
    pairs = [
        (KEYS[(step.number + index) % len(KEYS)], _value(step, index, step.arguments["size"]))
        for index in range(step.arguments["count"])
    ]
    what = f"produce {len(pairs)} messages with keys to topic {name}"
    by_number: dict[int, list[ModelMessage]] = {}
    for key, value in pairs:
        by_number.setdefault(topic.partition_for(key), []).append(ModelMessage(key, value))
    doubts = {number: Doubt(messages) for number, messages in by_number.items()}
    rule = rule_of(topic.config)
    for number, doubt in doubts.items():
        model.partitions[number].doubts.append(doubt)
    try:
        futures = topic.append_keyed(pairs, timeout=WAIT_S)
    except LakebedError as error:
        for number, doubt in doubts.items():
            if isinstance(error, NOTHING_DONE):
                model.partitions[number].refused(doubt)
        if isinstance(error, PartlyAppended):
            return Answer(Outcome.UNKNOWN, f"{what}: only some were appended")
        return context.refused(error, what, is_damaged=model.is_damaged)
    answers = []
    for future in futures:
        partition, doubt = model.partitions[future.partition], doubts[future.partition]
        try:
            base, _ = future.result(WAIT_S)
        except LakebedError as error:
            if isinstance(error, NOTHING_DONE):
                partition.refused(doubt)
            answers.append(context.refused(error, what, is_damaged=partition.is_damaged))
        else:
            if context.model.topics.get(name) is model:
                partition.acknowledged(doubt, base, rule, context.machine.now_ns)
    return answers[0] if answers else Answer(Outcome.OK, what)


def read_topic(context: Context, name: str) -> Answer:
    """Reads all partitions of the topic and compares them with the model."""
    try:
        topic, model = open_topic(context, name)
    except NotFound:
        return missing(context, name)
    answers = [_read_partition(context, topic, model, n) for n in range(topic.partition_count)]
    wrong = [answer for answer in answers if answer.outcome is not Outcome.OK]
    words = ", ".join(answer.words for answer in answers)
    return wrong[0] if wrong else Answer(Outcome.OK, f"read topic {name}: {words}")


def _read_partition(context: Context, topic: StoreTopic, model: TopicModel, number: int) -> Answer:
    known = model.partitions[number]
    settle_appends(context)
    what = f"read {known.name}"
    end_before, begun_ns = known.end, context.machine.now_ns
    try:
        partition = topic.partition(number)
        seen = [seen_of(message) for message in partition.read()]
        start, end = partition.start_offset(), partition.high_watermark()
    except OffsetOutOfRange as error:  # retention removed messages during the read
        return Answer(Outcome.REFUSED, f"{what}: {error}")
    except LakebedError as error:
        return context.refused(error, what, is_damaged=known.is_damaged or model.is_damaged)
    if context.model.topics.get(topic.name) is not model:
        return Answer(Outcome.OK, f"{what}: the topic was deleted during the call")
    if (
        known.in_flight or known.end != end_before
    ):  # another client is appending, so the end is not known
        return Answer(Outcome.OK, f"{len(seen)} messages")
    seen = [each for each in seen if each.offset >= start]
    is_slow = bool(context.machine.world.disk.faults.slow_ns)
    now_ns = 0 if context.is_troubled or is_slow else begun_ns  # a sync may have failed, or go on
    known.read(seen, start=start, end=end, rule=model.rule, now_ns=now_ns)
    return Answer(Outcome.OK, f"{len(seen)} messages at offsets [{start}, {end})")


def _read(context: Context, step: Step) -> Answer:
    return read_topic(context, NAMES[step.arguments["topic"]])


def _open_to_read(context: Context, step: Step) -> Answer:
    """Reads a topic with `open_to_read`, which must also work while the disk accepts no writes."""
    name = NAMES[step.arguments["topic"]]
    if name not in context.model.topics:
        return Answer(Outcome.NOTHING, f"open topic {name} to read: it does not exist")
    what = f"open topic {name} to read"
    model = context.model.topics[name]
    try:
        topic = context.store.topics.open_to_read(name)
        count = sum(
            1 for number in range(topic.partition_count) for _ in topic.partition(number).read()
        )
    except NotFound:
        return missing(context, name) if not context.is_troubled else Answer(Outcome.REFUSED, what)
    except NoSpace as error:
        is_whole = not model.is_damaged and not any(p.is_damaged for p in model.partitions)
        require(not is_whole, Promise.DAMAGE_ISOLATED, f"{what}: {error}")
        return Answer(Outcome.REFUSED, what)
    except LakebedError as error:
        return context.refused(error, what, is_damaged=context.is_any_damaged)
    return Answer(Outcome.OK, f"{what}: {count} messages")


def _draw_get(random: Random) -> dict[str, Any]:
    return {
        **_draw_topic(random),
        "partition": random.randrange(3),
        "message": random.randrange(1000),
    }


def _get(context: Context, step: Step) -> Answer:
    name = NAMES[step.arguments["topic"]]
    try:
        topic, model = open_topic(context, name)
    except NotFound:
        return missing(context, name)
    number = step.arguments["partition"] % topic.partition_count
    known = model.partitions[number]
    if not known.messages:
        return Answer(Outcome.NOTHING, f"get a message of {known.name}: it has no messages")
    offset = pick(sorted(known.messages), step.arguments["message"])
    expected = known.messages[offset]
    what = f"get offset {offset} of {known.name}"
    try:
        message = topic.partition(number).get(offset)
    except NotFound as error:
        rule = model.rule
        may = rule.compact or rule.retention_bytes or rule.retention_ms or known.in_flight
        may = may or known.maybe_truncated_before > offset or known.is_damaged or known.written_ns
        require(bool(may), Promise.KEPT, f"{what}: {error}")
        return Answer(Outcome.REFUSED, f"{what}: not found")
    except LakebedError as error:
        return context.refused(error, what, is_damaged=known.is_damaged or model.is_damaged)
    promise = Promise.DAMAGE_NEVER_SERVED if known.is_damaged else Promise.KEPT
    require(
        seen_of(message).message[:3] == expected[:3],
        promise,
        f"{what}: different bytes than were appended",
    )
    return Answer(Outcome.OK, what)


def _seal(context: Context, step: Step) -> Answer:
    name = NAMES[step.arguments["topic"]]
    try:
        topic, model = open_topic(context, name)
    except NotFound:
        return missing(context, name)
    number = step.arguments["partition"] % topic.partition_count
    what = f"seal {model.partitions[number].name}"
    try:
        is_sealed = topic.partition(number).seal()
    except LakebedError as error:
        return context.refused(error, what, is_damaged=model.partitions[number].is_damaged)
    return Answer(Outcome.OK if is_sealed else Outcome.NOTHING, what)


def _draw_truncate(random: Random) -> dict[str, Any]:
    return {**_draw_get(random), "share": random.choice([0.1, 0.5, 1.0])}


def _truncate(context: Context, step: Step) -> Answer:
    name = NAMES[step.arguments["topic"]]
    try:
        topic, model = open_topic(context, name)
    except NotFound:
        return missing(context, name)
    number = step.arguments["partition"] % topic.partition_count
    known = model.partitions[number]
    before = known.start + int((known.end - known.start) * step.arguments["share"])
    what = f"truncate {known.name} before {before}"
    known.maybe_truncated_before = max(known.maybe_truncated_before, before)
    try:
        durable = topic.partition(number).high_watermark()
        topic.partition(number).truncate_before(before)
    except LakebedError as error:
        return context.refused(error, what, is_damaged=known.is_damaged)
    if context.model.topics.get(name) is model:
        known.truncated_before = max(known.truncated_before, min(before, durable))
    return Answer(Outcome.OK, what)


def _draw_configure(random: Random) -> dict[str, Any]:
    return {
        **_draw_topic(random),
        "setting": random.choice(["compact", "retention_bytes", "ack", "message_bytes_max"]),
        "value": random.randrange(2),
    }


_VALUES: dict[str, tuple[object, object]] = {
    "compact": (False, True),
    "retention_bytes": (0, 40_000),
    "ack": ("after_fsync", "after_write"),
    "message_bytes_max": (24_576, 4_000),
}


def _configure(context: Context, step: Step) -> Answer:
    name = NAMES[step.arguments["topic"]]
    setting = step.arguments["setting"]
    value = _VALUES[setting][step.arguments["value"]]
    what = f"configure topic {name}: {setting} = {value}"
    try:
        context.store.topics.configure(name, {setting: value})
    except NotFound:
        return missing(context, name)
    except LakebedError as error:
        model = context.model.topics.get(name)
        return context.refused(error, what, is_damaged=model is not None and model.is_damaged)
    return Answer(Outcome.OK, what)


def _draw_commit(random: Random) -> dict[str, Any]:
    return {
        **_draw_topic(random),
        "application": random.randrange(2),
        "repeats": random.random() < 0.3,
        "count": random.choice([1, 3]),
    }


def _commit_batches(context: Context, step: Step) -> Answer:
    """Commits batches to all partitions under a version; repeating a version must store nothing
    new.
    """
    name = NAMES[step.arguments["topic"]]
    try:
        topic, model = open_topic(context, name)
    except NotFound:
        return missing(context, name)
    application = f"application {step.arguments['application']}"
    kept = context.parts.setdefault("commits", {}).setdefault(
        (model.topic_id, application), [0, None, None]
    )
    is_repeated = kept[1] is not None and (step.arguments["repeats"] or kept[2])
    if not is_repeated:
        kept[0] += 1
        kept[1] = {
            number: [
                ModelMessage(None, _value(step, 10 * number + index, 60))
                for index in range(step.arguments["count"])
            ]
            for number in range(topic.partition_count)
        }
    doubts: dict[int, Doubt] = {}
    for number, messages in kept[1].items():
        partition = model.partitions[number]
        if not any(message.value in partition.places for message in messages):
            partition.doubts = [d for d in partition.doubts if d.messages != messages]
            doubts[number] = Doubt(messages)
            partition.doubts.append(doubts[number])
    kept[2] = True  # the commit must be repeated unless it succeeds
    batches = {
        number: [
            build([message.value for message in messages], timestamps_ms=context.machine.wall_ms)
        ]
        for number, messages in kept[1].items()
    }
    what = f"commit version {kept[0]} of {application} to topic {name}"
    rule = TopicRule()
    try:
        done = topic.commit_batches(application, kept[0], batches)
    except LakebedError as error:
        # Some partitions may have it; reopening the topic completes the commit.
        return context.refused(
            error, what, is_damaged=model.is_damaged or any(p.is_damaged for p in model.partitions)
        )
    if context.model.topics.get(name) is not model:
        return Answer(Outcome.OK, f"{what}: the topic was deleted during the call")
    for committed in done:
        doubt = doubts.get(committed.partition)
        partition = model.partitions[committed.partition]
        base_offset = committed.base_offset
        if doubt is None or doubt not in partition.doubts or base_offset is None:
            continue
        if len(doubt.messages) == committed.count:
            partition.acknowledged(doubt, base_offset, rule, context.machine.now_ns)
    kept[2] = None
    return Answer(Outcome.OK, what)


def check_names(context: Context) -> None:
    """Checks that the store has the topics that were created and not deleted, and no others.

    Accepts a topic whose creation or deletion is in doubt either way.
    """
    names = [name for name in context.store.topics.names() if name in NAMES]
    for name in NAMES:
        if name not in names:
            missing(context, name)
            context.model.maybe_created.discard(name)
        elif not (
            name in context.model.topics
            or name in context.model.maybe_created
            or context.is_any_damaged
        ):
            what = f"topic {name} exists, although it was deleted or never created"
            raise Violation(Promise.DELETED, what)
        context.model.maybe_deleted.discard(name)


OPERATIONS = (
    Operation("topic.create", 3, _draw_create, _create),
    Operation("topic.delete", 0.6, _draw_topic, _delete),
    Operation("topic.produce", 16, _draw_produce, _produce),
    Operation("topic.produce_keyed", 3, _draw_keyed, _produce_keyed),
    Operation("topic.read", 2, _draw_topic, _read),
    Operation("topic.open_to_read", 1.5, _draw_topic, _open_to_read, is_alone=True),
    Operation("topic.get", 2, _draw_get, _get),
    Operation("topic.seal", 2, _draw_get, _seal),
    Operation("topic.truncate", 1, _draw_truncate, _truncate),
    Operation("topic.configure", 0.7, _draw_configure, _configure),
    Operation("topic.commit_batches", 1.5, _draw_commit, _commit_batches),
)
