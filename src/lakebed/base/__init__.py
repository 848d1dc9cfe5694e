"""The foundation that every engine uses; it imports no other package of Lakebed.

It contains binary layouts (`layout`), the disk (`files`), time and threads (`clock`, `runner`,
`retry`), group commit (`commit`), and small shared modules, such as `errors`, `counters`, `units`
and `config`. `simulation` implements the disk, clock and runner a second time, for tests: there, a
crash can happen at any step.
"""
