// The sync sessions of this node: who is connected, with which claims, and how much each has sent and received.

import { getJson, send } from "../api.js";
import { attempt, confirm } from "../dialogs.js";
import { add, badge, button, element, facts, field, iconButton, notice, replace, untrusted } from "../dom.js";
import { formatAge, formatBytes, formatCount, formatTime, plainText } from "../formats.js";
import { beginning, pageHead, partitionHref, repeat } from "../page.js";
import { identity } from "../session.js";
import { VirtualTable } from "../table.js";

const REFRESH_MS = 3000;

export async function mount({ main, query, signal, setQuery }) {
  const filter = element("input", { type: "search", value: query.get("filter") ?? "", placeholder: "Client, subject or address", spellcheck: "false", autocapitalize: "off" });
  const status = element("p", { class: "muted list-status", role: "status" });
  const table = new VirtualTable({ label: "Sessions", columns: COLUMNS, onOpen: (session, index) => detail.open(session, index) });
  const detail = new SessionDetail(table, () => refresh());
  const empty = element("div", { hidden: true });
  const pager = element("div", { class: "row" });
  const box = element("div", { class: "tail sessions" }, element("div", { class: "tail-panes" }, element("div", { class: "tail-list" }, table.element, empty), detail.element));
  detail.box = box;
  let sessions = [];
  let truncated = false;
  let after = 0;

  function refill() {
    const wanted = filter.value.trim().toLowerCase();
    const shown = wanted ? sessions.filter((one) => [one.client_id, one.subject, one.address].some((text) => text?.toLowerCase().includes(wanted))) : sessions;
    table.setItems(shown, { complete: !truncated });
    detail.update(shown);
    const text = describeCount(shown.length, sessions.length, truncated || after > 0);
    if (status.textContent !== text) status.textContent = text;
    table.element.hidden = !shown.length;
    if (!shown.length && (empty.hidden || empty.dataset.wanted !== wanted)) {
      empty.dataset.wanted = wanted;
      replace(
        empty,
        wanted
          ? notice("No session matches", "The filter looks at the client, the subject of its token, and its address.")
          : beginning("Nobody is connected", "A client of the sync protocol has a session for as long as its WebSocket is open. This one prints the events of a partition as they are committed:", "mainstem sync tail --url {url} -p room"),
      );
    }
    empty.hidden = shown.length > 0;
  }

  function drawPager() {
    replace(pager, after > 0 && button("First page", () => turn(0), { kind: "small" }), truncated && button("Next page", () => turn(sessions.at(-1).session), { kind: "small" }));
  }

  function turn(to) {
    after = to;
    table.element.scrollTop = 0;
    return refresh();
  }

  async function refresh() {
    const asked = after;
    const reply = await getJson("/v1/sessions", { after: asked || null }, signal);
    if (asked !== after) return null;
    if (after > 0 && !reply.sessions.length) return turn(0); // all of this page have ended
    ({ sessions } = reply);
    if (reply.truncated !== truncated || Boolean(pager.childElementCount) !== (reply.truncated || after > 0)) {
      ({ truncated } = reply);
      drawPager();
    }
    refill();
    return null;
  }

  add(
    main,
    pageHead("Sessions", { about: "Clients of the sync protocol that are connected to this node, the oldest first." }),
    element("form", { class: "filters", role: "search", onsubmit: (event) => event.preventDefault() }, field("Filter", filter)),
    element("div", { class: "row spread" }, status, pager),
    box,
  );
  filter.addEventListener("input", () => {
    setQuery({ filter: filter.value });
    refill();
  });
  await refresh();
  repeat(() => attempt(refresh), REFRESH_MS, signal);
}

function describeCount(shown, all, paged) {
  if (!all) return "";
  const count = `${formatCount(all)} session${all === 1 ? "" : "s"}${paged ? " on this page" : ""}`;
  return shown === all ? count : `${formatCount(shown)} of ${count}`;
}

const COLUMNS = [
  {
    label: "Client",
    class: "col-path",
    cell: (session) => [clientName(session), session.admin && identity.value?.authenticates ? [" ", badge("admin", "warn")] : null],
  },
  { label: "Address", class: "col-address wide", cell: ({ address }) => (address === null ? "–" : untrusted(address)) },
  { label: "Connected for", class: "col-behind number", cell: ({ connected_at: time }) => element("span", { title: formatTime(time) }, formatAge(time)) },
  { label: "Partitions", class: "col-messages number wide", cell: ({ subscriptions, subscription_count: count }) => formatCount(count ?? subscriptions.length) },
  { label: "Submitted", class: "col-messages number wide", cell: ({ submitted }) => formatCount(submitted) },
  { label: "Received", class: "col-messages number wide", cell: ({ received }) => formatCount(received) },
  { label: "To send", class: "col-size number wide", cell: ({ outbox_bytes: bytes }) => formatBytes(bytes) },
];

function clientName({ client_id: client }) {
  return client === null ? element("span", { class: "muted" }, "not signed in yet") : element("span", { title: plainText(client) }, untrusted(client));
}

/** What is known about the selected session, beside the list. */
class SessionDetail {
  constructor(table, onDisconnect) {
    this.table = table;
    this.session = null;
    this.facts = element("div", {});
    this.disconnect = button("Disconnect", () => disconnect(this.session).then((done) => done && onDisconnect()), { kind: "danger", icon: "close" });
    this.element = element(
      "section",
      { class: "detail", "aria-label": "Selected session", hidden: true },
      element("div", { class: "row spread detail-head" }, element("h3", {}, "Selected session"), iconButton("Close", "close", () => this.close())),
      this.facts,
      element("div", { class: "row" }, this.disconnect),
    );
  }

  open(session, index) {
    this.session = session;
    this.table.select(index);
    this.element.hidden = false;
    this.box.classList.add("has-detail");
    this.#draw(false);
  }

  close() {
    this.session = null;
    this.table.select(-1);
    this.element.hidden = true;
    this.box.classList.remove("has-detail");
  }

  /** Show the present values of the session, or that it has ended. */
  update(shown) {
    if (this.session === null) return;
    const index = shown.findIndex(({ session }) => session === this.session.session);
    this.table.select(index);
    if (index >= 0) this.session = shown[index];
    this.#draw(index < 0);
  }

  #draw(ended) {
    this.disconnect.hidden = ended;
    replace(this.facts, ended && element("p", { class: "muted" }, "This session has ended, or the filter hides it."), facts(describeFacts(this.session)));
  }
}

function describeFacts(session) {
  const { subscriptions, subscription_count: count = subscriptions.length } = session;
  const others = count > subscriptions.length ? ` and ${formatCount(count - subscriptions.length)} more` : null;
  return [
    ["Session", session.session],
    ["Client", session.client_id === null ? "not signed in yet" : untrusted(session.client_id)],
    ["Subject of the token", session.subject === null ? null : untrusted(session.subject)],
    ["Address", session.address === null ? null : untrusted(session.address)],
    ["Connected", `${formatTime(session.connected_at)}, ${formatAge(session.connected_at)} ago`],
    ["Token expires", session.expires_at === null ? "never" : formatTime(session.expires_at)],
    ["May use", describeClaims(session)],
    ["Subscribes to", count ? [listNames(subscriptions), others] : "nothing"],
    ["Events submitted", formatCount(session.submitted)],
    ["Broadcasts received", formatCount(session.received)],
    ["Waiting to be sent", formatBytes(session.outbox_bytes)],
  ];
}

function describeClaims({ admin, allowed_partitions: names, allowed_partition_prefixes: prefixes }) {
  if (admin) return identity.value?.authenticates ? "every partition (admin)" : "every partition";
  if (!names.length && !prefixes.length) return "no partition";
  return [listNames(names), names.length && prefixes.length ? ", " : null, prefixes.map((prefix, index) => [index ? ", " : null, untrusted(prefix), "…"])];
}

function listNames(names) {
  return names.map((name, index) => [index ? ", " : null, element("a", { href: partitionHref(name) }, untrusted(name))]);
}

async function disconnect(session) {
  const text = ["This closes the connection of ", session.client_id === null ? "a client that has not signed in yet" : untrusted(session.client_id), ". The client may connect again; to prevent that, revoke its token first."];
  const sure = await confirm("Disconnect this session?", text, { action: "Disconnect", kind: "danger" });
  return sure && attempt(() => send("DELETE", `/v1/sessions/${session.session}`), "The session is disconnected.");
}
