// Starts the Node reference server with its durable file store.
// Usage: node node_peer.mjs PACKAGE_DIR PORT DATA_DIR
import { createRequire } from "node:module"
import { resolve } from "node:path"

const [packageDir, port, dataDir] = process.argv.slice(2)
// The package is in a cache folder, where a plain import would not find it.
const require = createRequire(resolve(packageDir, "package.json"))
const { DurableStreamTestServer } = require("@durable-streams/server")

const server = new DurableStreamTestServer({ port: Number(port), host: "127.0.0.1", dataDir })
await server.start()
process.on("SIGTERM", () => server.stop().finally(() => process.exit(0)))
