// Reading one stream: live, in pages for searches and downloads, and as items for lists.

import { follow, nextFrame, request, streamPath } from "./api.js";
import { decodeBase64, isJson, isText } from "./formats.js";
import { splitArray } from "./json.js";

const SLICE_MS = 12;

/** Return the items of one read: the messages of a JSON stream; otherwise one item with everything in it. */
function makeItems(content, contentType, offset) {
  if (isJson(contentType)) {
    return splitArray(content).map((json, index) => ({ json, offset, index, size: json.length }));
  }
  if (!content.length) return [];
  if (typeof content === "string") return [{ text: content, offset, index: 0, size: content.length }];
  return [{ bytes: content, offset, index: 0, size: content.length }];
}

/**
 * Return a source for a Tail. Its positions are `{ offset }`, where to begin, or `{ last: n }`, the last n messages.
 *
 * An item has its payload (json, text or bytes), and `offset` and `index`: a read from the offset returns it as message
 * number `index`. The offset of the last messages is unknown, and null.
 */
export function streamSource(path, contentType) {
  return readSource(streamPath(path), contentType);
}

/** The same for any API path that is read like a stream. */
export function readSource(api, contentType) {
  return async ({ from, signal, push, say }) => {
    let offset = from.offset ?? null;
    if (from.last) {
      const reply = await request("GET", api, { query: { tail: from.last }, signal });
      const body = isJson(contentType) || isText(contentType) ? await reply.text() : new Uint8Array(await reply.arrayBuffer());
      offset = reply.headers.get("Stream-Next-Offset");
      push(makeItems(body, contentType, null), { offset });
    }
    let received = [];
    let base64 = false;
    await follow(api, {
      signal,
      query: (lastId) => ({ offset: lastId ?? offset, live: "sse" }),
      onOpen: (reply) => {
        received = []; // data without its control event comes again
        base64 = reply.headers.get("Stream-SSE-Data-Encoding") === "base64";
      },
      onEvent: ({ event, data }) => {
        if (event === "data") received.push(base64 ? decodeBase64(data) : data);
        else if (event === "deleted") {
          say("The stream was deleted", "bad");
          return "stop";
        } else if (event === "control") {
          const control = JSON.parse(data);
          const items = received.flatMap((content) => makeItems(content, contentType, offset));
          received = [];
          offset = control.streamNextOffset;
          push(items, { offset });
          if (control.streamClosed) {
            say("Closed: nothing follows");
            return "stop";
          }
          if (control.upToDate) say("Live", "good");
          else say("Reading");
        }
        return null;
      },
    });
  };
}

/** Yield `{ body, offset, next }` for each page of a stream from an offset to its end. Bodies are bytes. */
export async function* readPages(path, offset, signal) {
  for (;;) {
    const reply = await request("GET", streamPath(path), { query: { offset }, signal, cache: "default" });
    const body = new Uint8Array(await reply.arrayBuffer());
    const next = reply.headers.get("Stream-Next-Offset");
    yield { body, offset, next };
    if (reply.headers.get("Stream-Up-To-Date") === "true" || next === offset) return;
    offset = next;
  }
}

/** Return the bytes of a stream from an offset on, at most `limit`. */
export async function readBytes(path, offset, limit, signal) {
  const parts = [];
  let left = limit;
  for await (const { body } of readPages(path, offset, signal)) {
    parts.push(body.subarray(0, left));
    left -= body.length;
    if (left <= 0) break;
  }
  return new Uint8Array(await new Blob(parts).arrayBuffer());
}

/**
 * Look for a text in a stream from an offset to its end, in any case. `found(items, next)` gets what matches in each
 * page, and where to continue; `progress({messages, bytes})` how far it is. It gives way to the page every few
 * milliseconds, and ends when `signal` is aborted.
 */
export async function searchStream(path, contentType, text, { from, signal, found, progress }) {
  const wanted = text.toLowerCase();
  const json = isJson(contentType);
  let messages = 0;
  let bytes = 0;
  let began = performance.now();
  const decoder = new TextDecoder("utf-8");
  let carry = "";
  for await (const { body, offset, next } of readPages(path, from, signal)) {
    const items = [];
    if (json) {
      const page = splitArray(decoder.decode(body));
      for (let index = 0; index < page.length; index += 1) {
        const one = page[index];
        if (containsText(one, wanted)) items.push({ json: one, offset, index, size: one.length });
        messages += 1;
        if (performance.now() - began > SLICE_MS) {
          progress({ messages, bytes });
          await nextFrame();
          signal.throwIfAborted();
          began = performance.now();
        }
      }
    } else {
      const content = carry + decoder.decode(body, { stream: true });
      const lower = content.toLowerCase();
      for (let at = lower.indexOf(wanted); at >= 0; at = lower.indexOf(wanted, at + wanted.length)) {
        const snippet = content.slice(Math.max(0, at - 80), at + wanted.length + 160).toWellFormed();
        items.push({ text: snippet, offset, index: items.length, size: snippet.length });
      }
      carry = wanted.length > 1 ? content.slice(-(wanted.length - 1)) : "";
    }
    bytes += body.length;
    progress({ messages, bytes });
    found(items, next);
  }
}

/** Whether a JSON message contains a text, as it is written or with its escapes resolved. */
function containsText(json, wanted) {
  const lower = json.toLowerCase();
  if (lower.includes(wanted)) return true;
  return json.includes("\\") && JSON.stringify(JSON.parse(json)).toLowerCase().includes(wanted);
}
