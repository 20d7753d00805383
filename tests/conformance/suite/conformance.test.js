// The public suite, against the server at MAINSTEM_URL.
import { runConformanceTests } from "@durable-streams/server-conformance-tests"

runConformanceTests({
  baseUrl: process.env.MAINSTEM_URL,
  longPollTimeoutMs: Number(process.env.MAINSTEM_LONG_POLL_MS),
  subscriptions: process.env.MAINSTEM_SUBSCRIPTIONS === "1",
})
