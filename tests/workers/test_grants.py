"""Which grants the token of a worker needs, on a server that requires tokens."""

import pytest

from mainstem.client import AsyncStreams, Forbidden
from tests.support.issuers import Issuer, write_secret
from tests.support.waits import eventually_async
from tests.workers.running import JSON, Record, running

WAKES = "wakes/billing"


@pytest.fixture
def issuer(tmp_path) -> Issuer:
    return write_secret(tmp_path / "secret")


@pytest.fixture
def server(issuer, start_thread, tmp_path):
    return start_thread(jwt_secret_file=str(tmp_path / "secret"))


@pytest.mark.parametrize("granted", ["orders/*", "orders/**", "**"])
async def test_a_worker_reads_its_pattern_and_reads_and_writes_its_wake_stream(server, issuer, granted):
    record = Record()
    token = issuer.token(client_id="worker", streams={"read": [granted, WAKES], "write": [WAKES]})
    async with (
        AsyncStreams(server.url, token=issuer.token(admin=True)) as admin,
        AsyncStreams(server.url, token=token) as streams,
        running(record.make_worker("orders/*"), streams),
    ):
        await admin.create("orders/1", JSON, body={"n": 1})
        await eventually_async(lambda: record.messages == [{"n": 1}])


@pytest.mark.parametrize(
    "grants",
    [
        {"read": ["orders/1", WAKES], "write": [WAKES]},
        {"read": ["orders/*"], "write": [WAKES]},
        {"read": ["orders/*", WAKES], "write": []},
    ],
    ids=["not the whole pattern", "not reading the wake stream", "not writing the wake stream"],
)
async def test_a_worker_with_fewer_grants_is_refused(server, issuer, grants):
    token = issuer.token(client_id="worker", streams=grants)
    async with AsyncStreams(server.url, token=token) as streams:
        with pytest.raises(Forbidden):
            await Record().make_worker("orders/*").run(streams)
