// Appends that an application starts at the same time: the official client combines waiting ones into one body.
import { DurableStream, stream } from "@durable-streams/client"

const url = `${process.env.MAINSTEM_URL}/v1/stream/javascript/together`
const size = 1_000_000
const bytes = await DurableStream.create({ url: `${url}/bytes`, contentType: "application/octet-stream" })
const json = await DurableStream.create({ url: `${url}/json`, contentType: "application/json" })
const numbers = [...Array(30).keys()]
const outcomes = await Promise.allSettled([
  ...numbers.map((number) => bytes.append(new Uint8Array(size).fill(number))),
  ...numbers.map((number) => json.append(JSON.stringify({ number, text: "x".repeat(size) }))),
])
const refused = outcomes.filter((outcome) => outcome.status === "rejected").map((outcome) => String(outcome.reason))

// Not with `live: false`, because then this client reads only one page. Both calls end when they are up to date.
const body = await (await stream({ url: bytes.url })).body()
const runs = []
for (let at = 0; at < body.length; at += size) {
  const run = body.subarray(at, at + size)
  runs.push(run.every((byte) => byte === run[0]) && run.length === size ? run[0] : -1)
}
const messages = (await (await stream({ url: json.url })).json()).map((message) => message.number)
console.log(JSON.stringify({ refused, length: body.length, runs, messages }))
process.exit(0)
