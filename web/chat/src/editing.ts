/**
 * editing.ts -- the question that is edited in its place: one at most.  What was typed into an editor that went away
 * is kept as that question's draft, over a reload too, until it is asked or cancelled.
 */

import type { Conversation, Turn } from "@holdfast/client";
import { messagesOf } from "@holdfast/client/branches";
import { Observable } from "./inspector/changing";
import { ofTab, read, write } from "./kept";
import { may } from "./rights";

export const canEdit = (conversation: Conversation, turn: Turn): boolean =>
  may("ask") && !turn.outgoing && messagesOf(conversation, turn).question?.role === "user";

const nameOf = (key: string) => `holdfast.edit.${key}`;

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

  /** The text that was typed for this turn and not asked; "" means none. */
  draftOf = (key: string): string => read(ofTab, nameOf(key));

  keepDraft(key: string, text: string) {
    write(ofTab, nameOf(key), text);
  }

  /** It is cancelled: what was typed is wanted no more. */
  leave() {
    if (this.key !== null) this.keepDraft(this.key, "");
    const from = this.#from as HTMLElement | null;
    if (from?.isConnected) from.focus();
    else this.#returnsTo = this.key;
    this.#set(null);
  }

  /** It was asked. */
  end() {
    if (this.key !== null) this.keepDraft(this.key, "");
    this.#set(null);
  }

  /** Its editor is gone; its draft stays. */
  drop(key: string) {
    if (this.key === key) this.#set(null);
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
