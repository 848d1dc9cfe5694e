"""What the embedded store, the HTTP API and the client share.

- `operation` and `operation_table`: the one table of calls over the wire. The HTTP API routes by
  it and describes itself by it, the client calls by it;
- `topics`, `groups`, `logs`, `objects`, `admin`: the calls of each family, with what goes in and
  what comes out;
- `plans`: planned reads;
- `media`: how that is written, as JSON or as MessagePack;
- `problems`: errors as problem documents, and back into the same errors;
- `leased_message`, `dead_letter`, `pin`: values that both sides hand out.
"""
