"""Subscriptions: the server notifies workers of new data in streams, by webhook or pull-wake."""
