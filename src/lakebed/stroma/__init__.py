"""Stroma: what a consumer group has done with a partition: leases, acks, delays, dead letters.

- `group`: `PartitionGroup`, the one to open: thread-safe, durable, with a long poll;
- `state`: what is known of each message, changed by events alone; `runs`, `timers`, `key_order`
  are its parts, `lease_transitions` and `settlement_transitions` decide which events a call leads
  to;
- `journal`, `snapshot`, `delta`, `events`, `recovery`: how it is kept on disk (`format`, `paths`);
- `source`: the log as a group sees it. Stroma knows no topic log of its own.

    group = open_group(disk, root, GroupName("orders", 0, "billing"), source=log, runner=runner)
    grant = group.lease(100, wait_s=5)
    group.ack(grant.ranges, epoch=grant.epoch)
"""
