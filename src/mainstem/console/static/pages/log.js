// The log: everything that was committed, in its one order, with filters.

import { follow, getJson } from "../api.js";
import { add, badge, button, element, facts, field, select, untrusted } from "../dom.js";
import { decodeBase64, formatBytes, formatCount, formatTime, isJson, isText } from "../formats.js";
import { pageHead, streamHref } from "../page.js";
import { showPayload, summarise } from "../payload.js";
import { Tail } from "../tail.js";

const FIRST_RECORDS = 200;
const KINDS = [
  ["", "Streams and events"],
  ["stream", "Messages of streams"],
  ["event", "Events of partitions"],
];
const STARTS = [
  ["latest", "The latest records"],
  ["beginning", "The beginning"],
  ["id", "A committed id"],
];

export async function mount({ main, query, signal, setQuery, shortcut }) {
  const text = (name, placeholder, properties = {}) => element("input", { type: "text", value: query.get(name) ?? "", placeholder, spellcheck: "false", autocapitalize: "off", ...properties });
  const controls = {
    kind: select(KINDS, query.get("kind") ?? ""),
    stream: text("stream", "orders/**"),
    partition: text("partition", "room-1"),
    since: element("input", { type: "datetime-local", step: 1, value: query.get("since") ?? "" }),
    before: element("input", { type: "datetime-local", step: 1, value: query.get("before") ?? "" }),
    from: select(STARTS, query.get("id") ? "id" : query.get("from") ?? "latest"),
    id: element("input", { type: "number", min: 0, value: query.get("id") ?? "", placeholder: "1" }),
  };
  const idField = field("Committed id", controls.id);
  const narrow = (node) => (node.classList.add("narrow"), node);
  const head = element("p", { class: "muted" });
  const tail = new Tail({ label: "Records of the log", noun: "row", columns: COLUMNS, source: logSource, detail: describeRow, signal, empty: "Nothing in this range matches the filters yet. What is committed from now on appears here." });

  async function apply() {
    const values = Object.fromEntries(Object.entries(controls).map(([name, control]) => [name, control.value.trim()]));
    if (values.from !== "id") values.id = "";
    setQuery({ ...values, from: values.from === "latest" || values.from === "id" ? "" : values.from });
    const bounds = await getJson("/v1/log/head", {}, signal);
    head.textContent = `Committed ids ${formatCount(bounds.lowest)} to ${formatCount(bounds.head)}${bounds.pruned ? `; history may be gone up to ${formatCount(bounds.pruned)}` : ""}.${bounds.log ? ` Log ${bounds.log}, epoch ${bounds.epoch}.` : ""}`;
    const filters = {
      kind: values.kind,
      stream: values.stream,
      partition: values.partition,
      since: values.since && new Date(values.since).getTime() * 1000,
      before: values.before && new Date(values.before).getTime() * 1000,
    };
    // With a time, the server finds the beginning itself.
    const latest = values.since || values.before ? 0 : Math.max(0, bounds.head - FIRST_RECORDS);
    const after = { latest, beginning: 0, id: Math.max(0, Number(values.id || 1) - 1) }[values.from];
    tail.start({ id: String(after), filters });
  }

  const refresh = () => (idField.hidden = controls.from.value !== "id");
  controls.from.addEventListener("change", refresh);
  refresh();
  add(
    main,
    pageHead("Log", { about: head }),
    element(
      "form",
      { class: "filters", onsubmit: (event) => (event.preventDefault(), apply()) },
      field("Kind", controls.kind),
      field("Stream or glob", controls.stream),
      field("Partition", controls.partition),
      field("Committed from", controls.since),
      field("Committed before", controls.before),
      field("Start at", controls.from),
      narrow(idField),
      element("button", { type: "submit", class: "button primary" }, "Apply"),
      button("Clear", () => (location.hash = location.hash === "#/log" ? "#/log?" : "#/log"), { kind: "quiet" }),
    ),
    tail.element,
  );
  shortcut("p", "Pause or resume the live list", () => (tail.paused ? tail.resume() : tail.pause()));
  await apply();
}

/** A source for a Tail. A position is `{ id, filters }`, where id is the last one that the server sent. */
async function logSource({ from, signal, push, say }) {
  let rows = [];
  let id = from.id;
  const [after, position] = from.id.split(":");
  await follow("/v1/log", {
    signal,
    query: (lastId) => {
      const [next, within = null] = lastId === null ? [after, position ?? "0"] : lastId.split(":");
      return { ...from.filters, after: next, position: within ?? "0", live: "sse" };
    },
    onOpen: () => {
      rows = []; // rows without their control event come again
    },
    onEvent: ({ event, data, id: reached }) => {
      if (event === "data") {
        for (const line of data.split("\n")) rows.push(makeItem(JSON.parse(line), line.length));
      } else if (event === "control") {
        id = reached ?? id;
        push(rows, { id, filters: from.filters });
        rows = [];
        if (JSON.parse(data).upToDate) say("Live", "good");
        else say("Reading");
      }
    },
  });
}

function makeItem(row, size) {
  const item = { row, size };
  if (row.data_base64 !== undefined) item.bytes = decodeBase64(row.data_base64);
  else if (isJson(row.content_type)) item.json = row.data;
  else if (isText(row.content_type)) item.text = row.data;
  else item.bytes = new TextEncoder().encode(row.data);
  return item;
}

const COLUMNS = [
  { label: "Id", class: "col-id", cell: ({ row }) => [formatCount(row.committed_id), row.position ? element("span", { class: "muted" }, ` +${row.position}`) : null] },
  { label: "Committed", class: "col-time wide", cell: ({ row }) => formatTime(row.committed_at) },
  { label: "Kind", class: "col-kind wide", cell: ({ row }) => badge(row.kind, row.kind === "event" ? "warn" : "") },
  { label: "Where", class: "col-where", cell: ({ row }) => untrusted(row.stream ?? (row.partitions ?? []).join(", ")) },
  { label: "Content", class: "col-content mono wide", cell: (item) => summarise(item, 160) },
];

function describeRow(item) {
  const { row } = item;
  return [
    facts([
      ["Committed id", formatCount(row.committed_id)],
      ["Message", row.position ? `number ${row.position + 1} of its append` : null],
      ["Committed", formatTime(row.committed_at)],
      ["Stream", row.stream ? element("a", { href: `${streamHref(row.stream)}?offset=${encodeURIComponent(row.offset)}` }, untrusted(row.stream)) : null],
      ["Offset", row.offset ? element("code", {}, row.offset) : null],
      ["Producer", row.producer_id ? untrusted(row.producer_id) : null],
      ["Partitions", row.partitions?.length ? row.partitions.map((name, index) => [index ? ", " : null, untrusted(name)]) : null],
      ["Event id", row.id ? untrusted(row.id) : null],
      ["Client", row.client_id ? untrusted(row.client_id) : null],
      ["Content type", row.content_type ? untrusted(row.content_type) : null],
      ["Size", formatBytes(item.size)],
    ]),
    showPayload(item),
  ];
}
