// The list of partitions, in the order of their names: pages are loaded as one scrolls.

import { add, button, element, field, notice, replace, untrusted } from "../dom.js";
import { formatCount, plainText } from "../formats.js";
import { beginning, pageHead, partitionHref, repeat } from "../page.js";
import { PagedList } from "../paged_list.js";
import { maySubmit } from "../sync_socket.js";
import { VirtualTable } from "../table.js";
import { askForEvent } from "./partition_commands.js";

const TYPING_MS = 250;
const REFRESH_MS = 5000;

export async function mount({ main, query, signal, setQuery, shortcut }) {
  const prefix = element("input", { type: "search", value: query.get("prefix") ?? "", placeholder: "room-", spellcheck: "false", autocapitalize: "off" });
  const status = element("p", { class: "muted list-status", role: "status" });
  const table = new VirtualTable({
    label: "Partitions",
    columns: COLUMNS,
    onOpen: (partition) => (location.hash = partitionHref(partition.partition)),
    onNearEnd: () => list?.more(),
  });
  const empty = element("div", { hidden: true });
  let list = null;

  const submit = () => askForEvent(null).then((name) => name !== null && (location.hash = partitionHref(name)));
  const offer = () => maySubmit() && button("Submit an event", submit, { kind: "primary", icon: "pen" });
  add(
    main,
    pageHead("Partitions", { about: "Named sequences of events, which offline-first clients submit and receive.", actions: [button("Refresh", () => restart()), offer()] }),
    element("form", { class: "filters", role: "search", onsubmit: (event) => (event.preventDefault(), restart()) }, field("Begins with", prefix)),
    status,
    element("div", { class: "boxed fill" }, table.element, empty),
  );
  if (maySubmit()) shortcut("n", "Submit an event", submit);

  function refill() {
    table.setItems(list.items, { complete: list.complete });
    if (status.textContent !== list.describe()) status.textContent = list.describe();
    const none = list.complete && !list.items.length;
    table.element.hidden = none;
    if (none && empty.hidden) {
      replace(
        empty,
        list.query.prefix
          ? notice("No partition matches", "Try a shorter name, or clear the filter.")
          : beginning("No partitions yet", "A partition exists as soon as it has an event. Clients of the sync protocol submit events, and the server sends each one to all who subscribe to its partitions.", `mainstem sync submit --url {url} -p room -m '{"text": "hello"}'`, offer()),
      );
    }
    empty.hidden = !none;
  }

  function restart() {
    setQuery({ prefix: prefix.value });
    list?.stop();
    list = new PagedList({ path: "/v1/partitions", name: "partitions", noun: "partition", query: { prefix: prefix.value }, signal, onChange: refill });
    table.element.scrollTop = 0;
    table.focused = 0;
    empty.hidden = true;
    refill();
    return list.more();
  }

  let typing = 0;
  prefix.addEventListener("input", () => {
    clearTimeout(typing);
    typing = setTimeout(restart, TYPING_MS);
  });
  await restart();
  await repeat(() => list.refresh(), REFRESH_MS, signal);
}

const COLUMNS = [
  {
    label: "Name",
    class: "col-path",
    cell: ({ partition }) => element("a", { href: partitionHref(partition), tabindex: -1, title: plainText(partition) }, untrusted(partition)),
  },
  { label: "Newest event", class: "col-committed number", cell: ({ last_committed_id: id }) => formatCount(id) },
  { label: "Pruned up to", class: "col-committed number wide", cell: ({ floor }) => (floor ? formatCount(floor) : "–") },
  { label: "Snapshot up to", class: "col-committed number wide", cell: ({ snapshot_committed_id: id }) => formatCount(id) },
];
