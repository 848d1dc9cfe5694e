"""Stroma: the state of a consumer group in one partition: leases, acks, delays, dead letters.

- `group`: `PartitionGroup`, the open group: thread-safe, durable, with long polling;
  `group_opener`: `open_group`; `removal`: deletes a group;
- `state`: the status of each message, which events change; `runs`, `timers` and `key_order` are its
  parts, and `lease_transitions` and `settlement_transitions` decide which events a call causes;
- `journal`, `snapshot`, `delta`, `events`, `recovery`: the group's files (`format`, `paths`);
- `source`: the protocol by which a group reads its log. Stroma does not depend on topics.

A message is *settled* if it was acked, dead-lettered or skipped by a seek, or has nothing to
deliver: it is not delivered again, unless the group is reset, or a seek moves the group to or
before the message. To *fold* the delta log means to write a new snapshot that includes its events,
and to remove these events from the delta log.

    group = open_group(disk, root, GroupName("orders", 0, "billing"), source=log, runner=runner)
    grant = group.lease(100, wait_s=5)
    group.ack(grant.ranges, epoch=grant.epoch)
"""
