"""Where the server listens: an address, a Unix socket, or a socket that was opened for it."""

import os
import socket
import ssl
import stat
from pathlib import Path

from mainstem import limits
from mainstem.errors import SettingsError
from mainstem.server.settings import Settings

UNIX_SOCKET_MODE = 0o660  # a proxy reaches it through its group


def open_listener(settings: Settings) -> socket.socket:
    if settings.fd is not None:
        return _adopt(settings.fd)
    if settings.unix_socket is not None:
        return _bind_unix(settings.unix_socket)
    return _bind_tcp(settings.host, settings.port)


def describe_listener(listener: socket.socket, *, secure: bool) -> str:
    """The address for the ready line, as a URL."""
    name = listener.getsockname()
    if isinstance(name, str | bytes):
        return f"unix:{os.fsdecode(name)}"
    host, port = name[:2]
    return f"{'https' if secure else 'http'}://{f'[{host}]' if ':' in host else host}:{port}"


def load_tls(settings: Settings) -> ssl.SSLContext | None:
    """TLS from files; None without it."""
    if settings.tls_cert is None:
        if settings.tls_key is not None:
            raise SettingsError("tls_key needs tls_cert, the certificate that it belongs to")
        return None
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.set_alpn_protocols(["http/1.1"])
    try:
        context.load_cert_chain(settings.tls_cert, settings.tls_key)
    except (OSError, ssl.SSLError) as error:
        raise SettingsError(f"cannot load the TLS certificate {settings.tls_cert}: {error}") from None
    return context


def _bind_tcp(host: str, port: int) -> socket.socket:
    listener = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    _set_up_tcp(listener)
    try:
        listener.bind((host, port))
    except OSError as error:
        listener.close()
        raise SettingsError(f"cannot listen on {host} port {port}: {error.strerror}") from None
    listener.listen(limits.LISTEN_BACKLOG)
    return listener


def _set_up_tcp(listener: socket.socket) -> None:
    if hasattr(socket, "TCP_USER_TIMEOUT"):
        # Accepted sockets inherit it: a reader that takes nothing for this long is dropped by the kernel.
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, int(limits.SEND_STALL_S_MAX * 1000))


def _bind_unix(path: str) -> socket.socket:
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        if _is_stale_socket(Path(path)):
            Path(path).unlink()
        listener.bind(path)
        Path(path).chmod(UNIX_SOCKET_MODE)
    except OSError as error:
        listener.close()
        raise SettingsError(f"cannot listen on the Unix socket {path}: {error.strerror or error}") from None
    listener.listen(limits.LISTEN_BACKLOG)
    return listener


def _is_stale_socket(path: Path) -> bool:
    """Whether a socket is left over from a server that is gone. A live one, or any other file, is not touched."""
    try:
        if not stat.S_ISSOCK(path.lstat().st_mode):
            return False
    except FileNotFoundError:
        return False
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        try:
            probe.connect(str(path))
        except ConnectionRefusedError:
            return True
    return False


def _adopt(fd: int) -> socket.socket:
    """A socket that whoever started this process has opened, for example systemd (its first is 3)."""
    try:
        listener = socket.socket(fileno=fd)
        if listener.type != socket.SOCK_STREAM:
            raise OSError("it is not a stream socket")
    except OSError as error:
        raise SettingsError(f"cannot listen on the file descriptor {fd}: {error}") from None
    if listener.family != socket.AF_UNIX:
        _set_up_tcp(listener)
    listener.listen(limits.LISTEN_BACKLOG)
    return listener
