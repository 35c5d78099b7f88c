// example.js -- a chat in thirty lines.  ?gateway=ws://127.0.0.1:8080/v1/ws says where the gateway is.

import { connect } from "../dist/index.js";

const address = new URLSearchParams(location.search).get("gateway") ?? "ws://127.0.0.1:8080/v1/ws";
const client = connect(address, { faults: true });
const conversation = client.conversation("example");
const $ = (id) => document.getElementById(id);

function show() {
  $("state").value = client.state;
  const items = conversation.turns.map(({ input, text, task, outgoing }) => {
    const item = document.createElement("li");
    const state = outgoing?.state ?? task?.status ?? "";
    item.textContent = [input, text, state].filter(Boolean).join("\n");
    return item;
  });
  $("turns").replaceChildren(...items);
}

client.subscribe(show);
conversation.subscribe(show);
conversation.open();
document.querySelector("form").onsubmit = (event) => {
  event.preventDefault();
  if ($("message").value) conversation.ask($("message").value);
  $("message").value = "";
};
