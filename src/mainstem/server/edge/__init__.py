"""The HTTP/1.1 edge of `mainstem serve`.

Bytes become requests, and replies become bytes, in layers with one task each:

    heads, bodies   parse the bytes of a request (pure)
    states          which events are legal on a connection: two tables (pure)
    machine         combines them: bytes in, events out, one request at a time (pure)
    request_cycle   one request and its reply, and the framing of the reply
    connection      the `asyncio.Protocol`: moves bytes, pauses reading, keeps deadlines
    asgi            runs an ASGI app for a request
    websocket       runs an ASGI app for a WebSocket
    memory          bounds the memory of all connections together
    listeners       opens the sockets to listen on
    server          accepts connections, and shuts down in an orderly way

The edge knows nothing about streams. An app may provide handlers of its own for some requests (`FastPath`), which reply
without a task; all other requests go through ASGI.
"""
