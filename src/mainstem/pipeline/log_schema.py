"""The columns of the log."""

LOG_COLUMNS = {
    "committed_id": "BIGINT NOT NULL",
    "position": "INT NOT NULL",
    "kind": "STRING NOT NULL",
    "stream": "STRING",
    "offset": "STRING",
    "producer_id": "STRING",
    "partitions": "ARRAY<STRING>",
    "id": "STRING",
    "client_id": "STRING",
    "content_type": "STRING",
    "data": "BINARY NOT NULL",
    "committed_at": "TIMESTAMP NOT NULL",
}
"""Name -> Spark's type, in the order in which the server sends them."""
