/** agent.ts -- the agent that is asked: the one chosen in this tab, else the usual one. */

import { useSyncExternalStore } from "react";
import { gateway } from "./gateway";
import { Observable } from "./inspector/changing";
import { ofTab, read, write } from "./kept";
import { useWatched } from "./watch";

const KEPT = "holdfast.agent";

class Choice extends Observable {
  name = read(ofTab, KEPT);

  choose = (name: string) => {
    this.name = name;
    write(ofTab, KEPT, name);
    this.changed();
  };
}

export const choice = new Choice();

/** Undefined until the gateway has said which there are. */
export function useAgent() {
  const { agents } = useWatched(gateway);
  const name = useSyncExternalStore(choice.subscribe, () => choice.name); // at once: what is sent next is for it
  return agents.find((one) => one.name === name) ?? agents.find((one) => one.default) ?? agents[0];
}
