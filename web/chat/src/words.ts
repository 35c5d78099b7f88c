/** words.ts -- numbers and times in the form that people read: the words are English, times of day the browser's own. */

const count = new Intl.NumberFormat("en");
const ago = new Intl.RelativeTimeFormat("en", { numeric: "auto", style: "short" });

export const number = (value: number) => count.format(value);

export const plural = (n: number, one: string, many = `${one}s`) => `${number(n)} ${n === 1 ? one : many}`;

export function price(dollars: number): string {
  if (dollars < 0.001) return "under $0.001";
  return `$${dollars >= 0.1 ? dollars.toFixed(2) : dollars.toPrecision(2)}`;
}

export function duration(ms: number): string {
  if (ms < 1_000) return `${Math.max(0, Math.round(ms))} ms`;
  if (ms < 60_000) return `${(ms / 1_000).toFixed(1)} s`;
  const s = Math.round(ms / 1_000);
  return s < 3_600 ? `${Math.floor(s / 60)} min ${s % 60} s` : `${Math.floor(s / 3_600)} h ${Math.floor((s % 3_600) / 60)} min`;
}

export const size = (bytes: number) =>
  bytes < 1_024 ? `${number(bytes)} B` : bytes < 1_048_576 ? `${(bytes / 1_024).toFixed(1)} KiB` : `${(bytes / 1_048_576).toFixed(1)} MiB`;

/** As the reader's browser writes it: 2:36 PM, 14:36. */
export const timeOfDay = (ms: number) => new Date(ms).toLocaleTimeString([], { hour: "numeric", minute: "2-digit" });

/** The time of day, and the day unless it is today. */
export function clock(ms: number, now = Date.now()): string {
  const isToday = new Date(ms).toDateString() === new Date(now).toDateString();
  if (isToday) return timeOfDay(ms);
  return `${new Date(ms).toLocaleDateString("en", { day: "numeric", month: "short" })}, ${timeOfDay(ms)}`;
}

/** A time within the next days. */
export const weekday = (ms: number) => `${new Date(ms).toLocaleDateString("en", { weekday: "short" })}, ${timeOfDay(ms)}`;

export function timeAgo(ms: number, now = Date.now()): string {
  const s = (ms - now) / 1_000;
  if (s > -45) return "now";
  if (s > -3_600) return ago.format(Math.round(s / 60), "minute");
  if (s > -86_400) return ago.format(Math.round(s / 3_600), "hour");
  return ago.format(Math.round(s / 86_400), "day");
}

/** The names of `dayOf`, the newest first. */
export const DAYS = ["Today", "Yesterday", "Last 7 days", "Last 30 days", "Older"] as const;

/** Today, Yesterday, or how far back, for grouped lists. */
export function dayOf(ms: number, now = Date.now()): (typeof DAYS)[number] {
  const days = Math.round((new Date(now).setHours(0, 0, 0, 0) - new Date(ms).setHours(0, 0, 0, 0)) / 86_400_000);
  if (days <= 0) return "Today";
  if (days === 1) return "Yesterday";
  if (days < 7) return "Last 7 days";
  return days < 30 ? "Last 30 days" : "Older";
}

const escaped = (sign: string) => `\\u${sign.charCodeAt(0).toString(16).padStart(4, "0")}`;

/**
 * Shows characters that reverse the text's direction as codes; otherwise a command may look like
 * another one.
 */
export const plainly = (text: string): string => text.replaceAll(/\p{Bidi_Control}/gu, escaped);

/** Any value, as readable JSON. */
export const pretty = (value: unknown): string =>
  value === undefined ? "" : plainly(JSON.stringify(value, null, 2));
