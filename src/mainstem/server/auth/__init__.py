"""Who is asking: tokens, the keys that verify them, the claims they carry, and rate limits."""
