// The list of partitions, in the order of their names.

import { add, button, element, untrusted } from "../dom.js";
import { formatCount, plainText } from "../formats.js";
import { beginning, pageHead, partitionHref } from "../page.js";
import { showList } from "../paged_list.js";
import { maySubmit } from "../sync_socket.js";
import { askForEvent } from "./partition_commands.js";

export async function mount(context) {
  const submit = () => askForEvent(null).then((name) => name !== null && (location.hash = partitionHref(name)));
  const offer = () => maySubmit() && button("Submit an event", submit, { kind: "primary", icon: "pen" });
  add(
    context.main,
    pageHead("Partitions", { about: "Named sequences of events, which offline-first clients submit and receive.", actions: [button("Refresh", () => list.restart()), offer()] }),
  );
  const list = showList(context, {
    label: "Partitions",
    path: "/v1/partitions",
    name: "partitions",
    noun: "partition",
    columns: COLUMNS,
    href: ({ partition }) => partitionHref(partition),
    example: "room-",
    empty: () =>
      beginning(
        "No partitions yet",
        "A partition exists as soon as it has an event. Clients of the sync protocol submit events, and the server sends each one to all who subscribe to its partitions.",
        `mainstem sync submit --url {url} -p room -m '{"text": "hello"}'`,
        offer(),
      ),
  });
  if (maySubmit()) context.shortcut("n", "Submit an event", submit);
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
