// The shell around a session: it reads and writes one WebSocket, and notices silence.

import { MainstemError } from "./errors.js";
import * as limits from "./limits.js";
import { encodeMessage } from "./messages.js";

const silent = () => new MainstemError("server_silent", "the server does not answer a heartbeat");
const lost = (text) => new MainstemError("connection_lost", text);

/** Open a socket, and return it once it is connected. */
export function openSocket(WebSocket, url, signal) {
  return new Promise((resolve, reject) => {
    const socket = new WebSocket(url);
    const settle = () => {
      clearTimeout(timer);
      signal.removeEventListener("abort", onAbort);
      socket.onopen = socket.onclose = socket.onerror = null;
    };
    const fail = (text) => {
      settle();
      socket.close();
      reject(lost(text));
    };
    const onAbort = () => fail("the client was closed");
    const timer = setTimeout(() => fail(`${url} did not answer within ${limits.OPEN_S_MAX} s`), limits.OPEN_S_MAX * 1000);
    signal.addEventListener("abort", onAbort);
    socket.onopen = () => {
      settle();
      resolve(socket);
    };
    // A browser does not say why.
    socket.onerror = socket.onclose = () => fail(`cannot connect to ${url}, or it did not accept a WebSocket`);
  });
}

/** Runs one session until it ends, which is always with an error. */
export class Connection {
  #socket;
  #session;
  #owner;
  #onProgress;
  #texts = [];
  #calls = [];
  #size = 0;
  #willSendDrafts = false;
  #error = null;
  #wake = () => {};
  #lastMessageAt = performance.now();
  #askedAt = null;
  #heartbeat;
  #timers = new Set();

  /** `owner` has save(updates), load(itemsMax, bytesMax) and report(error); `onProgress` is called after each step. */
  constructor(socket, session, owner, onProgress) {
    this.#socket = socket;
    this.#session = session;
    this.#owner = owner;
    this.#onProgress = onProgress;
    socket.onmessage = ({ data }) => this.#receive(data);
    socket.onerror = null;
    socket.onclose = ({ code, reason }) =>
      this.end(lost(code === 1006 ? "the connection broke" : `the server closed the connection: ${code} ${reason}`.trim()));
    if (socket.readyState > 1) this.end(lost("the connection broke")); // before there was somebody to hear of it
    this.#watchSilence();
  }

  /** Send the drafts that were added to the store. */
  sendDrafts() {
    if (this.#willSendDrafts) return;
    this.#willSendDrafts = true;
    this.call((session) => session.sendDrafts());
  }

  /** Call the session as soon as it has finished its current work. */
  call(work) {
    this.#calls.push(work);
    this.#wake();
  }

  /** Find out soon whether the server still answers. */
  probe() {
    this.#ask();
    this.#callAfter(limits.PROBE_S_MAX, () => this.#askedAt !== null && this.end(silent()));
  }

  /** End the session with an error. */
  end(error) {
    this.#error ??= error;
    this.#wake();
  }

  /** Run the session, and throw what has ended it. */
  async run() {
    try {
      await this.#perform(this.#session.open());
      while (true) {
        // What has arrived before the end still counts: it may hold the reason.
        if (this.#error && !this.#texts.length) throw this.#error;
        if (!this.#texts.length && !this.#calls.length) await new Promise((resolve) => (this.#wake = resolve));
        else await this.#processInput();
      }
    } finally {
      clearTimeout(this.#heartbeat);
      for (const timer of this.#timers) clearTimeout(timer);
      this.#socket.onmessage = this.#socket.onclose = null;
    }
  }

  // Input

  #receive(data) {
    this.#lastMessageAt = performance.now();
    this.#askedAt = null;
    this.#texts.push(data);
    this.#size += data.length ?? 0;
    if (this.#size > limits.INBOX_CHARACTERS_MAX) {
      this.#texts = [];
      this.end(lost("the server sends faster than this client can store; it continues from its cursor"));
    }
    this.#wake();
  }

  /** Process all waiting calls and messages. Their changes are collected, so that one transaction stores them. */
  async #processInput() {
    const [calls, texts] = [this.#calls, this.#texts];
    [this.#calls, this.#texts, this.#size, this.#willSendDrafts] = [[], [], 0, false];
    const effects = [];
    let error = null;
    try {
      for (const work of calls) effects.push(...work(this.#session));
      for (const text of texts) effects.push(...this.#session.receive(text));
    } catch (thrown) {
      error = thrown;
    }
    await this.#perform(effects);
    if (error) throw error;
  }

  /** Send a heartbeat if the server is silent. Browsers delay the timers of hidden tabs, so an answer may take long. */
  #watchSilence() {
    this.#heartbeat = setTimeout(() => {
      const now = performance.now();
      if (this.#askedAt === null && now - this.#lastMessageAt >= limits.HEARTBEAT_S * 1000) this.#ask();
      if (now - (this.#askedAt ?? now) < (limits.SILENCE_S_MAX - limits.HEARTBEAT_S) * 1000) this.#watchSilence();
      else this.end(silent());
    }, limits.HEARTBEAT_S * 1000);
  }

  #ask() {
    this.#askedAt ??= performance.now();
    this.#socket.send(encodeMessage("heartbeat", {}));
  }

  // Output

  /** Perform effects in order. Those after a save wait until it is durable. */
  async #perform(effects) {
    let saves = [];
    const saveAll = async () => {
      const updates = saves;
      saves = [];
      if (updates.length) await this.#owner.save(updates);
    };
    for (const effect of effects) {
      if (effect.type === "save") {
        saves.push(effect.update);
        continue;
      }
      await saveAll();
      if (effect.type === "send") this.#socket.send(effect.text);
      else if (effect.type === "pause") this.#resumeAfter(effect.seconds);
      else if (effect.type === "report") this.#owner.report(effect.error);
      else effects.push(...this.#session.offer(await this.#owner.load(effect.itemsMax, effect.bytesMax)));
    }
    await saveAll();
    this.#onProgress();
  }

  #resumeAfter(seconds) {
    this.#callAfter(seconds, () => this.call((session) => session.resume()));
  }

  #callAfter(seconds, work) {
    const timer = setTimeout(() => {
      this.#timers.delete(timer);
      work();
    }, seconds * 1000);
    this.#timers.add(timer);
  }
}
