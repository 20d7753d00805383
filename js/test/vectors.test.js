// The shared vectors in Node.js: node --test.

import { mkdtempSync, readFileSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import test from "node:test";

import { TABLES } from "../src/store.js";
import { FileBackend } from "../src/stores/file.js";
import { MemoryBackend } from "../src/stores/memory.js";
import { runCanonical, runPartitions, runSession, runStore, runView } from "./vectors.js";

const folder = process.env.VECTORS ?? new URL("../../tests/vectors/", import.meta.url).pathname;
const load = (name) => JSON.parse(readFileSync(join(folder, name), "utf8"));

for (const file of readdirSync(join(folder, "session"))) {
  for (const given of load(`session/${file}`)) test(`session: ${given.name}`, () => runSession(given));
}
for (const given of load("canonical.json")) test(`canonical: ${given.name}`, () => runCanonical(given));
for (const given of load("partitions.json")) test(`partitions: ${given.name}`, () => runPartitions(given));

function inMemory() {
  const backend = new MemoryBackend(TABLES);
  return () => backend;
}

function inFile(context) {
  const place = mkdtempSync(join(tmpdir(), "mainstem-"));
  context.after(() => rmSync(place, { recursive: true }));
  return () => new FileBackend(join(place, "store"));
}

for (const [kind, make] of [["memory", inMemory], ["file", inFile]]) {
  for (const given of load("store.json")) {
    test(`store in ${kind}: ${given.name}`, (context) => runStore(given, make(context)));
  }
  for (const given of load("views.json")) {
    test(`view in ${kind}: ${given.name}`, (context) => runView(given, make(context)));
  }
}
