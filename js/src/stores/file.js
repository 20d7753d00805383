// Rows in a file, for Node.js: a journal of transactions, one line each, which is written anew when it is opened.

import { open, readFile, rename, rm, writeFile } from "node:fs/promises";
import { dirname } from "node:path";

import { MainstemError } from "../errors.js";
import { TABLES } from "../store.js";
import { MemoryBackend } from "./memory.js";

/** Keeps the content of the store in memory, and each change of it in a file. */
export class FileBackend extends MemoryBackend {
  #path;
  #file = null;
  #size = 0;
  #isBroken = false;

  constructor(path) {
    super(TABLES);
    this.#path = path;
  }

  async open() {
    await this.#lock();
    try {
      await this.#load();
    } catch (error) {
      await rm(this.#lockPath, { force: true });
      throw error;
    }
  }

  get #lockPath() {
    return `${this.#path}.lock`;
  }

  /** Take the lock file, which holds the id of a process. The file of a process that no longer runs does not count. */
  async #lock() {
    for (let attempt = 0; ; attempt += 1) {
      try {
        await writeFile(this.#lockPath, String(process.pid), { flag: "wx" });
        return;
      } catch (error) {
        if (error.code !== "EEXIST") throw wrong(this.#path, error);
      }
      const owner = Number(await readFile(this.#lockPath, "utf8").catch(() => ""));
      if (attempt || (owner && isRunning(owner))) {
        throw new MainstemError("client_store_in_use", `another client is using ${this.#path} (process ${owner})`);
      }
      await rm(this.#lockPath, { force: true });
    }
  }

  async #load() {
    const text = await readFile(this.#path, "utf8").catch((error) => {
      if (error.code === "ENOENT") return "";
      throw wrong(this.#path, error);
    });
    // A line without its end was cut off by a crash, and nobody was told that it is durable.
    for (const line of text.split("\n").slice(0, -1)) this.#replay(line);
    const compact = Object.entries(this.tables).flatMap(([name, table]) => table.range().map((row) => [name, row]));
    const replacement = `${this.#path}.new`;
    const file = await open(replacement, "w", 0o600);
    await file.write(`${JSON.stringify(compact)}\n`);
    await file.sync();
    await rename(replacement, this.#path);
    const folder = await open(dirname(this.#path), "r");
    await folder.sync();
    await folder.close();
    this.#size = (await file.stat()).size;
    this.#file = file;
  }

  #replay(line) {
    let changes;
    try {
      changes = JSON.parse(line);
      for (const [table, row, key] of changes) {
        if (row) this.tables[table].put(row);
        else this.tables[table].delete(key);
      }
    } catch {
      throw new MainstemError("client_store_wrong", `${this.#path} is not a store of this client`);
    }
  }

  async persist(changes) {
    if (!changes.length) return;
    const line = Buffer.from(`${JSON.stringify(changes)}\n`);
    try {
      if (this.#isBroken) throw new Error("an earlier write failed, and what it wrote could not be removed");
      for (let done = 0; done < line.length; ) {
        done += (await this.#file.write(line, done, line.length - done, this.#size + done)).bytesWritten;
      }
      await this.#file.sync();
      this.#size += line.length;
    } catch (error) {
      // The next line must not follow half of this one.
      await this.#file.truncate(this.#size).catch(() => (this.#isBroken = true));
      const code = error.code === "ENOSPC" ? "client_store_full" : "client_store_failed";
      throw new MainstemError(code, `cannot write ${this.#path}: ${error.message}`);
    }
  }

  async close() {
    await super.close();
    await this.#file?.close();
    this.#file = null;
    await rm(this.#lockPath, { force: true });
  }
}

const wrong = (path, error) => new MainstemError("client_store_wrong", `cannot use ${path}: ${error.message}`);

function isRunning(pid) {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return error.code === "EPERM";
  }
}
