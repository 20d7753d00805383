// The list itself, without a page: its events, what they mean, and the client that syncs them.

const query = new URLSearchParams(location.search);

// The page runs the client that this server sends: only open links to servers that you trust.
export const server = query.get("server") ?? "http://127.0.0.1:4437";
export const list = query.get("list") ?? "Groceries";

/**
 * Return the items after an event: [{id, text, isDone, isDraft}].
 *
 * All clients apply the same events in the same order, so they show the same list. If two people rename an item, the
 * later event wins. An event about an item that somebody else has deleted has no effect.
 */
export function reduce(items, { id, event, isDraft }) {
  if (event.type === "added" && isText(event.text)) return [...items, { id, text: event.text, isDone: false, isDraft }];
  const item = items.find((known) => known.id === event.item);
  if (!item) return items;
  if (event.type === "deleted") return items.filter((known) => known !== item);
  if (event.type === "renamed" && isText(event.text)) item.text = event.text;
  if (event.type === "ticked") item.isDone = event.isDone === true;
  item.isDraft ||= isDraft;
  return items;
}

// Anybody may have written an event, so the reducer expects anything.
const isText = (value) => typeof value === "string" && value.trim() !== "";

/** Open the client and the actions of the list. This works offline once the page has been open before. */
export async function openList() {
  const { OfflineClient } = await import(new URL("/client/mainstem.js", server).href);
  const client = new OfflineClient(server, { clientId: loadClientId(), partitions: [list] });
  client.registerView(list, reduce, [], { partitions: [list] });
  await client.open();
  const submit = (event) => client.submit([list], event);
  return {
    client,
    add: (text) => submit({ type: "added", text }), // the id of this event is the id of the item
    rename: (item, text) => submit({ type: "renamed", item, text }),
    tick: (item, isDone) => submit({ type: "ticked", item, isDone }),
    remove: (item) => submit({ type: "deleted", item }),
  };
}

/** Return the id of this browser profile, which all its tabs share. */
function loadClientId() {
  const random = crypto.getRandomValues(new Uint32Array(4));
  const made = `todo-${Array.from(random, (part) => part.toString(36)).join("")}`;
  try {
    return (localStorage["todo-client"] ??= made);
  } catch {
    return made; // the browser keeps nothing for this page
  }
}

/** Return how the connection is, in words: {state, text}. */
export function describeStatus({ state, error }, waiting) {
  const changes = waiting === 1 ? "1 change" : `${waiting} changes`;
  if (error && !error.retryable) return { state: "refused", text: error.message };
  if (state === "live") return { state, text: waiting ? `Sending ${changes}` : "Live" };
  if (state === "syncing") return { state, text: waiting ? `Syncing, ${changes} to send` : "Syncing" };
  return { state: "offline", text: waiting ? `Offline, ${changes} not sent yet` : "Offline" };
}

/** Return what the server refused, and why, in words. */
export function describeRejection({ event, reason, errors }) {
  const what = { added: "Adding", renamed: "Renaming to", ticked: "Ticking", deleted: "Deleting" }[event.type];
  const why = errors.map(({ message }) => message).join("; ") || reason;
  return `${what ?? "A change"} ${event.text ? `“${event.text}” ` : ""}was refused: ${why}`;
}
