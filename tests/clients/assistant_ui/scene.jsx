// scene.jsx -- a page of assistant-ui's own parts, on the client's store.

import { AssistantRuntimeProvider, MessagePrimitive, ThreadPrimitive, useExternalStoreRuntime } from "@assistant-ui/react";
import { useHoldfastStore } from "@holdfast/client/assistant-ui";
import { createRoot } from "react-dom/client";
import { until } from "../support/until.mjs";

const Text = ({ text }) => <p>{text}</p>;

const Tool = ({ toolName, result }) => (
  <code>
    {toolName}: {result ?? "…"}
  </code>
);

const Message = () => (
  <article>
    <MessagePrimitive.Parts components={{ Text, tools: { Fallback: Tool } }} />
  </article>
);

/** Shows a conversation; `its.runtime` is assistant-ui's. */
export async function show(client, id) {
  const its = {};
  function Page() {
    const runtime = useExternalStoreRuntime(useHoldfastStore(client, id));
    its.runtime = runtime;
    return (
      <AssistantRuntimeProvider runtime={runtime}>
        <ThreadPrimitive.Root>
          <ThreadPrimitive.Messages components={{ Message }} />
        </ThreadPrimitive.Root>
      </AssistantRuntimeProvider>
    );
  }
  const place = document.body.appendChild(document.createElement("main"));
  const root = createRoot(place);
  root.render(<Page />);
  await until(() => its.runtime, "the page");
  its.text = () => [...place.querySelectorAll("article")].map(({ textContent }) => textContent);
  its.end = () => root.unmount();
  return its;
}
