// Signing in: the dialog for a token, and the notices before and after a token expires.

import { openDialog, submitButton } from "./dialogs.js";
import { button, element, field, iconButton, replace } from "./dom.js";
import { formatTime } from "./formats.js";
import * as session from "./session.js";

const WARN_MS = 60_000;

let open = false;

/** Ask for a token. The dialog may be dismissed; requests that need the token go on waiting for it. */
export async function askForToken(reason) {
  if (open) return;
  open = true;
  const input = element("textarea", { rows: 4, autocomplete: "off", spellcheck: "false", autocapitalize: "off", class: "mono", autofocus: true, placeholder: "eyJ…" });
  const problem = element("p", { class: "problem", role: "alert" });
  const text = reason ? `${reason.charAt(0).toUpperCase()}${reason.slice(1)}.` : "This server asks for a token.";
  try {
    await openDialog(
      "Sign in",
      [
        element("p", {}, text),
        field("Token", input, "Kept in the memory of this tab only, and gone when you close or reload it. For development, `mainstem token` makes one."),
        problem,
      ],
      {
        actions: (finish) => [button("Not now", () => finish(null)), submitButton("Sign in")],
        onSubmit: async (finish) => {
          const token = input.value.trim().replace(/^Bearer\s+/i, "");
          if (!token) return replace(problem, "Paste a token first.");
          try {
            const refused = await session.signIn(token);
            if (refused === null) finish(true);
            else replace(problem, `${refused.charAt(0).toUpperCase()}${refused.slice(1)}.`);
          } catch {
            replace(problem, "The server cannot be reached. Try again in a moment.");
          }
        },
      },
    );
  } finally {
    open = false;
  }
}

/** Show who is signed in, and a bar while a token is missing or about to expire. `actions` is the box in the header. */
export function watchSession(actions) {
  const who = element("span", { class: "who" });
  const bar = element("div", { class: "banner", role: "status", hidden: true });
  document.querySelector(".bar").after(bar);
  actions.prepend(who);
  let timer = 0;

  const show = () => {
    clearTimeout(timer);
    const mine = session.identity.value;
    const reason = session.demand.value;
    const name = mine?.subject ?? mine?.client_id ?? (mine?.admin ? "administrator" : "token");
    replace(
      who,
      !mine || !mine.authenticates
        ? null
        : [element("span", { class: "who-name", title: "Signed in" }, element("bdi", {}, name)), iconButton("Use another token", "key", () => askForToken("Enter the token to use from now on"))],
    );
    const expires = mine?.expires_at ? new Date(mine.expires_at).getTime() : Infinity;
    const left = expires - Date.now();
    bar.hidden = true;
    if (reason !== null) showBar(`${reason.charAt(0).toUpperCase()}${reason.slice(1)}.${mine ? " What you see is kept; sign in to continue." : ""}`);
    else if (left <= WARN_MS) showBar(left > 0 ? `Your token expires at ${formatTime(mine.expires_at)}.` : "Your token has expired. What you see is kept; sign in to continue.");
    if (Number.isFinite(expires) && left > 0) timer = setTimeout(show, Math.min(2 ** 31 - 1, left > WARN_MS ? left - WARN_MS : left + 200));
  };
  const showBar = (text) => {
    replace(bar, element("p", {}, text), button("Sign in", () => askForToken(session.demand.value), { kind: "primary small" }));
    bar.hidden = false;
  };
  session.identity.watch(show);
  session.demand.watch((reason) => {
    show();
    if (reason !== null) askForToken(reason);
  });
  show();
}
