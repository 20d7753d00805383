// What one can do to a stream: create, append, close, delete. Each opens a dialog, and resolves once it is done.

import { encodePath, send, streamPath } from "../api.js";
import { attempt, confirm, openDialog, submitButton } from "../dialogs.js";
import { button, checkbox, element, field, replace, select } from "../dom.js";
import { isJson, isText, plainText } from "../formats.js";
import * as session from "../session.js";

const TYPES = [
  ["application/json", "JSON messages (application/json)"],
  ["text/plain", "Text (text/plain)"],
  ["application/octet-stream", "Bytes (application/octet-stream)"],
  ["", "Another content type"],
];

/** Ask for the properties of a new stream, and create it. Resolves to its path, or to null. */
export function createStream(start = "", source = null) {
  const path = element("input", { type: "text", value: start, required: true, placeholder: "orders/2026", spellcheck: "false", autocapitalize: "off", autocomplete: "off" });
  const type = select(TYPES, "application/json");
  const other = element("input", { type: "text", placeholder: "application/x-ndjson" });
  const otherField = field("Content type", other);
  const ttl = element("input", { type: "number", min: 1, placeholder: "never" });
  const retention = element("input", { type: "text", placeholder: "max-age=86400, max-messages=1000" });
  const forked = element("input", { type: "text", value: source?.path ?? "", spellcheck: "false", autocapitalize: "off" });
  const offset = element("input", { type: "text", class: "mono", value: source?.offset ?? "", placeholder: "its end" });
  const problem = element("p", { class: "problem", role: "alert" });
  const typeField = field("Content", type);
  const refresh = () => {
    otherField.hidden = type.value !== "";
    typeField.hidden = forked.value !== "";
    if (typeField.hidden) otherField.hidden = true;
  };
  type.addEventListener("change", refresh);
  forked.addEventListener("input", refresh);
  refresh();
  return openDialog(
    source ? "Fork a stream" : "Create a stream",
    [
      field("Name", path),
      typeField,
      otherField,
      element("div", { class: "two" }, field("Expires after this many seconds without use", ttl), field("History to keep", retention)),
      element("details", { open: source !== null }, element("summary", {}, "Fork of another stream"), element("div", { class: "two" }, field("Source", forked), field("Up to the offset", offset))),
      problem,
    ],
    {
      actions: (finish) => [button("Cancel", () => finish(null)), submitButton(source ? "Fork" : "Create")],
      onSubmit: async (finish) => {
        if (!path.value) return replace(problem, "Give the stream a name.");
        if (!session.mayWrite(path.value)) return replace(problem, "Your token does not allow writing a stream of this name.");
        const headers = {};
        if (forked.value) {
          headers["Stream-Forked-From"] = `${session.config.stream_prefix}/${encodePath(forked.value)}`;
          if (offset.value.trim()) headers["Stream-Fork-Offset"] = offset.value.trim();
        } else headers["Content-Type"] = type.value || other.value.trim();
        if (ttl.value) headers["Stream-TTL"] = ttl.value;
        if (retention.value.trim()) headers["Stream-Retention"] = retention.value.trim();
        try {
          await send("PUT", streamPath(path.value), { headers });
          finish(path.value);
        } catch (error) {
          replace(problem, error.message);
        }
      },
    },
  );
}

/** Ask for a message, and append it. Resolves to true if it was appended. */
export function appendMessage(path, contentType) {
  const json = isJson(contentType);
  const binary = !json && !isText(contentType);
  const text = element("textarea", { rows: 8, class: "mono", spellcheck: "false", placeholder: json ? '{"text": "hello"}' : "" });
  const file = element("input", { type: "file" });
  const last = checkbox("Close the stream after this message", false);
  const problem = element("p", { class: "problem", role: "alert" });
  return openDialog(
    "Append a message",
    [
      binary ? field("File", file, `The stream holds ${plainText(contentType)}.`) : field(json ? "JSON" : "Text", text, json ? "An array appends its elements as separate messages." : null),
      binary ? field("Or text", text) : field("Or a file", file),
      last,
      problem,
    ],
    {
      actions: (finish) => [button("Cancel", () => finish(null)), submitButton("Append")],
      onSubmit: async (finish) => {
        const body = file.files[0] ?? text.value;
        if (json && typeof body === "string") {
          try {
            JSON.parse(body);
          } catch {
            return replace(problem, "This is not valid JSON.");
          }
        }
        if (!(body.size ?? body.length)) return replace(problem, "Enter a message, or choose a file.");
        const headers = { "Content-Type": contentType };
        if (last.input.checked) headers["Stream-Closed"] = "true";
        try {
          await send("POST", streamPath(path), { headers, body });
          finish(true);
        } catch (error) {
          replace(problem, error.message);
        }
      },
    },
  );
}

export async function closeStream(path) {
  const sure = await confirm("Close this stream?", "No further message can be appended. This cannot be undone; the messages stay.", { action: "Close the stream", kind: "danger" });
  return sure && attempt(() => send("POST", streamPath(path), { headers: { "Stream-Closed": "true" } }), "The stream is closed.");
}

/** Delete a stream, once its name was typed. A name with characters that cannot be seen is typed with its escapes. */
export async function deleteStream(path) {
  const sure = await confirm("Delete this stream?", "All of its messages are erased, and its readers are disconnected. This cannot be undone.", { action: "Delete the stream", kind: "danger", typed: plainText(path) });
  return sure && attempt(() => send("DELETE", streamPath(path)), "The stream was deleted.");
}
