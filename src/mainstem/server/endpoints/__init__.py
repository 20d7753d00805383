"""Endpoints that combine both protocols or belong to the server itself."""
