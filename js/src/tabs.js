// Tabs that share one store: one of them leads and has the connection, the others follow what it reports.

/** The share of this tab. `onLead` is called once, when this tab becomes the leader; `onMessage` for each message. */
export class Tabs {
  #channel;
  #closing = new AbortController();
  #release = () => {};
  #done;

  constructor(name, { onLead, onMessage }) {
    this.#channel = new BroadcastChannel(name);
    this.#channel.onmessage = ({ data }) => onMessage(data);
    const held = new Promise((resolve) => (this.#release = resolve));
    // The browser gives the lock to the next tab when this one ends, even if it crashes.
    this.#done = navigator.locks
      .request(name, { signal: this.#closing.signal }, () => {
        onLead();
        return held;
      })
      .catch((error) => {
        if (error.name !== "AbortError") throw error;
      });
  }

  post(message) {
    this.#channel.postMessage(message);
  }

  async close() {
    this.#channel.close();
    this.#closing.abort();
    this.#release();
    await this.#done;
  }
}

/** The share of a client whose store nobody else can use. */
export class OnlyTab {
  constructor({ onLead }) {
    queueMicrotask(onLead);
  }

  post() {}

  async close() {}
}

/** Whether this environment can share a store between tabs. Browsers have locks only with https and on localhost. */
export const canShare = () =>
  typeof indexedDB !== "undefined" && typeof BroadcastChannel !== "undefined" && Boolean(globalThis.navigator?.locks);
