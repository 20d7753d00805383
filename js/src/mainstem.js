// The Mainstem client for browsers and Node.js: an offline-first client of the sync protocol.

export { OfflineClient, indexedDbStore, memoryStore } from "./client.js";
export { MainstemError } from "./errors.js";
