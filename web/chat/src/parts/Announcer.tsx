/**
 * Announcer.tsx -- tells users of screen readers what matters: finished answers, questions,
 * ends.
 */

import type { Conversation, Task } from "@holdfast/client";
import { useRef } from "react";
import { sentenceOf } from "../trouble";
import { useWatched } from "../watch";
import { nameOf } from "./TaskTree";

function newsOf(task: Task): string {
  const asks = task.live && task.transcript.questions.find(({ open }) => open);
  if (asks) return `${nameOf(task)} asks: ${asks.prompt}`;
  if (task.live) return "";
  const error = task.transcript.ending?.error;
  if (task.status === "completed") return `The answer to ${nameOf(task)} is there`;
  return `${nameOf(task)} ${task.status}. ${task.status === "failed" && error ? sentenceOf(error) : ""}`;
}

export function Announcer({ conversation }: { conversation: Conversation }) {
  useWatched(conversation);
  const known = useRef(new Map<Task, string>());
  const said = useRef("");
  for (const task of conversation.tasks) {
    const news = newsOf(task);
    const was = known.current.get(task);
    known.current.set(task, news);
    if (was !== undefined && was !== news && news !== "") said.current = news;
  }
  return (
    <p className="sr" role="status" id="news">
      {said.current}
    </p>
  );
}
