"""The foundation that every engine uses; it imports no other package of Lakebed.

It has binary layouts (`layout`), the disk (`files`), time and threads (`clock`, `runner`, `retry`),
group commit (`commit`), and small shared parts (`errors`, `counters`, `units`, `config`).
`simulation` is the second implementation of disk, clock and runner, which can crash at any step.
"""
