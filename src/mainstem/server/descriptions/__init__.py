"""Machine-readable descriptions of the HTTP API (OpenAPI) and of the sync messages (AsyncAPI), built from the code."""
