// figures.js -- the gateway's counters as numbers, and numbers as people read them.

/** Every row of a text of metrics, by its name with its labels; a family's sum by its name alone.
 * @param {string} text @returns {Map<string, number>} */
export function countersOf(text) {
  const found = new Map();
  for (const line of text.split("\n")) {
    const at = line.lastIndexOf(" ");
    if (at < 0 || line.startsWith("#")) continue;
    const key = line.slice(0, at);
    const value = Number(line.slice(at + 1));
    const name = key.replace(/\{.*/, "");
    found.set(key, value);
    if (name !== key) found.set(name, (found.get(name) ?? 0) + value);
  }
  return found;
}

/** How much a counter has grown a second; 0 without an earlier look, or when the gateway began anew.
 * @param {string} name
 * @param {{ at: number, counters: Map<string, number> } | null} before
 * @param {{ at: number, counters: Map<string, number> }} now */
export function rateOf(name, before, now) {
  const grown = (now.counters.get(name) ?? 0) - (before?.counters.get(name) ?? 0);
  return before && now.at > before.at && grown > 0 ? (1000 * grown) / (now.at - before.at) : 0;
}

/** @param {number} bytes */
export function sizeText(bytes) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let at = 0;
  while (bytes >= 1024 && at < units.length - 1) {
    bytes /= 1024;
    at++;
  }
  return `${at && bytes < 10 ? bytes.toFixed(1) : Math.round(bytes)} ${units[at]}`;
}

/** @param {number} ms */
export function sinceText(ms) {
  const s = Math.max(0, Math.round(ms / 1000));
  if (s < 60) return `${s} s`;
  if (s < 3600) return `${Math.floor(s / 60)} min`;
  if (s < 86400) return `${Math.floor(s / 3600)} h ${Math.floor((s % 3600) / 60)} min`;
  return `${Math.floor(s / 86400)} d ${Math.floor((s % 86400) / 3600)} h`;
}
