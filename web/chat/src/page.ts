/** page.ts -- the operator's settings for this page: its name, and where people sign in. */

import { useEffect, useState } from "react";

interface Page {
  name: string;
  /** An address of the web, or "" for none. */
  signIn: string;
}

const OWN: Page = { name: "Holdfast", signIn: "" };

function addressOf(text: unknown): string {
  if (typeof text !== "string" || text === "") return "";
  const url = URL.parse(text, document.baseURI);
  return url && /^https?:$/.test(url.protocol) ? url.href : "";
}

async function load(): Promise<Page> {
  const reply = await fetch("page.json");
  if (!reply.ok) return OWN;
  const { name, sign_in_url } = await reply.json();
  return { name: typeof name === "string" && name ? name : OWN.name, signIn: addressOf(sign_in_url) };
}

const loading = load().catch(() => OWN);

/** The built-in values until the gateway has answered. */
export function usePage(): Page {
  const [page, setPage] = useState(OWN);
  useEffect(() => {
    let current = true;
    void loading.then((loaded) => current && setPage(loaded));
    return () => {
      current = false;
    };
  }, []);
  return page;
}
