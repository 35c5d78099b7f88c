/** editing.ts -- the question that is edited in its place: one at most. */

import type { Conversation, Turn } from "@holdfast/client";
import { messagesOf } from "@holdfast/client/branches";
import { Observable } from "./inspector/changing";
import { may } from "./rights";

export const canEdit = (conversation: Conversation, turn: Turn): boolean =>
  may("ask") && !turn.outgoing && messagesOf(conversation, turn).question?.role === "user";

class Editing extends Observable {
  /** The turn's key; null: none is edited. */
  key: string | null = null;
  /** The turn to whose pencil the focus returns: it is drawn anew. */
  #returnsTo: string | null = null;
  #from: Element | null = null;

  begin(key: string) {
    this.#from = document.activeElement;
    this.#returnsTo = null;
    this.#set(key);
  }

  leave() {
    const from = this.#from as HTMLElement | null;
    if (from?.isConnected) from.focus();
    else this.#returnsTo = this.key;
    this.#set(null);
  }

  /** It was asked. */
  end() {
    this.#set(null);
  }

  /** Its editor is gone, with what it held. */
  drop(key: string) {
    if (this.key === key) this.end();
  }

  /** Whether the focus returns to this turn's pencil, told once. */
  takesFocus(key: string): boolean {
    if (this.#returnsTo !== key) return false;
    this.#returnsTo = null;
    return true;
  }

  /** Edits the last question; where that cannot be, returns its text to be asked anew. */
  recall(conversation: Conversation): string {
    const turn = conversation.turns.findLast(({ input }) => input !== null);
    if (!turn || !canEdit(conversation, turn)) return turn?.input ?? "";
    this.begin(turn.key);
    return "";
  }

  #set(key: string | null) {
    this.key = key;
    this.changed();
  }
}

export const editing = new Editing();
