"""The commit log: it puts the changes of all writers into one order and makes them durable. It knows no protocol."""
