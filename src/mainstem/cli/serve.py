"""`mainstem serve`: run the server."""

import sys
from typing import Any

import click


@click.command()
@click.option("--host", help="Address to listen on.  [default: 127.0.0.1]")
@click.option("--port", type=int, help="Port to listen on; 0 picks a free one.  [default: 4437]")
@click.option("--unix-socket", metavar="PATH", help="Listen on a Unix socket instead of an address.  [default: none]")
@click.option(
    "--fd", type=int, help="Listen on a socket that the parent process has opened; 3 with systemd.  [default: none]"
)
@click.option("--tls-cert", metavar="FILE", help="Certificate chain (PEM), to serve HTTPS.  [default: none]")
@click.option(
    "--tls-key", metavar="FILE", help="Key of the certificate (PEM), unless --tls-cert holds it.  [default: none]"
)
@click.option(
    "--trusted-proxies",
    metavar="LIST",
    help="Proxies to trust: networks, loopback, private or none, separated by commas.  [default: loopback]",
)
@click.option("--allow-origin", metavar="LIST", help="Web origins whose pages may use the server.  [default: none]")
@click.option("--allow-active-content", is_flag=True, default=None, help="Let browsers display stored HTML and SVG.")
@click.option("--data", help="Directory that holds the log.  [default: ./mainstem-data]")
@click.option("--store", help="sqlite, memory (keeps nothing), or postgresql://user@host/db.  [default: sqlite]")
@click.option("--long-poll-ms", type=int, help="How long a long-poll waits for data.  [default: 30000]")
@click.option("--stream-prefix", metavar="PATH", help="Path under which streams are served.  [default: /v1/stream]")
@click.option("--page-bytes", type=int, help="Size of one catch-up response.  [default: 1048576]")
@click.option("--max-body-bytes", type=int, help="Largest request body.  [default: 67108864]")
@click.option("--allow-local-webhooks", is_flag=True, default=None, help="Let webhooks call loopback addresses.")
@click.option("--jwt-secret-file", help="File with the secret that signs tokens (HS256).  [default: none]")
@click.option("--jwks", help="File or URL of the public keys of tokens (EdDSA, RS256, ES256).  [default: none]")
@click.option("--jwt-issuer", help="The issuer (iss) that tokens must name.  [default: none]")
@click.option("--jwt-audience", help="The audience (aud) that tokens must name.  [default: none]")
@click.option(
    "--max-requests-per-second", type=int, help="Requests per second of one client; 0 is no limit.  [default: 0]"
)
@click.option("--max-connections-per-client", type=int, help="Open connections of one address.  [default: 20000]")
@click.option("--max-live-readers-per-client", type=int, help="Open live reads of one client.  [default: 15000]")
@click.option("--max-subscriptions-per-client", type=int, help="Subscriptions of one client.  [default: 10000]")
@click.option("--insecure", is_flag=True, default=None, help="Serve a public address without authentication.")
@click.option("--sync-validation", help="How sync events are validated: none, model, tree or hook.  [default: none]")
@click.option("--sync-schemas", metavar="DIR", help="JSON Schemas for --sync-validation model.  [default: none]")
@click.option("--sync-hook", metavar="MODULE:NAME", help="The callable for --sync-validation hook.  [default: none]")
@click.option("--sync-ids", help="Ids that sync events may have: any or uuid.  [default: any]")
@click.option(
    "--implicit-subscriptions",
    is_flag=True,
    default=None,
    help="Let a sync subscribe to the partitions that it asks for.",
)
@click.option(
    "--test-endpoints", is_flag=True, default=None, help="Let tests of clients inject faults; on loopback only."
)
@click.option(
    "--console", help="The web console: on or off; if unset, on for loopback or with tokens.  [default: none]"
)
@click.option("--log-format", help="Format of log lines: text or json.  [default: text]")
@click.option("--log-level", help="Lowest level to log: debug, info, warning or error.  [default: info]")
@click.option("--access-log", metavar="FORMAT", help="Write a line per request: off, combined or json.  [default: off]")
@click.option("--metrics", metavar="WHO", help="Who may read /metrics: off, loopback or on.  [default: loopback]")
@click.option("--config", metavar="FILE", help="TOML file with these settings.", envvar="MAINSTEM_CONFIG")
def serve(config: str | None, **flags: Any) -> None:
    """Run the server until it receives SIGINT (Ctrl-C) or SIGTERM.

    Each option is also an environment variable (MAINSTEM_PORT) and a key of the --config file (port = 4437). A flag
    beats the environment, which beats the file.
    """
    # Imported here so that other commands do not load the server.
    from mainstem.errors import SettingsError
    from mainstem.server.run import run
    from mainstem.server.settings import load_settings

    try:
        settings = load_settings(flags, config=config)
    except SettingsError as error:
        raise click.UsageError(error.detail) from None
    sys.exit(run(settings))
