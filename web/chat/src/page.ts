/** page.ts -- the operator's settings for this page: name, mark, colour, and where people sign in and out. */

import { useEffect, useState } from "react";

interface Page {
  name: string;
  /** An address of the web, or "" for none. */
  signIn: string;
  /** Where a cookie of the operator's ends, or "" for nowhere. */
  signOut: string;
  /** The address of a picture, or "" for the page's own mark. */
  mark: string;
}

const OWN: Page = { name: "Holdfast", signIn: "", signOut: "", mark: "" };

function addressOf(text: unknown): string {
  if (typeof text !== "string" || text === "") return "";
  const url = URL.parse(text, document.baseURI);
  return url && /^https?:$/.test(url.protocol) ? url.href : "";
}

/** The colour and the icon of the whole document; the colour's shades are in base.css. */
function dress(accent: unknown, mark: string) {
  const { style, dataset } = document.documentElement;
  if (typeof accent === "string" && /^#[0-9a-f]{6}$/i.test(accent)) {
    style.setProperty("--own", accent);
    dataset.own = "";
  }
  const icon = document.querySelector<HTMLLinkElement>("link[rel=icon]");
  if (!mark || !icon) return;
  icon.removeAttribute("type");
  icon.href = mark;
}

async function load(): Promise<Page> {
  const reply = await fetch("page.json");
  if (!reply.ok) return OWN;
  const { name, sign_in_url, sign_out_url, accent, mark } = await reply.json();
  const page = {
    name: typeof name === "string" && name ? name : OWN.name,
    signIn: addressOf(sign_in_url),
    signOut: addressOf(sign_out_url),
    mark: addressOf(mark),
  };
  dress(accent, page.mark);
  return page;
}

const loading = load().catch(() => OWN);

export const signOutAddress = async () => (await loading).signOut;

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
