/**
 * notify.ts -- notifies the user, outside the page, that a background task has ended or has a
 * question.
 */

import type { Conversation, Task } from "@holdfast/client";
import { nameOf } from "./parts/TaskTree";

/** Call this when the user does something that makes the purpose plain. */
export function askToNotify() {
  if ("Notification" in window && Notification.permission === "default") {
    void Notification.requestPermission();
  }
}

const words = { completed: "is done", failed: "has failed", cancelled: "was cancelled" };

function notify(task: Task, title: string, body: string) {
  if (!("Notification" in window) || Notification.permission !== "granted") return;
  if (!document.hidden && document.hasFocus()) return; // the user sees it on the page
  try {
    // The same tag from several tabs is one notification.
    const told = new Notification(title, { body, tag: `holdfast ${task.id} ${title}`, icon: "icon.svg" });
    told.onclick = () => {
      focus();
      location.hash = task.conversationId;
      told.close();
    };
  } catch {
    // Some phones allow no notifications from a page.
  }
}

/**
 * Watches the tasks of a conversation, even while nothing is drawn; returns a function that stops
 * it.
 */
export function watchForNews(conversation: Conversation): () => void {
  const known = new Map<string, { live: boolean; asked: number }>();
  const look = () => {
    for (const task of conversation.tasks) {
      const { questions, text } = task.transcript;
      const asked = questions.filter(({ open }) => open).length;
      const was = known.get(task.id);
      known.set(task.id, { live: task.live, asked });
      if (!was) continue;
      const isBackground = task.summary.type === "background";
      if (isBackground && was.live && !task.live) {
        notify(task, `“${nameOf(task)}” ${words[task.status as keyof typeof words]}`, text.slice(0, 200));
      }
      if (asked > was.asked) {
        notify(task, `“${nameOf(task)}” asks`, questions.find(({ open }) => open)?.prompt ?? "");
      }
    }
  };
  look();
  return conversation.subscribe(look);
}
