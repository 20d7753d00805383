// The page: it shows the state of the view, and turns clicks into events.

import { keepForOffline } from "./offline.js";
import { describeRejection, describeStatus, list, openList, server } from "./todo.js";

const find = (id) => document.getElementById(id);

document.title = find("title").textContent = list;

let todo;
try {
  todo = await openList();
} catch (error) {
  showNotice(`Cannot open the list with ${server}: ${error.message}`);
  throw error;
}
const { client } = todo;

/** Run an action. What the user did is then in the browser, whatever the network does; only that can fail. */
async function run(action) {
  try {
    await action;
    showNotice("");
  } catch (error) {
    showNotice(`The change was not stored: ${error.message}`);
  }
}

// The connection

function showStatus() {
  const { state, text } = describeStatus(client.status, client.waiting);
  if (find("status").textContent !== text) find("status").textContent = text; // screen readers read it out
  find("status").dataset.state = state;
}

function showNotice(text) {
  find("notice").textContent = text;
  find("notice").hidden = !text;
}

// Items

const rows = new Map();

/** Show the items. The elements stay, so that the focus and a name that is being edited stay, too. */
function showItems(items) {
  const ids = new Set(items.map(({ id }) => id));
  for (const [id, row] of rows) if (!ids.has(id)) removeRow(id, row);
  items.forEach((item, index) => {
    if (!rows.has(item.id)) rows.set(item.id, makeRow(item.id));
    const row = rows.get(item.id);
    updateRow(row, item);
    if (find("items").children[index] !== row) find("items").insertBefore(row, find("items").children[index] ?? null);
  });
  const done = items.filter(({ isDone }) => isDone).length;
  find("summary").textContent = items.length ? `${done} of ${items.length} done` : "Nothing to do. Add something above.";
}

function removeRow(id, row) {
  if (row.contains(document.activeElement)) find("new-text").focus();
  row.remove();
  rows.delete(id);
}

function makeRow(id) {
  const row = find("item").content.cloneNode(true).firstElementChild;
  const [tick, form] = [".tick input", ".rename"].map((selector) => row.querySelector(selector));
  tick.addEventListener("change", () => run(todo.tick(id, tick.checked)));
  row.querySelector(".delete").addEventListener("click", () => run(todo.remove(id)));
  row.querySelector(".edit").addEventListener("click", () => setEditing(row, form.hidden));
  form.addEventListener("keydown", (event) => {
    if (event.key === "Escape") setEditing(row, false);
  });
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    const text = form.text.value.trim();
    if (text && text !== row.querySelector(".text").textContent) run(todo.rename(id, text));
    setEditing(row, false);
  });
  return row;
}

function setEditing(row, isEditing) {
  const [form, edit] = [".rename", ".edit"].map((selector) => row.querySelector(selector));
  form.text.value = row.querySelector(".text").textContent;
  form.hidden = !isEditing;
  for (const selector of [".tick", ".delete"]) row.querySelector(selector).hidden = isEditing;
  edit.classList.toggle("cancel", isEditing);
  if (isEditing) form.text.select();
  else edit.focus();
  nameButtons(row);
}

function updateRow(row, { text, isDone, isDraft }) {
  row.classList.toggle("done", isDone);
  row.querySelector(".tick input").checked = isDone;
  row.querySelector(".text").textContent = text;
  row.querySelector(".draft").hidden = !isDraft;
  nameButtons(row);
}

/** Say what the icons do, to people who see them and to people who do not. */
function nameButtons(row) {
  const text = row.querySelector(".text").textContent;
  const [edit, remove] = [".edit", ".delete"].map((selector) => row.querySelector(selector));
  edit.title = edit.ariaLabel = edit.classList.contains("cancel") ? "Cancel" : `Rename ${text}`;
  remove.title = remove.ariaLabel = `Delete ${text}`;
}

// Changes that the server refused

async function showRejections() {
  const rejections = (await client.rejections()).filter(({ partitions }) => partitions.includes(list));
  find("rejections").replaceChildren(...rejections.map(makeRejection));
}

function makeRejection(rejection) {
  const [row, text, button] = ["li", "span", "button"].map((name) => document.createElement(name));
  text.textContent = describeRejection(rejection);
  button.textContent = "Dismiss";
  button.addEventListener("click", () => client.dismiss(rejection.id).then(showRejections));
  row.append(text, button);
  return row;
}

find("add").addEventListener("submit", (event) => {
  event.preventDefault();
  const text = event.target.text.value.trim();
  event.target.reset();
  if (text) run(todo.add(text));
});
client.onChange(({ type }) => {
  showStatus();
  if (type === "rejected") showRejections();
});
client.watch(list, showItems, (error) => showNotice(error.message));
showStatus();
showRejections();
if (!client.isDurable) showNotice("This browser does not keep your changes: send them before you close the page.");
keepForOffline();
