"""Workers over pull-wake subscriptions, and the verification of webhooks.

@worker("orders/*", subscription="billing")
async def bill(batch):
    for order in batch.messages: ...

async with AsyncStreams(url) as streams:
    await bill.run(streams)
"""

from mainstem.client.workers.core.batches import WorkerBatch
from mainstem.client.workers.core.signatures import WebhookRefused, verify_signature
from mainstem.client.workers.core.subscription_requests import SubscriptionRefused
from mainstem.client.workers.core.wakes import Wake, WakeStream
from mainstem.client.workers.runner import Worker, worker
from mainstem.client.workers.webhooks import verify_webhook

__all__ = [
    "SubscriptionRefused",
    "Wake",
    "WakeStream",
    "WebhookRefused",
    "Worker",
    "WorkerBatch",
    "verify_signature",
    "verify_webhook",
    "worker",
]
