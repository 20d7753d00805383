"""What the headers of a reply depend on besides the reply itself: how its caller has authenticated, and on which page.

Replies are built, cached and shared as if pages of every origin could read them, which is right for a server without
tokens. A server with tokens applies a policy to each of them.
"""

import msgspec

from mainstem.http.asgi import HeaderList
from mainstem.http.responses import add_vary, make_private

CORS_PREFIX = b"access-control-"
ALLOW_ORIGIN = b"access-control-allow-origin"
ALLOW_CREDENTIALS = (b"access-control-allow-credentials", b"true")
RESOURCE_POLICY = b"cross-origin-resource-policy"
SAME_ORIGIN = (RESOURCE_POLICY, b"same-origin")
NO_REFERRER = (b"referrer-policy", b"no-referrer")


class ReplyPolicy(msgspec.Struct, frozen=True):
    """Two requests with equal policies may share a reply."""

    open_to: bytes | None = None
    """The origin whose pages may read the reply, or `*`; None if only pages of the server's own origin may."""
    with_credentials: bool = False
    """Whether these pages may send their cookie."""
    varies_by_origin: bool = False
    """Whether another origin would get another reply."""
    private: bytes = b""
    """The request headers that the caller's identity depends on; empty if the reply is public."""
    by_cookie: bool = False
    """Whether the browser has added the credential, whichever page has sent the request."""
    by_url: bool = False
    """Whether the URL is a credential, which must not reach other sites as a referrer."""

    def apply(self, headers: HeaderList) -> HeaderList:
        """Return the headers of a reply as this caller gets them. The given list is not changed."""
        changed = [field for field in headers if not field[0].startswith(CORS_PREFIX)]
        if len(changed) < len(headers):  # files that are public anyway have no such headers
            if self.open_to is not None:
                changed = [
                    (ALLOW_ORIGIN, self.open_to)
                    if field[0] == ALLOW_ORIGIN
                    else field  # the others do not depend on it
                    for field in headers
                ]
                if self.with_credentials:
                    changed.append(ALLOW_CREDENTIALS)
            if self.varies_by_origin:
                changed = add_vary(changed, b"origin")
        if self.private:
            changed = make_private(changed, self.private)
        if self.by_cookie:
            changed = [SAME_ORIGIN if field[0] == RESOURCE_POLICY else field for field in changed]
        if self.by_url:
            changed.append(NO_REFERRER)
        return changed
