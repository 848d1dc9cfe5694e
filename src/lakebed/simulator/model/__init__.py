"""What the store must contain, without I/O: acknowledged data, data in doubt, and allowed removals.

An operation is recorded in the model twice: before the call, as something that may happen, and with
its result. If a crash comes in between, the operation is in doubt: it may have happened or not. The
next read of that data decides which, for the rest of the run.
"""
