// A chat as the documentation of the AI SDK shows it. Only the transport is that of Durable Streams.
import { useChat } from "@ai-sdk/react";
import { createDurableChatTransport } from "@durable-streams/aisdk-transport";
import { createElement as h, useState } from "react";
import { createRoot } from "react-dom/client";

const api = "/api/chat";
const id = location.hash.slice(1);
const transport = createDurableChatTransport({ api });

function Chat() {
  const { messages, sendMessage, status, error } = useChat({ id, transport, resume: true });
  const [text, setText] = useState("");
  const submit = (event) => {
    event.preventDefault();
    sendMessage({ text });
    setText("");
  };
  const say = (part, number) => (part.type === "text" ? h("span", { key: number }, part.text) : null);
  return h("main", null,
    messages.map((message) => h("p", { key: message.id, className: message.role }, message.parts.map(say))),
    h("output", null, error ? error.message : status),
    h("form", { onSubmit: submit },
      h("input", { "aria-label": "Message", value: text, onChange: (event) => setText(event.target.value) }),
      h("button", null, "Send"),
      h("button", { type: "button", onClick: () => fetch(`${api}/${id}/stop`, { method: "POST" }) }, "Stop")));
}

createRoot(document.body.appendChild(document.createElement("div"))).render(h(Chat));
