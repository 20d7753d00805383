// Drives the published transports against the chat app: node transports.mjs URL PROGRAM
import { createRequire } from "node:module"
import { pathToFileURL } from "node:url"

const [url, program] = process.argv.slice(2)
const require = createRequire(new URL("../official_clients/package.json", import.meta.url))
const load = (name) => import(pathToFileURL(require.resolve(name)).href)

const post = (path) => fetch(url + path, { method: "POST" })
const message = (id, text) => ({ id, role: "user", parts: [{ type: "text", text, content: text }] })

async function collect(stream, until = () => false) {
  const chunks = []
  for await (const chunk of stream) {
    chunks.push(chunk)
    if (until(chunk)) break
  }
  return chunks
}
const text = (chunks) => chunks.filter((chunk) => chunk.type === "text-delta").map((chunk) => chunk.delta).join("")

async function aisdk() {
  const { createDurableChatTransport } = await load("@durable-streams/aisdk-transport")
  const { readUIMessageStream } = await load("ai")
  const transport = createDurableChatTransport({ api: `${url}/api/chat` })
  const send = (chatId, words, id = "m1") =>
    transport.sendMessages({ trigger: "submit-message", chatId, messageId: undefined, messages: [message(id, words)] })

  const nothing = await transport.reconnectToStream({ chatId: "aisdk" })
  const whole = await collect(await send("aisdk", "hi"))
  let last
  const chunks = new ReadableStream({ start(c) { whole.forEach((chunk) => c.enqueue(chunk)); c.close() } })
  for await (const state of readUIMessageStream({ stream: chunks })) last = state

  // A page that is left in the middle of an answer, and loaded again
  const left = await collect(await send("reloaded", "wait"), (chunk) => chunk.type === "text-delta")
  const again = await transport.reconnectToStream({ chatId: "reloaded" })
  const joined = await transport.reconnectToStream({ chatId: "reloaded" })
  await post("/release")
  const [resumed, second] = await Promise.all([collect(again), collect(joined)])

  await post("/hold")
  const running = await send("stopped", "wait")
  await post("/api/chat/stopped/stop")
  const stopped = await collect(running)

  const failed = await collect(await send("failed", "fail"))
  const refused = await send("forbidden", "hi").catch((error) => "refused")
  return {
    nothing, text: text(whole), message: last.parts.filter((part) => part.type === "text").map((part) => part.text).join(""),
    left: text(left), resumed: text(resumed), second: text(second),
    stopped: stopped.at(-1).type, failed: failed.at(-1).errorText, refused,
  }
}

async function tanstack() {
  const { durableStreamConnection, materializeSnapshotFromDurableStream } = await load("@durable-streams/tanstack-ai-transport")
  const sendUrl = `${url}/api/session/tanstack`
  const readUrl = `${sendUrl}/stream`
  const connection = durableStreamConnection({ sendUrl, readUrl })
  const ended = (chunk) => chunk.type === "RUN_FINISHED"
  // The transport yields no events but one snapshot for what was there when it subscribed: send only then
  const chunks = connection.subscribe()[Symbol.asyncIterator]()
  const first = [(await chunks.next()).value]
  await connection.send([message("u1", "wait")])
  await post("/release")
  first.push(...(await collect(chunks, ended)))
  const following = durableStreamConnection({ sendUrl, readUrl })
  const snapshot = await following.subscribe()[Symbol.asyncIterator]().next()
  const materialised = await materializeSnapshotFromDurableStream({ readUrl })
  return {
    types: [...new Set(first.map((chunk) => chunk.type))].filter((type) => type.startsWith("RUN_") || type === "MESSAGES_SNAPSHOT"),
    snapshot: snapshot.value.messages.map((m) => [m.role, m.parts.map((part) => part.content).join("")]),
    materialised: materialised.messages.map((m) => m.role),
  }
}

console.log(JSON.stringify(await { aisdk, tanstack }[program]()))
process.exit(0)
