// Dialogs and short messages.

import { button, element, iconButton } from "./dom.js";

/**
 * Open a modal dialog, and return a promise of its outcome: null if it was dismissed.
 *
 * `content` are the nodes; `actions(finish)` returns its buttons, which call `finish(outcome)`. `onSubmit(finish)`, if
 * given, is called when Enter is pressed in an input or a button of kind "primary" with type submit is used.
 */
export function openDialog(title, content, { actions = null, onSubmit = null, wide = false } = {}) {
  return new Promise((resolve) => {
    let outcome = null;
    const finish = (value) => {
      outcome = value;
      dialog.close();
    };
    const heading = element("h2", { id: `dialog-${++dialogs}` }, title);
    const form = element(
      "form",
      { novalidate: true, onsubmit: (event) => (event.preventDefault(), onSubmit?.(finish)) },
      element("div", { class: "dialog-head" }, heading, iconButton("Close", "close", () => finish(null))),
      element("div", { class: "dialog-body" }, content),
      actions && element("div", { class: "dialog-actions" }, actions(finish)),
    );
    const dialog = element("dialog", { class: wide ? "wide-dialog" : "", "aria-labelledby": heading.id }, form);
    dialog.addEventListener("close", () => {
      dialog.remove();
      resolve(outcome);
    });
    document.body.append(dialog);
    dialog.showModal();
    dialog.querySelector("[autofocus], .dialog-body input, .dialog-body textarea, .dialog-body select")?.focus();
  });
}

let dialogs = 0;

/** A button that submits the form of its dialog. */
export function submitButton(label, kind = "primary") {
  return element("button", { type: "submit", class: `button ${kind}` }, element("span", {}, label));
}

/** Ask for a confirmation. With `typed`, the reader must type this text first. Resolves to true or false. */
export async function confirm(title, text, { action = "Continue", kind = "primary", typed = null } = {}) {
  const yes = submitButton(action, kind);
  let input = null;
  const content = [element("p", {}, text)];
  if (typed !== null) {
    yes.disabled = true;
    input = element("input", { type: "text", autocomplete: "off", spellcheck: "false", id: "confirmation", oninput: () => (yes.disabled = input.value !== typed) });
    content.push(element("div", { class: "field" }, element("label", { for: "confirmation" }, "Type ", element("code", {}, element("bdi", {}, typed)), " to confirm"), input));
  }
  const outcome = await openDialog(title, content, {
    actions: (finish) => [button("Cancel", () => finish(null)), yes],
    onSubmit: (finish) => (typed === null || input.value === typed) && finish(true),
  });
  return outcome === true;
}

/** Show a message for some seconds; one of kind "bad" stays until it is closed. Screen readers read it. */
export function notify(text, kind = "good") {
  const toast = element("div", { class: `toast ${kind}` }, element("p", {}, text), iconButton("Dismiss", "close", () => toast.remove()));
  const box = document.getElementById("toasts");
  while (box.childElementCount > 3) box.firstElementChild.remove();
  box.append(toast);
  if (kind !== "bad") setTimeout(() => toast.remove(), 5000);
}

/** Run a command; show its error, if there is one. Returns whether it succeeded. */
export async function attempt(action, done = null) {
  try {
    await action();
  } catch (error) {
    if (error?.name === "AbortError") return false;
    notify(error.message, "bad");
    return false;
  }
  if (done) notify(done);
  return true;
}

