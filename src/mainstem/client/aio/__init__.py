"""The streams client for asyncio."""
