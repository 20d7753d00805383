"""The streams client without asyncio: the same names as in `mainstem.client.aio`."""
