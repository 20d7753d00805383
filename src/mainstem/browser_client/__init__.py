"""The JavaScript client as the server serves it. `npm run build` in js/ builds it."""
