// One partition: what is known about it, its events live, its snapshot, and a dialog to submit an event.

import { getJson, request } from "../api.js";
import { attempt, notify } from "../dialogs.js";
import { add, button, element, facts, field, replace, select, untrusted } from "../dom.js";
import { formatBytes, formatCount, formatTime, plainText } from "../formats.js";
import { splitArray, splitObject } from "../json.js";
import { pageHead, panel, partitionHref, repeat } from "../page.js";
import { showPayload, summarise } from "../payload.js";
import * as session from "../session.js";
import { readSource } from "../stream_reader.js";
import { maySubmit } from "../sync_socket.js";
import { Tail } from "../tail.js";
import { askForEvent } from "./partition_commands.js";

const REFRESH_MS = 5000;
const FIRST_EVENTS = 100;
const FIRST_WINDOW = 256;
const WIDER = 16;

export async function mount({ main, params, query, signal, setTitle, setQuery, shortcut }) {
  const name = params[0].normalize("NFC"); // as the server does
  setTitle(plainText(name));
  let partition = await describePartition(name, signal);
  const about = element("div", { class: "about" });
  const snapshot = element("div", {});
  const tail = new Tail({
    label: `Events of ${plainText(name)}`,
    noun: "event",
    columns: COLUMNS,
    source: eventSource(name),
    detail: (item) => describeEvent(item, name),
    empty: maySubmit() && session.mayUsePartition(name) ? "Submit one here, or with: mainstem sync submit" : "Events appear here as clients submit them.",
    signal,
  });
  tail.element.classList.add("events");
  const jump = makeJump(name, () => partition, query, setQuery, signal, (from) => tail.start(from));
  const submit = () => askForEvent(name).then((done) => done !== null && refresh());
  const actions = element("div", { class: "row" });

  function draw() {
    replace(about, facts(describeFacts(partition)));
    // Only a change of what is offered replaces buttons: a new one would lose the focus.
    const offers = { submit: maySubmit() && session.mayUsePartition(name), snapshot: session.isAdmin() && partition.snapshot_committed_id !== null };
    const key = JSON.stringify(offers);
    if (actions.dataset.offers === key) return;
    actions.dataset.offers = key;
    replace(
      actions,
      offers.submit && button("Submit an event", submit, { kind: "primary", icon: "pen" }),
      offers.snapshot && button("Show the snapshot", () => attempt(() => showSnapshot(name, snapshot, signal)), { icon: "log" }),
    );
  }

  async function refresh() {
    partition = await describePartition(name, signal);
    draw();
  }

  add(
    main,
    pageHead(untrusted(name), { above: element("p", { class: "crumbs" }, element("a", { href: "#/partitions" }, "Partitions")), actions }),
    panel("About", about),
    snapshot,
    jump.element,
    tail.element,
  );
  draw();
  await jump.go();
  shortcut("p", "Pause or resume the live list", () => (tail.paused ? tail.resume() : tail.pause()));
  if (maySubmit() && session.mayUsePartition(name)) shortcut("a", "Submit an event", submit);
  session.identity.watch(() => draw(), signal);
  await repeat(() => refresh().catch((error) => signal.aborted || notify(error.message, "bad")), REFRESH_MS, signal);
}

/** Return the API path of a partition. Its slashes are encoded too, so that no part of a name is taken for a `..`. */
function partitionPath(name, endpoint = "partition") {
  return `/v1/${endpoint}/${encodeURIComponent(name.toWellFormed())}`;
}

/** Return what the list says about one partition. One that is not in the list has no events yet. */
async function describePartition(name, signal) {
  const { partitions } = await getJson("/v1/partitions", { prefix: name, limit: 1 }, signal);
  return partitions[0]?.partition === name ? partitions[0] : { partition: name, last_committed_id: 0, floor: 0, snapshot_committed_id: null };
}

function describeFacts({ last_committed_id: newest, floor, snapshot_committed_id: snapshot }) {
  return [
    ["Newest event", newest ? formatCount(newest) : "none yet"],
    ["Pruned up to", floor ? formatCount(floor) : "nothing"],
    ["Snapshot up to", snapshot === null ? "no snapshot" : formatCount(snapshot)],
  ];
}

// The live list

/** A source for a Tail. `json` of an item is the event as it was submitted. */
function eventSource(name) {
  const source = readSource(partitionPath(name), "application/json");
  return ({ push, ...rest }) => source({ ...rest, push: (items, next) => push(items.map(makeItem), next) });
}

function makeItem({ json: record, size }) {
  const members = splitObject(record);
  const read = (name) => JSON.parse(members.get(name));
  return {
    json: members.get("event"),
    size,
    id: read("id"),
    client: read("client_id"),
    partitions: read("partitions"),
    committed: read("committed_id"),
    time: read("status_updated_at"),
  };
}

const COLUMNS = [
  { label: "Id", class: "col-id", cell: ({ committed }) => formatCount(committed) },
  { label: "Committed", class: "col-time wide", cell: ({ time }) => formatTime(time) },
  { label: "Client", class: "col-client wide", cell: ({ client }) => element("span", { title: plainText(client) }, untrusted(client)) },
  { label: "Event", class: "col-content mono", cell: (item) => summarise(item) },
];

function describeEvent(item, name) {
  const others = item.partitions.filter((one) => one !== name);
  return [
    facts([
      ["Committed id", formatCount(item.committed)],
      ["Committed", formatTime(item.time)],
      ["Client", untrusted(item.client)],
      ["Event id", untrusted(item.id)],
      ["Also in", others.length ? others.map((one, index) => [index ? ", " : null, session.mayUsePartition(one) ? element("a", { href: partitionHref(one) }, untrusted(one)) : untrusted(one)]) : null],
      ["Size", formatBytes(item.size)],
    ]),
    showPayload(item),
  ];
}

// Jumps

const PLACES = [
  ["latest", "Latest events"],
  ["beginning", "Beginning"],
  ["end", "New events only"],
  ["id", "After a committed id"],
];

function makeJump(name, partition, query, setQuery, signal, start) {
  const place = select(PLACES, query.get("after") ? "id" : "latest");
  const id = element("input", { type: "number", min: 0, value: query.get("after") ?? "", placeholder: "0" });
  const idField = field("Committed id", id);
  idField.classList.add("narrow");
  const submit = element("button", { type: "submit", class: "button" }, "Go");
  const refresh = () => (idField.hidden = submit.hidden = place.value !== "id");

  async function go() {
    setQuery({ after: place.value === "id" ? id.value : "" });
    if (place.value === "latest") start({ offset: await findLatest(name, partition(), signal) });
    else if (place.value === "beginning") start({ offset: "-1" });
    else if (place.value === "end") start({ offset: "now" });
    else start({ offset: formatOffset(Number(id.value || 0)) });
  }

  place.addEventListener("change", () => {
    refresh();
    if (submit.hidden) attempt(go);
    else id.focus();
  });
  refresh();
  const form = element("form", { class: "filters", onsubmit: (event) => (event.preventDefault(), attempt(go)) }, field("Show", place), idField, submit);
  return { element: form, go };
}

/**
 * Return the offset from which about the last hundred events follow. The events of a partition may be any distance apart
 * in the log, so this looks at ever wider ranges of it.
 */
async function findLatest(name, { last_committed_id: newest, floor }, signal) {
  for (let range = FIRST_WINDOW; newest - range > floor; range *= WIDER) {
    const offset = formatOffset(newest - range);
    const page = await (await request("GET", partitionPath(name), { query: { offset }, signal })).text();
    if (splitArray(page).length >= FIRST_EVENTS) return offset;
  }
  return "-1";
}

/** Return a committed id as an offset. */
function formatOffset(id) {
  return `${"0".repeat(16)}_${String(Math.max(0, Math.floor(id))).padStart(16, "0")}`;
}

// Snapshot

async function showSnapshot(name, box, signal) {
  const text = await (await request("GET", partitionPath(name, "snapshot"), { signal })).text();
  const members = splitObject(text);
  const state = members.get("state");
  const close = button("Hide", () => replace(box), { kind: "small" });
  const numbers = facts([
    ["Up to the committed id", formatCount(JSON.parse(members.get("committed_id")))],
    ["Stored", formatTime(JSON.parse(members.get("created_at")))],
    ["Size", formatBytes(state.length)],
  ]);
  const about = element("p", { class: "muted" }, "The state that stands for the history up to its committed id. New clients receive it in place of pruned events.");
  replace(box, panel("Snapshot", element("div", { class: "stack" }, about, numbers, showPayload({ json: state }), element("div", { class: "row" }, close))));
  close.focus();
}
