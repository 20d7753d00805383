"""Subscriptions: who is notified of new data in streams, by webhook or by pull-wake."""
