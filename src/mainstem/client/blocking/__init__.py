"""The streams client for blocking code, with the same modules as `mainstem.client.aio`."""
