// What an application does with packages that build on the official client, against the server at MAINSTEM_URL.
// The first argument names the package. Prints the results as JSON.
import { DurableStream, stream } from "@durable-streams/client"

const root = `${process.env.MAINSTEM_URL}/v1/stream/packages`

async function* chunksOf(items) {
  for (const item of items) yield item
}

async function collect(iterable, count) {
  const items = []
  for await (const item of iterable) {
    items.push(item)
    if (items.length === count) break
  }
  return items
}

// State: change events in a stream, folded into a materialised state, at once and live.
async function state() {
  const { MaterializedState } = await import("@durable-streams/state")
  const log = await DurableStream.create({ url: `${root}/state`, contentType: "application/json" })
  const write = (key, value, operation) =>
    log.append(JSON.stringify({ type: "config", key, value, headers: { operation } }))
  await write("theme", "dark", "insert")
  await write("language", "en", "insert")
  await write("theme", "light", "update")
  await write("language", undefined, "delete")
  const folded = new MaterializedState()
  const read = await stream({ url: log.url, live: false })
  for (const event of await read.json()) folded.apply(event)
  const live = await stream({ url: log.url, offset: read.offset, live: "sse" })
  await write("size", 12, "insert")
  for (const event of await collect(live.jsonStream(), 1)) folded.apply(event)
  return {
    theme: folded.get("config", "theme"),
    hasLanguage: folded.get("config", "language") !== undefined,
    size: folded.get("config", "size"),
  }
}

// AI SDK: a generation is written to a stream, read by the chat transport, and read again after a reload.
async function aisdk() {
  const { createDurableChatTransport, toDurableStreamResponse } = await import("@durable-streams/aisdk-transport")
  const chunks = [
    { type: "start", messageId: "m1" },
    { type: "text-start", id: "t1" },
    ...["Hello", ",", " world"].map((delta) => ({ type: "text-delta", id: "t1", delta })),
    { type: "text-end", id: "t1" },
    { type: "finish" },
  ]
  const writeUrl = `${root}/aisdk`
  const respond = (url, options) =>
    options?.method === "POST"
      ? toDurableStreamResponse({ source: chunksOf(chunks), stream: { writeUrl } })
      : Response.json({ streamUrl: writeUrl }, { headers: { Location: writeUrl } })
  const transport = createDurableChatTransport({ api: "http://app.test/api/chat", fetchClient: respond })
  const textOf = async (readable) =>
    (await collect(readable)).filter((chunk) => chunk.type === "text-delta").map((chunk) => chunk.delta).join("")
  const message = { trigger: "submit-message", chatId: "c1", messages: [] }
  return {
    text: await textOf(await transport.sendMessages(message)),
    resumed: await textOf(await transport.reconnectToStream({ chatId: "c1" })),
    closed: (await DurableStream.head({ url: writeUrl })).streamClosed,
  }
}

// TanStack AI: a chat session in one stream, with a snapshot for a late subscriber and live chunks after it.
async function tanstack() {
  const { durableStreamConnection, toDurableChatSessionResponse } = await import(
    "@durable-streams/tanstack-ai-transport"
  )
  const writeUrl = `${root}/tanstack`
  const answer = (id, words) => [
    { type: "TEXT_MESSAGE_START", messageId: id, role: "assistant" },
    ...words.map((delta) => ({ type: "TEXT_MESSAGE_CONTENT", messageId: id, delta })),
    { type: "TEXT_MESSAGE_END", messageId: id },
  ]
  const respond = (id, question, words) =>
    toDurableChatSessionResponse({
      stream: { writeUrl },
      newMessages: [{ id: `${id}-user`, role: "user", parts: [{ type: "text", content: question }] }],
      responseStream: chunksOf(answer(id, words)),
      mode: "await",
    })
  const first = await respond("a1", "Who is there?", ["The", " server"])
  const connection = durableStreamConnection({ sendUrl: writeUrl, readUrl: writeUrl })
  const abort = new AbortController()
  const deltas = []
  let snapshot
  for await (const chunk of connection.subscribe(abort.signal)) {
    if (chunk.type === "MESSAGES_SNAPSHOT") {
      snapshot = chunk.messages.map((message) => message.role)
      await respond("a2", "And now?", ["Still", " here"])
    }
    if (chunk.type === "TEXT_MESSAGE_CONTENT" && chunk.messageId === "a2") deltas.push(chunk.delta)
    if (chunk.type === "TEXT_MESSAGE_END" && chunk.messageId === "a2") break
  }
  abort.abort()
  return { status: first.status, snapshot, text: deltas.join("") }
}

// Yjs: two documents that edit at the same time converge, and a third one loads the result.
async function yjs() {
  const { YjsProvider } = await import("@durable-streams/y-durable-streams")
  const { YjsServer } = await import("@durable-streams/y-durable-streams/server")
  const Y = await import("yjs")
  const server = new YjsServer({ port: 0, dsServerUrl: process.env.MAINSTEM_URL })
  await server.start()
  const open = async (liveMode) => {
    const doc = new Y.Doc()
    const provider = new YjsProvider({ doc, baseUrl: `${server.url}/v1/yjs/test`, docId: "notes", liveMode })
    if (!provider.synced) await new Promise((resolve) => provider.once("synced", resolve))
    return { doc, list: doc.getArray("list"), provider }
  }
  const until = (list, length) =>
    new Promise((resolve) => {
      const check = () => list.length >= length && resolve()
      list.observe(check)
      check()
    })
  const [ada, bob] = [await open("sse"), await open("long-poll")]
  for (let number = 0; number < 20; number++) {
    ada.list.push([`ada-${number}`])
    bob.list.push([`bob-${number}`])
  }
  await Promise.all([until(ada.list, 40), until(bob.list, 40)])
  const late = await open("sse")
  await until(late.list, 40)
  const lists = [ada, bob, late].map(({ list }) => JSON.stringify(list.toArray()))
  return { items: ada.list.length, equal: new Set(lists).size === 1 }
}

console.log(JSON.stringify(await { state, aisdk, tanstack, yjs }[process.argv[2]]()))
process.exit(0)
