"""Workers with tokens, and inside embedded apps."""

from mainstem.client import AsyncStreams
from mainstem.server import create_app
from tests.support.issuers import write_secret
from tests.support.waits import eventually_async
from tests.workers.running import JSON, Record, is_processed, running


async def test_a_worker_inside_an_embedded_app_that_visitors_can_only_read():
    record = Record()
    log = create_app(store="memory", public="read")
    async with log.lifespan(), log.client() as streams:
        await streams.create("orders/1", JSON)
        async with running(record.make_worker("orders/*"), streams):
            await streams.append("orders/1", {"n": 1})
            await eventually_async(lambda: is_processed(streams, "orders/1"))
    assert record.messages == [{"n": 1}]


async def test_a_worker_with_a_token(start_thread, hasty, tmp_path):
    issuer = write_secret(tmp_path / "secret")
    server = start_thread(store="memory", jwt_secret_file=str(tmp_path / "secret"))
    token = issuer.token(sub="billing", admin=True)
    record = Record()
    async with AsyncStreams(server.url, token=token) as streams:
        await streams.create("orders/1", JSON)
        async with running(record.make_worker("orders/*"), streams):
            await streams.append("orders/1", {"n": 1})
            await eventually_async(lambda: is_processed(streams, "orders/1"))
    assert record.messages == [{"n": 1}]
