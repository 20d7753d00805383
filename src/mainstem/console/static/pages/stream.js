// One stream: what is known about it, its messages live, a search, a download, and commands.

import { getJson, request, streamPath } from "../api.js";
import { attempt, notify } from "../dialogs.js";
import { add, badge, button, element, facts, field, replace, select, untrusted } from "../dom.js";
import { formatBytes, formatCount, formatTime, isJson, isText, plainText } from "../formats.js";
import { pageHead, panel, repeat, streamHref } from "../page.js";
import { showPayload, summarise } from "../payload.js";
import * as session from "../session.js";
import { readBytes, readPages, searchStream, streamSource } from "../stream_reader.js";
import { Tail } from "../tail.js";
import { appendMessage, closeStream, createStream, deleteStream } from "./stream_commands.js";
import { describeLife } from "./streams.js";

const REFRESH_MS = 5000;
const FIRST_MESSAGES = 100;
const FIRST_BYTES = 4 * 1024 * 1024;
const HEX_BYTES = 4 * 1024 * 1024;
const DOWNLOAD_BYTES_MAX = 2 * 1024 * 1024 * 1024;

export async function mount({ main, params, query, signal, setTitle, setQuery, shortcut }) {
  const [path] = params;
  setTitle(plainText(path));
  let stream = await describeStream(path, signal);
  const badges = element("span", { class: "row" });
  const about = panel("About");
  const list = element("div", { class: "stream-list" });
  const live = makeTail(path, stream.content_type, signal);

  async function refresh() {
    try {
      stream = await describeStream(path, signal);
    } catch (error) {
      if (error.status === 404 || error.status === 410) return replace(badges, badge("deleted", "bad"));
      throw error;
    }
    draw();
  }

  function draw() {
    replace(badges, stream.closed ? badge("closed") : badge("open", "good"), stream.forked_from !== null && badge("fork"));
    replace(about, element("h2", {}, "About"), describeFacts(stream));
    replace(actions, listActions());
  }

  const actions = element("div", { class: "row" });
  const download = element("div", { class: "download", hidden: true });
  function listActions() {
    const mayWrite = session.mayWrite(path);
    const run = (command) => () => command().then((done) => done && refresh());
    return [
      mayWrite && !stream.closed && button("Append", run(() => appendMessage(path, stream.content_type)), { kind: "primary", icon: "pen" }),
      button("Download", () => downloadStream(path, stream, download, signal), { icon: "download" }),
      session.mayWriteSomething() && button("Fork", () => createStream("", { path, offset: "" }).then((made) => made && (location.hash = streamHref(made))), { icon: "branch" }),
      mayWrite && !stream.closed && button("Close", run(() => closeStream(path)), { icon: "lock" }),
      mayWrite && button("Delete", () => deleteStream(path).then((done) => done && (location.hash = "#/streams")), { kind: "danger", icon: "trash" }),
    ];
  }

  const jump = makeJump(path, stream, query, setQuery, signal, (from) => {
    replace(list, live.element);
    searching?.stop();
    live.start(from);
  });
  let searching = null;
  const search = makeSearch(path, () => stream, signal, {
    open: (tail) => {
      live.stop();
      searching?.stop();
      searching = tail;
      replace(list, tail.element);
    },
    close: () => {
      searching?.stop();
      searching = null;
      replace(list, live.element);
      live.resume();
    },
  });
  add(
    main,
    pageHead(untrusted(path), { above: element("p", { class: "crumbs" }, element("a", { href: "#/streams" }, "Streams")), about: badges, actions }),
    download,
    about,
    element("div", { class: "controls" }, jump.element, search),
    list,
  );
  draw();
  jump.go();
  shortcut("p", "Pause or resume the live list", () => (live.paused ? live.resume() : live.pause()));
  if (session.mayWrite(path) && !stream.closed) shortcut("a", "Append a message", () => appendMessage(path, stream.content_type).then((done) => done && refresh()));
  session.identity.watch(() => draw(), signal);
  await repeat(() => refresh().catch((error) => signal.aborted || notify(error.message, "bad")), REFRESH_MS, signal);
}

/** Return what the list of streams says about one stream, and its retention. */
async function describeStream(path, signal) {
  const head = await request("HEAD", streamPath(path), { signal });
  const { streams } = await getJson("/v1/streams", { prefix: path, limit: 1 }, signal);
  const found = streams[0]?.path === path ? streams[0] : {};
  return {
    path,
    content_type: head.headers.get("Content-Type"),
    closed: head.headers.get("Stream-Closed") === "true",
    next_offset: head.headers.get("Stream-Next-Offset"),
    retention: head.headers.get("Stream-Retention"),
    ttl_seconds: null,
    expires_at: null,
    forked_from: null,
    ...found,
  };
}

function describeFacts(stream) {
  return facts([
    ["Content type", untrusted(stream.content_type)],
    ["Messages", stream.messages === undefined ? null : formatCount(stream.messages)],
    ["Size", stream.bytes === undefined ? null : formatBytes(stream.bytes)],
    ["Created", stream.created_at ? formatTime(stream.created_at) : null],
    ["Expires", describeLife(stream)],
    ["Retention", stream.retention ? untrusted(stream.retention) : null],
    ["Forked from", stream.forked_from === null ? null : element("a", { href: streamHref(stream.forked_from) }, untrusted(stream.forked_from))],
    ["Earliest offset", stream.earliest_offset ? offsetText(stream.earliest_offset) : null],
    ["End", offsetText(stream.next_offset)],
  ]);
}

/** Return an offset without the zeros that only make all offsets equally long; the whole one is its title. */
function offsetText(offset) {
  if (offset === "-1") return "beginning";
  return element("code", { title: offset }, offset.replace(/(^|_)0+(?=\d)/g, "$1"));
}

// The live list

const COLUMNS = [
  { label: "Offset", class: "col-offset wide", cell: (item) => (item.offset === null ? element("span", { class: "muted" }, "–") : [offsetText(item.offset), item.index ? element("span", { class: "muted" }, ` +${item.index}`) : null]) },
  { label: "Content", class: "col-content mono", cell: (item) => summarise(item) },
  { label: "Size", class: "col-size number", cell: (item) => formatBytes(item.size) },
];

function makeTail(path, contentType, signal) {
  return new Tail({
    label: `Messages of ${plainText(path)}`,
    columns: COLUMNS,
    source: streamSource(path, contentType),
    detail: (item) => describeItem(path, item, signal),
    signal,
  });
}

function describeItem(path, item, signal) {
  const loadBytes = item.text !== undefined && item.offset !== null ? () => readBytes(path, item.offset, HEX_BYTES, signal) : null;
  return [
    facts([
      ["Offset", item.offset === null ? element("span", { title: "The latest messages are read from the end, without their offsets." }, "unknown") : element("code", {}, item.offset)],
      ["Message", item.offset === null ? null : item.index ? `${item.index + 1} after this offset` : "the first after this offset"],
      ["Size", formatBytes(item.size)],
    ]),
    showPayload(item, { loadBytes }),
  ];
}

// Jumps

const PLACES = [
  ["latest", "Latest messages"],
  ["beginning", "Beginning"],
  ["end", "New messages only"],
  ["offset", "Offset"],
  ["time", "Time"],
];

function makeJump(path, stream, query, setQuery, signal, start) {
  const place = select(PLACES, query.get("offset") ? "offset" : query.get("time") ? "time" : "latest");
  const offset = element("input", { type: "text", class: "mono", value: query.get("offset") ?? "", spellcheck: "false", placeholder: "0000000000000000_0000000000000000" });
  const time = element("input", { type: "datetime-local", step: 1, value: query.get("time") ?? "" });
  const offsetField = field("Offset", offset);
  const timeField = field("Time", time);
  offsetField.classList.add("grow");
  const refresh = () => {
    offsetField.hidden = place.value !== "offset";
    timeField.hidden = place.value !== "time";
    submit.hidden = place.value !== "offset" && place.value !== "time";
  };
  const submit = element("button", { type: "submit", class: "button" }, "Go");

  async function go() {
    setQuery({ offset: place.value === "offset" ? offset.value.trim() : "", time: place.value === "time" ? time.value : "" });
    if (place.value === "latest") {
      // Few large messages, or many small ones: about as much as a page of the stream.
      const average = stream.messages ? stream.bytes / stream.messages : 1;
      start({ last: Math.max(1, Math.min(FIRST_MESSAGES, Math.floor(FIRST_BYTES / Math.max(1, average)))) });
    } else if (place.value === "beginning") start({ offset: "-1" });
    else if (place.value === "end") start({ offset: "now" });
    else if (place.value === "offset") start({ offset: offset.value.trim() || "-1" });
    else if (time.value) {
      await attempt(async () => {
        const found = await getJson(`/v1/stream-offset/${streamPath(path).slice(session.config.stream_prefix.length + 1)}`, { time: new Date(time.value).toISOString() }, signal);
        start({ offset: found.offset });
      });
    }
  }

  place.addEventListener("change", () => {
    refresh();
    if (submit.hidden) go();
    else (place.value === "offset" ? offset : time).focus();
  });
  refresh();
  const form = element("form", { class: "filters", onsubmit: (event) => (event.preventDefault(), go()) }, field("Show", place), offsetField, timeField, submit);
  return { element: form, go };
}

// Search

function makeSearch(path, stream, signal, { open, close }) {
  const text = element("input", { type: "search", placeholder: "Text in messages", spellcheck: "false" });
  const start = () => {
    if (!text.value) return;
    const bar = element("progress", { max: 1, value: 0, "aria-label": "Progress of the search" });
    const total = stream().bytes;
    const tail = new Tail({
      label: `Messages that contain ${text.value}`,
      noun: "match",
      columns: COLUMNS,
      empty: "The search looks at every message from the beginning.",
      actions: [button("Cancel", close, { icon: "close", kind: "small" }), bar],
      detail: (item) => describeItem(path, item, signal),
      signal,
      source: async ({ from, signal: stopping, push, say }) => {
        let done = from.done;
        await searchStream(path, stream().content_type, text.value, {
          from: from.offset,
          signal: stopping,
          progress: ({ messages, bytes }) => {
            done = { messages: from.done.messages + messages, bytes: from.done.bytes + bytes };
            if (total) bar.value = Math.min(1, done.bytes / total);
            say(`Searching: ${messages ? `${formatCount(done.messages)} messages, ` : ""}${formatBytes(done.bytes)}`);
          },
          found: (items, offset) => push(items, { offset, done }),
        });
        bar.value = 1;
        say(`Searched ${done.messages ? `${formatCount(done.messages)} messages, ` : ""}${formatBytes(done.bytes)}`, "good");
      },
    });
    tail.element.classList.add("searching");
    open(tail);
    tail.start({ offset: "-1", done: { messages: 0, bytes: 0 } });
  };
  const box = field("Search in this stream", text);
  return element("form", { class: "filters stream-search", role: "search", onsubmit: (event) => (event.preventDefault(), start()) }, box, element("button", { type: "submit", class: "button" }, "Search"));
}

// Download

/** Save the whole stream as a file: what it holds now, up to what a browser can hold. */
async function downloadStream(path, stream, box, signal) {
  const stopping = new AbortController();
  signal.addEventListener("abort", () => stopping.abort(signal.reason), { once: true });
  const bar = element("progress", { max: 1, value: 0, "aria-label": "Progress of the download" });
  const text = element("span", { role: "status" });
  replace(box, element("div", { class: "panel row" }, text, bar, button("Cancel", () => stopping.abort(new DOMException("cancelled", "AbortError")), { kind: "small" })));
  box.hidden = false;
  const json = isJson(stream.content_type);
  const parts = json ? ["["] : [];
  let bytes = 0;
  const done = await attempt(async () => {
    for await (const { body } of readPages(path, "-1", stopping.signal)) {
      // The pages of a JSON stream are arrays: join them to one.
      const content = json ? body.subarray(1, body.length - 1) : body;
      if (json && content.length && parts.length > 1) parts.push(",");
      if (content.length) parts.push(content);
      bytes += body.length;
      if (bytes > DOWNLOAD_BYTES_MAX) throw new Error(`A browser cannot save more than ${formatBytes(DOWNLOAD_BYTES_MAX)}. Use: mainstem stream read`);
      text.textContent = `Downloading: ${formatBytes(bytes)}`;
      if (stream.bytes) bar.value = Math.min(1, bytes / stream.bytes);
    }
  });
  box.hidden = true;
  if (!done) return;
  if (json) parts.push("]");
  const url = URL.createObjectURL(new Blob(parts, { type: "application/octet-stream" }));
  const name = plainText(path).replace(/[^\p{L}\p{N}._-]+/gu, "-").replace(/^[.-]+/, "") || "stream";
  element("a", { href: url, download: `${name}.${json ? "json" : isText(stream.content_type) ? "txt" : "bin"}` }).click();
  setTimeout(() => URL.revokeObjectURL(url), 60_000);
  notify(`Downloaded ${formatBytes(bytes)}.`);
}
