// What one can do to a subscription. Each command asks first, and resolves to whether it was carried out.

import { send } from "../api.js";
import { attempt, confirm, notify, openDialog, submitButton } from "../dialogs.js";
import { button, element, field, replace, select } from "../dom.js";
import { plainText } from "../formats.js";

const ALL = "all";

/** Return the API path of a subscription. Its slashes are encoded too: what follows one names an action. */
export function subscriptionPath(id, action = null) {
  const path = `/v1/subscriptions/${encodeURIComponent(id.toWellFormed())}`;
  return action === null ? path : `${path}/${action}`;
}

export async function pauseSubscription(id) {
  const sure = await confirm("Pause this subscription?", "The server sends no further wakes until you resume it, even after a restart. A worker that holds the lease may finish and acknowledge.", { action: "Pause", kind: "primary" });
  return sure && attempt(() => send("POST", subscriptionPath(id, "pause")), "The subscription is paused.");
}

export async function resumeSubscription(id) {
  const sure = await confirm("Resume this subscription?", "The server sends wakes again, for everything that was appended during the pause too.", { action: "Resume" });
  return sure && attempt(() => send("POST", subscriptionPath(id, "resume")), "The subscription is active again.");
}

/** Ask what to deliver again: everything that was not acknowledged, or one stream from an offset too. */
export function redeliver(id, streams) {
  const options = streams.map((stream, index) => [String(index), plainText(stream.path)]);
  const what = select([[ALL, "What was not acknowledged"], ...options], ALL);
  const offset = element("input", { type: "text", class: "mono", value: "-1", spellcheck: "false", autocapitalize: "off" });
  const offsetField = field("From the offset", offset, "An offset that was acknowledged, or -1 for the beginning of what the stream keeps.");
  const problem = element("p", { class: "problem", role: "alert" });
  const refresh = () => (offsetField.hidden = what.value === ALL);
  what.addEventListener("change", refresh);
  refresh();
  return openDialog(
    "Deliver again?",
    [
      element("p", {}, "This ends the current wake, its lease and its retries: a worker that is busy with it can no longer acknowledge. Then the server wakes the worker with everything that was not acknowledged."),
      streams.length ? field("Move one stream back first", what) : null,
      offsetField,
      problem,
    ],
    {
      actions: (finish) => [button("Cancel", () => finish(false)), submitButton("Redeliver", "danger")],
      onSubmit: async (finish) => {
        const json = what.value === ALL ? undefined : { stream: streams[Number(what.value)].path, offset: offset.value.trim() };
        try {
          await send("POST", subscriptionPath(id, "redeliver"), { json });
          finish(true);
          notify("The worker is woken again.");
        } catch (error) {
          replace(problem, error.message);
        }
      },
    },
  );
}
