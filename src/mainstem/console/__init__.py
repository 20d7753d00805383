"""The web console: HTML, CSS and ES modules in `static/`, which `mainstem.server.endpoints.console` serves as they are.

The comment at the top of `static/app.js` says how the modules fit together, and how to add a page.
"""
