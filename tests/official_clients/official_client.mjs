// What an application does with the official client, against the server at MAINSTEM_URL. Prints the results as JSON.
import { DurableStream, IdempotentProducer, stream } from "@durable-streams/client"

const root = `${process.env.MAINSTEM_URL}/v1/stream/javascript`
const seen = {}

async function collect(response, count) {
  const items = []
  for await (const item of response.jsonStream()) {
    items.push(item)
    if (items.length === count) break
  }
  return items
}

// Create, append, read, metadata
const plain = await DurableStream.create({ url: `${root}/plain`, contentType: "text/plain", ttlSeconds: 3600 })
await plain.append("grüße ")
await plain.append("zwei", { seq: "1" })
const read = await stream({ url: plain.url, live: false })
seen.text = await read.text()
seen.resumed = await (await stream({ url: plain.url, offset: read.offset, live: false })).text()
const head = await plain.head()
seen.head = { exists: head.exists, contentType: head.contentType, offset: head.offset }
seen.missing = await DurableStream.head({ url: `${root}/missing` })

// Bytes
const binary = await DurableStream.create({ url: `${root}/binary`, contentType: "application/octet-stream" })
await binary.append(Uint8Array.from([0, 255, 13, 10]))
seen.bytes = [...(await (await stream({ url: binary.url, live: false })).body())]

// An idempotent producer with several batches in flight, and a second one that takes over
const produced = await DurableStream.create({ url: `${root}/produced`, contentType: "application/json" })
const errors = []
const producer = new IdempotentProducer(produced, "producer", { epoch: 0, onError: (error) => errors.push(String(error)) })
for (let number = 0; number < 200; number++) producer.append(JSON.stringify({ number }))
await producer.flush()
const successor = new IdempotentProducer(produced, "producer", { epoch: 1, onError: (error) => errors.push(String(error)) })
successor.append(JSON.stringify({ number: 200 }))
await successor.flush()
seen.produced = (await (await stream({ url: produced.url, live: false })).json()).map((item) => item.number)
seen.errors = [...errors]
producer.append(JSON.stringify({ number: -1 }))
await producer.flush().catch(() => {})
seen.fenced = errors.length
seen.after = (await (await stream({ url: produced.url, live: false })).json()).length

// Following over SSE and long-poll, from the beginning, including a later append
for (const live of ["sse", "long-poll"]) {
  const followed = await DurableStream.create({ url: `${root}/${live}`, contentType: "application/json" })
  await followed.append(JSON.stringify("before"))
  const following = collect(await stream({ url: followed.url, live, json: true }), 3)
  await followed.append(JSON.stringify("during"))
  await followed.append(JSON.stringify("after"))
  seen[live] = await following
}

// Closing ends all followers, and is final
for (const live of ["sse", "long-poll"]) {
  const closing = await DurableStream.create({ url: `${root}/closing-${live}`, contentType: "application/json" })
  await closing.append(JSON.stringify(1))
  const following = collect(await stream({ url: closing.url, live, json: true }), Infinity)
  await closing.close({ body: JSON.stringify(2) })
  seen[`closed-${live}`] = await following
  seen[`refused-${live}`] = await closing.append("3").then(
    () => "taken",
    (error) => error.status
  )
}

// A producer that closes
const last = await DurableStream.create({ url: `${root}/last`, contentType: "application/json" })
const closer = new IdempotentProducer(last, "closer", {})
closer.append(JSON.stringify("one"))
await closer.close(JSON.stringify("two"))
seen.last = await (await stream({ url: last.url, live: false })).json()
seen.lastClosed = (await last.head()).streamClosed

await plain.delete()
seen.deleted = await DurableStream.head({ url: plain.url })
console.log(JSON.stringify(seen))
process.exit(0)
