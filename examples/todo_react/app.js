// The page in React, without JSX and without a build step. The list itself is the same as in ../todo.

import { keepForOffline } from "../todo/offline.js";
import { describeRejection, describeStatus, list, openList, server } from "../todo/todo.js";
import { useRejections, useStatus, useView } from "./hooks.js";

const { createElement: h, forwardRef, useEffect, useRef, useState } = React;

function App({ todo }) {
  const { client } = todo;
  const [failure, setFailure] = useState(null);
  const items = useView(client, list, setFailure);

  /** Run an action. What the user did is then in the browser, whatever the network does; only that can fail. */
  const run = (action) => action.then(() => setFailure(null), setFailure);

  const isLost = !client.isDurable && "This browser does not keep your changes: send them before you close the page.";
  const notice = failure?.message ?? isLost;
  return [
    h("header", { key: "header" }, h("h1", null, list), h(Status, { client })),
    notice && h("p", { key: "notice", className: "notice", role: "alert" }, notice),
    h(Rejections, { key: "rejections", client }),
    h(NewItem, { key: "add", onAdd: (text) => run(todo.add(text)) }),
    h("ul", { key: "items", className: "items", "aria-label": "Items" },
      items?.map((item) => h(Item, { key: item.id, item, todo, run }))),
    h("p", { key: "summary", className: "summary" }, items && summarise(items)),
  ];
}

function Status({ client }) {
  const { state, text } = describeStatus(...useStatus(client));
  return h("p", { className: "status", role: "status", "data-state": state }, text);
}

function summarise(items) {
  const done = items.filter(({ isDone }) => isDone).length;
  return items.length ? `${done} of ${items.length} done` : "Nothing to do. Add something above.";
}

function NewItem({ onAdd }) {
  const onSubmit = (event) => {
    event.preventDefault();
    const text = event.target.text.value.trim();
    event.target.reset();
    if (text) onAdd(text);
  };
  return h("form", { className: "add", onSubmit },
    h("label", { className: "unseen", htmlFor: "new-text" }, "New item"),
    h("input", { id: "new-text", name: "text", placeholder: "What is to be done?", autoComplete: "off", maxLength: 500, required: true }),
    h("button", { className: "primary" }, "Add"),
  );
}

function Item({ item: { id, text, isDone, isDraft }, todo, run }) {
  const [isEditing, setEditing] = useState(false);
  const edit = useRef(null);
  const stopEditing = (name) => {
    setEditing(false);
    edit.current.focus();
    if (name && name !== text) run(todo.rename(id, name));
  };
  const remove = () => {
    document.getElementById("new-text").focus(); // the button that has the focus goes away
    run(todo.remove(id));
  };
  return h("li", { className: isDone ? "done" : "" },
    isEditing
      ? h(NameForm, { text, onEnd: stopEditing })
      : h("label", { className: "tick" },
          h(Tick, { isDone, onTick: (next) => run(todo.tick(id, next)) }),
          h("span", { className: "name" },
            h("span", { className: "text", dir: "auto" }, text),
            isDraft && h("span", { className: "draft" }, "not sent"))),
    isEditing
      ? h(IconButton, { key: "edit", ref: edit, kind: "edit cancel", label: "Cancel", onClick: () => stopEditing() })
      : h(IconButton, { key: "edit", ref: edit, kind: "edit", label: `Rename ${text}`, onClick: () => setEditing(true) }),
    !isEditing && h(IconButton, { kind: "delete", label: `Delete ${text}`, onClick: remove }),
  );
}

const IconButton = forwardRef(({ kind, label, onClick }, ref) =>
  h("button", { ref, className: `icon ${kind}`, title: label, "aria-label": label, onClick }));

/** A box that changes at the click, and not only when the change is stored. */
function Tick({ isDone, onTick }) {
  const box = useRef(null);
  useEffect(() => {
    box.current.checked = isDone;
  });
  return h("input", { ref: box, type: "checkbox", onChange: (event) => onTick(event.target.checked) });
}

function NameForm({ text, onEnd }) {
  const input = useRef(null);
  useEffect(() => input.current.select(), []);
  const onSubmit = (event) => {
    event.preventDefault();
    onEnd(input.current.value.trim());
  };
  const onKeyDown = (event) => event.key === "Escape" && onEnd();
  return h("form", { className: "rename", onSubmit, onKeyDown },
    h("input", { ref: input, defaultValue: text, "aria-label": "New name", autoComplete: "off", maxLength: 500, required: true }),
    h("button", { className: "primary" }, "Save"),
  );
}

function Rejections({ client }) {
  const [rejections, dismiss] = useRejections(client);
  const own = rejections.filter(({ partitions }) => partitions.includes(list));
  return h("ul", { className: "rejections", "aria-label": "Refused changes" },
    own.map((rejection) =>
      h("li", { key: rejection.id },
        h("span", null, describeRejection(rejection)),
        h("button", { onClick: () => dismiss(rejection.id) }, "Dismiss"))));
}

document.title = list;
const root = ReactDOM.createRoot(document.getElementById("root"));
try {
  root.render(h(App, { todo: await openList() }));
  keepForOffline();
} catch (error) {
  root.render(h("p", { className: "notice", role: "alert" }, `Cannot open the list with ${server}: ${error.message}`));
}
