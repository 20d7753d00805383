"""Where the server listens: an address, a Unix socket, or a socket that was opened for it."""

import errno
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
    """Return the listening socket that the settings ask for. Raises `SettingsError` if it cannot be opened."""
    if settings.fd is not None:
        return _adopt(settings.fd)
    if settings.unix_socket is not None:
        return _bind_unix(settings.unix_socket)
    return _bind_tcp(settings.host, settings.port)


def describe_listener(listener: socket.socket, *, secure: bool) -> str:
    """Return the address as a URL, for the ready line."""
    name = listener.getsockname()
    if isinstance(name, str | bytes):
        return f"unix:{os.fsdecode(name)}"
    host, port = name[:2]
    return f"{'https' if secure else 'http'}://{f'[{host}]' if ':' in host else host}:{port}"


def load_tls(settings: Settings) -> ssl.SSLContext | None:
    """Return the TLS context for the certificate in the settings; None without one."""
    if settings.tls_cert is None:
        if settings.tls_key is not None:
            raise SettingsError("tls_key needs tls_cert, the certificate that the key belongs to")
        return None
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.set_alpn_protocols(["http/1.1"])
    try:
        context.load_cert_chain(settings.tls_cert, settings.tls_key)
    except ssl.SSLError:
        files = " and ".join(filter(None, [settings.tls_cert, settings.tls_key]))
        raise SettingsError(
            f"cannot load the TLS certificate from {files}: the server needs a certificate chain and its key, "
            "both as PEM and without a password"
        ) from None
    except OSError as error:
        missing = settings.tls_key if Path(settings.tls_cert).is_file() else settings.tls_cert
        raise SettingsError(f"cannot read the TLS certificate or key {missing}: {error.strerror}") from None
    return context


def _bind_tcp(host: str, port: int) -> socket.socket:
    listener = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    _set_up_tcp(listener)
    try:
        listener.bind((host, port))
    except OSError as error:
        listener.close()
        raise SettingsError(_explain_bind_error(host, port, error)) from None
    listener.listen(limits.LISTEN_BACKLOG)
    return listener


def _explain_bind_error(host: str, port: int, error: OSError) -> str:
    if error.errno == errno.EADDRINUSE:
        return f"port {port} on {host} is in use; stop the other server, or choose another port with --port"
    if error.errno == errno.EACCES:
        return f"port {port} needs more privileges; choose one from 1024 on with --port"
    if isinstance(error, socket.gaierror) or error.errno == errno.EADDRNOTAVAIL:
        return f"{host} is not an address of this machine; choose another one with --host"
    return f"cannot listen on {host}, port {port}: {error.strerror}"


def _set_up_tcp(listener: socket.socket) -> None:
    if hasattr(socket, "TCP_USER_TIMEOUT"):
        # Accepted sockets inherit it: the kernel drops a client that receives nothing for this long.
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
        reason = error.strerror or "the path is too long"
        if error.errno == errno.EADDRINUSE:
            reason = "the path is in use; stop the server that listens there, or choose another path with --unix-socket"
        raise SettingsError(f"cannot listen on the Unix socket {path}: {reason}") from None
    listener.listen(limits.LISTEN_BACKLOG)
    return listener


def _is_stale_socket(path: Path) -> bool:
    """Return whether a server that no longer runs has left this socket. A live socket, or any other file, is kept."""
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
    """Return the socket that the parent process has opened, for example systemd, whose first one is 3."""
    try:
        listener = socket.socket(fileno=fd)
    except OSError:
        raise SettingsError(f"--fd {fd}: this file descriptor is not an open socket") from None
    if listener.type != socket.SOCK_STREAM:
        raise SettingsError(f"--fd {fd}: this socket is not a stream socket (TCP or Unix)")
    if listener.family != socket.AF_UNIX:
        _set_up_tcp(listener)
    listener.listen(limits.LISTEN_BACKLOG)
    return listener
