/** LookButton.tsx -- dark, light, or like the system. */

import { useLayoutEffect } from "react";
import { useKept } from "../kept";
import { Icon, type IconName } from "./Icon";

const looks: Record<string, { next: string; icon: IconName; label: string; scheme: string }> = {
  "": { next: "light", icon: "screen", label: "Look: as the system", scheme: "" },
  light: { next: "dark", icon: "sun", label: "Look: light", scheme: "light" },
  dark: { next: "", icon: "moon", label: "Look: dark", scheme: "dark" },
};

export function LookButton() {
  const [kept, keep] = useKept("holdfast.look");
  const look = looks[kept] ?? looks[""]!;
  useLayoutEffect(() => {
    document.documentElement.style.colorScheme = look.scheme;
  }, [look]);
  return (
    <button type="button" className="icon-button look" aria-label={look.label} title={look.label} onClick={() => keep(look.next)}>
      <Icon name={look.icon} />
    </button>
  );
}
