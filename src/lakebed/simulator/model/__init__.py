"""What must hold, without I/O: what was acknowledged, what is in doubt, and what settings allow.

An operation enters the model twice: before it is carried out, as something that may happen, and
with its answer. So a crash in between leaves a doubt, which the next look decides for good.
"""
