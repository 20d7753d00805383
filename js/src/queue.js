// Sends drafts to the server, in the order of their clock, with one request in flight.
//
// With two requests in flight, the server could refuse the first for its rate and commit the second before it. A draft
// has no state "sent": a draft without a result is sent again on the next connection, and the server recognises its id.

import { SUBMIT_OVERHEAD_BYTES, draftBytes } from "./content.js";
import { protocolFault } from "./errors.js";
import * as limits from "./limits.js";
import { encodeMessage } from "./messages.js";


/** The drafts of one connection that wait for a result. */
export class SubmitQueue {
  #nextId;
  #limits = null;
  #itemsMax = 1;
  #batch = [];
  #batchId = "";
  #isLoading = false;
  #isPaused = false;

  constructor(nextId) {
    this.#nextId = nextId;
  }

  /** Start to send, within the limits that the server announced. */
  begin(announced) {
    this.#limits = announced;
    this.#itemsMax = this.#batchItems();
    return this.load();
  }

  #batchItems() {
    const { batchItemsMax, draftsMax } = this.#limits;
    return Math.max(1, Math.min(limits.BATCH_ITEMS_MAX, batchItemsMax, draftsMax));
  }

  load() {
    if (!this.#limits || this.#batch.length || this.#isLoading || this.#isPaused) return [];
    this.#isLoading = true;
    return [
      { type: "load", itemsMax: this.#itemsMax, bytesMax: this.#limits.messageBytesMax - SUBMIT_OVERHEAD_BYTES },
    ];
  }

  offer(drafts) {
    this.#isLoading = false;
    const most = this.#limits.messageBytesMax;
    const batch = [];
    let size = SUBMIT_OVERHEAD_BYTES;
    for (const draft of drafts) {
      size += draftBytes(draft) + 1;
      if (size > most) break;
      batch.push(draft);
    }
    if (drafts.length && !batch.length) {
      const errors = [{ field: "event", message: `the server accepts messages of at most ${most} bytes` }];
      return [this.#refusal(drafts[0].id, "too_large", errors), ...this.load()];
    }
    this.#batch = batch;
    if (!batch.length) return [];
    this.#batchId = this.#nextId();
    const events = batch.map(({ id, partitions, event }) => ({ id, partitions, event }));
    return [{ type: "send", text: encodeMessage("submit_events", { events }, this.#batchId) }];
  }

  #refusal = (id, reason, errors) => ({ type: "save", update: { refusals: [{ id, reason, errors }] } });

  awaits(msgId) {
    return this.#batch.length > 0 && msgId === this.#batchId;
  }

  /** Return what the results change in the store. */
  settle(msgId, results) {
    const batch = this.#takeBatch();
    if (!batch.length || (msgId !== null && msgId !== this.#batchId)) {
      throw protocolFault("results without a request");
    }
    if (results.length !== batch.length || results.some(({ id }, index) => id !== batch[index].id)) {
      throw protocolFault("results of other drafts");
    }
    const update = {};
    for (const { id, status, committedId, committedAt, reason, errors } of results) {
      if (status === "committed" && committedId) {
        (update.commits ??= []).push({ id, committedId, committedAt });
      } else if (status === "rejected") {
        (update.refusals ??= []).push({ id, reason: reason || "rejected", errors });
      } else {
        throw protocolFault(`the status ${status}`);
      }
    }
    return update;
  }

  /** Handle a refusal of the whole request: the server has processed none of its drafts. */
  refuse(error) {
    const batch = this.#takeBatch();
    if (error.code === "rate_limited") {
      this.#isPaused = true;
      return [{ type: "report", error }, { type: "pause", seconds: pauseSeconds(error) }];
    }
    if (batch.length > 1) {
      this.#itemsMax = 1; // to find out which draft it is
      return this.load();
    }
    this.#itemsMax = this.#batchItems();
    return [this.#refusal(batch[0].id, error.code, [{ field: "", message: error.message }]), ...this.load()];
  }

  #takeBatch() {
    const batch = this.#batch;
    this.#batch = [];
    return batch;
  }

  resume() {
    this.#isPaused = false;
    return this.load();
  }
}

/** Return how long to wait after an error of the server, within our own limits. */
export function pauseSeconds({ details }) {
  const wait = details.retry_after_ms;
  const asked = typeof wait === "number" ? wait / 1000 : 1;
  return Math.min(Math.max(asked, 0.05), limits.REFUSED_S);
}
