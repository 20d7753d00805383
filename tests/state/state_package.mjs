// What an application does with the official State Protocol package, against the stream at STATE_URL.
// The first argument names the part. Prints the results as JSON.
import { DurableStream, stream } from "@durable-streams/client"
import { MaterializedState, createStateSchema, isChangeEvent, isControlEvent } from "@durable-streams/state"
import { createStreamDB } from "@durable-streams/state/db"

const url = process.env.STATE_URL
const contentType = "application/json"

// A schema of the Standard Schema interface that accepts every object.
const anyObject = {
  "~standard": {
    version: 1,
    vendor: "test",
    validate: (value) => (typeof value === "object" ? { value } : { issues: [{ message: "not an object" }] }),
  },
}
const schema = createStateSchema({
  users: { schema: anyObject, type: "user", primaryKey: "id" },
  tasks: { schema: anyObject, type: "task", primaryKey: "id" },
})

function rowsOf(db) {
  // StreamDB and TanStack DB add members of their own: _seq, $synced and others.
  const written = (row) => Object.fromEntries(Object.entries(row).filter(([name]) => name !== "_seq" && !name.startsWith("$")))
  const rows = (collection) => Object.fromEntries(collection.toArray.map((row) => [row.id, written(row)]))
  return { users: rows(db.collections.users), tasks: rows(db.collections.tasks) }
}

const parts = {
  // Fold all messages with MaterializedState. A reset is up to the application.
  async materialized() {
    const folded = new MaterializedState()
    const controls = []
    for (const event of await (await stream({ url, live: false })).json()) {
      if (isChangeEvent(event)) folded.apply(event)
      else if (isControlEvent(event)) {
        controls.push(event.headers.control)
        if (event.headers.control === "reset") folded.clear()
      }
    }
    const rows = Object.fromEntries(folded.types.map((type) => [type, Object.fromEntries(folded.getType(type))]))
    return { rows, controls }
  },

  // Load the stream into a database of TanStack DB.
  async database() {
    const db = createStreamDB({ streamOptions: { url, contentType }, state: schema, live: false })
    await db.preload()
    return rowsOf(db)
  },

  // The same, but returns the kind of error with which it ends.
  async failure() {
    console.error = () => {}
    return parts.database().then(
      () => null,
      (error) => error.constructor.name
    )
  },

  // Follow the stream live until a transaction arrives.
  async follow(txid) {
    const db = createStreamDB({ streamOptions: { url, contentType }, state: schema })
    await db.preload()
    const before = rowsOf(db)
    const log = new DurableStream({ url, contentType })
    await log.append(JSON.stringify(schema.users.insert({ value: { id: "node", name: "Ready" }, headers: { txid: "ready" } })))
    await db.utils.awaitTxId(txid, 30_000)
    const after = rowsOf(db)
    db.close()
    return { before, after }
  },

  // Change the title of a task in the database, and write the row back.
  async edit(key, title) {
    const db = createStreamDB({ streamOptions: { url, contentType }, state: schema, live: false })
    await db.preload()
    const task = { ...db.collections.tasks.get(key), title }
    const log = new DurableStream({ url, contentType })
    await log.append(JSON.stringify(schema.tasks.update({ value: task, headers: { txid: "edited" } })))
    return task.id
  },

  // Write with the event helpers of the package.
  async write() {
    const log = new DurableStream({ url, contentType })
    const events = [
      schema.users.insert({ value: { id: "1", name: "Ada", tags: ["a"] } }),
      schema.users.insert({ key: "2", value: { name: "Bob" } }),
      schema.users.update({ value: { id: "1", name: "Ada L." }, oldValue: { id: "1", name: "Ada" } }),
      schema.users.upsert({ value: { id: "3", name: "Grüße 👍" } }),
      schema.users.delete({ key: "2" }),
      schema.tasks.insert({ value: { id: 7, title: "write" } }),
      schema.tasks.delete({ oldValue: { id: 8, title: "never there" } }),
      { type: "unknown", key: "1", value: 5, headers: { operation: "insert" } },
      schema.tasks.upsert({ value: { id: 9, title: "test" }, headers: { txid: "last", from: "node" } }),
    ]
    for (const event of events) await log.append(JSON.stringify(event))
    return events.length
  },

  // Write the control messages, which the package has no helper for.
  async control() {
    const log = new DurableStream({ url, contentType })
    const user = (id) => schema.users.insert({ value: { id, name: id } })
    const events = [
      user("a"),
      { headers: { control: "snapshot-start" } },
      user("b"),
      { headers: { control: "snapshot-end" } },
      { headers: { control: "reset" } },
      user("c"),
    ]
    for (const event of events) await log.append(JSON.stringify(event))
    return events.length
  },
}

const [part, ...rest] = process.argv.slice(2)
console.log(JSON.stringify(await parts[part](...rest)))
process.exit(0)
