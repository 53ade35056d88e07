// A chat as people write it with React's useStream. The test says by the address which agent, and reads what the page shows.
import { useStream } from "@langchain/langgraph-sdk/react";
import { useState } from "react";
import { createRoot } from "react-dom/client";

const query = new URLSearchParams(location.search);

function Chat() {
  const [threadId, setThreadId] = useState(sessionStorage.getItem("thread"));
  const [failed, setFailed] = useState("");
  const stream = useStream({
    apiUrl: query.get("server"),
    apiKey: query.get("key"),
    assistantId: query.get("agent"),
    messagesKey: "messages",
    fetchStateHistory: true,
    reconnectOnMount: true,
    threadId,
    onThreadId: (id) => {
      sessionStorage.setItem("thread", id);
      setThreadId(id);
    },
    onError: (error) => setFailed(String(error)),
  });
  const send = (event) => {
    event.preventDefault();
    const text = event.target.elements.text.value;
    event.target.reset();
    if (stream.interrupt) stream.submit(undefined, { command: { resume: text }, streamResumable: true, onDisconnect: "continue" });
    else {
      const said = [{ type: "human", content: text }];
      const shown = (before) => ({ ...before, messages: [...(before?.messages ?? []), ...said] });
      stream.submit({ messages: said }, { optimisticValues: shown, streamResumable: true, onDisconnect: "continue", streamSubgraphs: true });
    }
  };
  return (
    <main>
      <ol>{stream.messages.map((one, number) => <li key={one.id ?? number} className={one.type}>{one.content}</li>)}</ol>
      <p id="question">{stream.interrupt?.value.question}</p>
      <p id="state">{stream.isLoading ? "busy" : "idle"}</p>
      <p id="failed">{failed}</p>
      <p id="nodes">{stream.history.map((one) => one.next.join()).join(" ")}</p>
      <form onSubmit={send}><input name="text" autoComplete="off" /></form>
      <button type="button" onClick={() => stream.stop()}>Stop</button>
    </main>
  );
}

createRoot(document.getElementById("root")).render(<Chat />);
