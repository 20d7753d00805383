// The list of streams, of any length: pages are loaded as one scrolls.

import { add, badge, button, checkbox, element, field, notice, replace, untrusted } from "../dom.js";
import { formatAge, formatBytes, formatCount, formatSpan, formatTime, plainText } from "../formats.js";
import { pageHead, streamHref } from "../page.js";
import { PagedList } from "../paged_list.js";
import * as session from "../session.js";
import { VirtualTable } from "../table.js";
import { createStream } from "./stream_commands.js";

const TYPING_MS = 250;

export async function mount({ main, query, signal, setQuery, shortcut }) {
  const prefix = element("input", { type: "text", value: query.get("prefix") ?? "", placeholder: "orders/", spellcheck: "false", autocapitalize: "off" });
  const search = element("input", { type: "search", value: query.get("search") ?? "", placeholder: "Part of a name", spellcheck: "false", autocapitalize: "off" });
  const tree = checkbox("Forks as a tree", query.get("tree") === "1", () => refill());
  const status = element("p", { class: "muted list-status", role: "status" });
  const box = element("div", { class: "boxed fill" });
  const table = new VirtualTable({
    label: "Streams",
    columns: COLUMNS,
    onOpen: (row) => (location.hash = streamHref(row.stream.path)),
    onNearEnd: () => list.more(),
  });
  const wanted = () => ({ path: "/v1/streams", name: "streams", noun: "stream", query: { prefix: prefix.value, search: search.value }, signal, onChange: () => refill() });
  let list = new PagedList(wanted());
  const empty = element("div", { hidden: true });
  add(box, table.element, empty);

  const create = () => createStream(prefix.value).then((path) => path !== null && (location.hash = streamHref(path)));
  add(
    main,
    pageHead("Streams", {
      about: "Append-only sequences of messages, sorted by their names.",
      actions: [
        button("Refresh", () => restart()),
        session.mayWriteSomething() && button("Create a stream", create, { kind: "primary", icon: "plus" }),
      ],
    }),
    element("form", { class: "filters", role: "search", onsubmit: (event) => (event.preventDefault(), restart()) }, grow(field("Search", search)), field("Begins with", prefix), tree),
    status,
    box,
  );
  if (session.mayWriteSomething()) shortcut("n", "Create a stream", create);

  function refill() {
    const rows = tree.input.checked ? arrangeForks(list.items) : list.items.map((stream) => ({ stream, depth: 0 }));
    table.setItems(rows, { complete: list.complete });
    replace(status, list.describe());
    const none = list.complete && !rows.length;
    empty.hidden = !none;
    table.element.hidden = none;
    if (none) {
      const filtered = search.value || prefix.value;
      replace(empty, filtered ? notice("No stream matches", "Try a shorter text, or clear the filters.") : notice("No streams yet", "A stream appears here as soon as a client has created one.", session.mayWriteSomething() && button("Create a stream", create, { kind: "primary" })));
    }
  }

  function restart() {
    setQuery({ search: search.value, prefix: prefix.value, tree: tree.input.checked ? "1" : "" });
    list.stop();
    list = new PagedList(wanted());
    table.element.scrollTop = 0;
    table.focused = 0;
    refill();
    list.more();
  }

  let typing = 0;
  for (const input of [prefix, search]) {
    input.addEventListener("input", () => {
      clearTimeout(typing);
      typing = setTimeout(restart, TYPING_MS);
    });
  }
  restart();
}

function grow(node) {
  node.classList.add("grow");
  return node;
}

/** Return the streams with forks below their source, as far as both are loaded. */
export function arrangeForks(streams) {
  const known = new Set(streams.map((stream) => stream.path));
  const children = new Map();
  const roots = [];
  for (const stream of streams) {
    if (stream.forked_from === null || !known.has(stream.forked_from)) roots.push(stream);
    else if (children.has(stream.forked_from)) children.get(stream.forked_from).push(stream);
    else children.set(stream.forked_from, [stream]);
  }
  const rows = [];
  const left = roots.reverse().map((stream) => ({ stream, depth: 0 }));
  while (left.length) {
    const row = left.pop();
    rows.push(row);
    for (const child of (children.get(row.stream.path) ?? []).reverse()) left.push({ stream: child, depth: row.depth + 1 });
  }
  return rows;
}

const COLUMNS = [
  {
    label: "Name",
    class: "col-path",
    cell: ({ stream, depth }) => {
      const indent = depth ? element("span", { class: "indent", title: `Fork at depth ${depth}` }, "└ ") : null;
      if (indent) indent.style.paddingLeft = `${Math.min(depth - 1, 8) * 1.25}rem`;
      const fork = stream.forked_from !== null && !depth ? badge("fork") : null;
      if (fork) fork.title = `A fork of ${plainText(stream.forked_from)}`;
      return [indent, element("a", { href: streamHref(stream.path), tabindex: -1, title: plainText(stream.path) }, untrusted(stream.path)), " ", fork];
    },
  },
  { label: "Content type", class: "col-type wide", cell: ({ stream }) => element("span", { title: plainText(stream.content_type) }, untrusted(stream.content_type)) },
  { label: "Messages", class: "col-messages number wide", cell: ({ stream }) => formatCount(stream.messages) },
  { label: "Size", class: "col-size number", cell: ({ stream }) => formatBytes(stream.bytes) },
  { label: "Age", class: "col-age number wide", cell: ({ stream }) => element("span", { title: `Created ${formatTime(stream.created_at)}` }, formatAge(stream.created_at)) },
  { label: "Expires", class: "col-life wide", cell: ({ stream }) => describeLife(stream) },
  { label: "State", class: "col-state", cell: ({ stream }) => (stream.closed ? badge("closed") : badge("open", "good")) },
];

/** Return when a stream expires, as a short text. */
export function describeLife(stream) {
  if (stream.ttl_seconds !== null) return `${formatSpan(stream.ttl_seconds)} unused`;
  return stream.expires_at === null ? "never" : formatTime(stream.expires_at);
}
