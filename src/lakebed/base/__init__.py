"""What every engine stands on, and what stands on nothing of ours.

Bytes (`layout`, `checksum`), the disk (`files`), time and threads (`clock`, `runner`, `retry`),
acknowledged writes (`commit`), and the small change (`errors`, `counters`, `units`, `config`).
`simulation` has the second implementation of disk, clock and runner: the one that crashes.
"""
