// Submitting an event, in a dialog.

import { notify, openDialog, submitButton } from "../dialogs.js";
import { button, element, field, replace, untrusted } from "../dom.js";
import { formatCount } from "../formats.js";
import * as session from "../session.js";
import { makeEventId, submitEvent } from "../sync_socket.js";

/** Ask for an event, and submit it to a partition; without a name, ask for that too. Resolves to its name, or to null. */
export function askForEvent(partition) {
  const name = element("input", { type: "text", placeholder: "room", spellcheck: "false", autocapitalize: "off", autocomplete: "off" });
  const text = element("textarea", { rows: 8, class: "mono", spellcheck: "false", placeholder: '{"text": "hello"}', autofocus: partition !== null });
  const others = element("textarea", { rows: 2, spellcheck: "false", autocapitalize: "off" });
  const problem = element("p", { class: "problem", role: "alert" });
  let id = makeEventId();
  let tried = null;

  async function submit(finish) {
    const chosen = partition ?? name.value.normalize("NFC"); // as the server does
    if (!chosen) return replace(problem, "Name the partition.");
    if (!isObject(text.value)) return replace(problem, "An event is a JSON object, such as {\"text\": \"hello\"}.");
    const partitions = [chosen, ...others.value.split("\n").filter(Boolean)];
    const refused = partitions.find((one) => !session.mayUsePartition(one));
    if (refused !== undefined) return replace(problem, "Your token does not allow the partition ", untrusted(refused), ".");
    // The same event keeps its id, so that it is committed once however often it is sent. Another one needs another id.
    const content = JSON.stringify([partitions, text.value]);
    if (tried !== null && tried !== content) id = makeEventId();
    tried = content;
    replace(problem);
    send.disabled = true;
    try {
      const committed = await submitEvent(id, partitions, text.value);
      notify(`Committed with the id ${formatCount(committed)}.`);
      finish(chosen);
    } catch (error) {
      replace(problem, untrusted(error.message));
    } finally {
      send.disabled = false;
    }
    return null;
  }

  const send = submitButton("Submit");
  return openDialog(
    "Submit an event",
    [
      partition === null ? field("Partition", name) : element("p", {}, "To the partition ", untrusted(partition)),
      field("Event", text, "A JSON object. The server sends it to everybody who subscribes to the partition."),
      element("details", {}, element("summary", {}, "Other partitions"), field("Names, one per line", others, "The event is one record of the log, in all of its partitions.")),
      problem,
    ],
    { actions: (finish) => [button("Cancel", () => finish(null)), send], onSubmit: submit },
  );
}

function isObject(text) {
  try {
    const value = JSON.parse(text);
    return typeof value === "object" && value !== null && !Array.isArray(value);
  } catch {
    return false;
  }
}
