"""The commit log: one order, one durable step for many writers. It knows no protocol."""
