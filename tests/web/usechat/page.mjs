// The page of the test's application: useChat, and its messages in plain sight.
import { useChat } from "@ai-sdk/react";
import { DefaultChatTransport } from "ai";
import { createElement as h, useState } from "react";
import { createRoot } from "react-dom/client";

const id = new URLSearchParams(location.search).get("id");
const api = `/api/chat/${id}`;
const transport = new DefaultChatTransport({ api: "/api/chat" });

function Chat({ initial }) {
  const chat = useChat({ id, messages: initial, resume: true, transport });
  const [text, setText] = useState("");
  const stop = async () => {
    const message_id = chat.messages.at(-1).id;
    await fetch(`${api}/stop`, { method: "POST", body: JSON.stringify({ message_id }) });
    await chat.stop();
  };
  return h(
    "main",
    null,
    h("pre", { id: "messages" }, JSON.stringify(chat.messages)),
    h("p", { id: "status" }, chat.status),
    h("input", { id: "text", value: text, onChange: (event) => setText(event.target.value) }),
    h("button", { id: "send", onClick: () => chat.sendMessage({ text }) }, "Send"),
    h("button", { id: "again", onClick: () => chat.regenerate() }, "Again"),
    h("button", { id: "stop", onClick: stop }, "Stop"),
  );
}

const begin = async () => {
  const initial = await fetch(`${api}/messages`).then((answer) => answer.json());
  createRoot(document.getElementById("root")).render(h(Chat, { initial }));
};
begin();
