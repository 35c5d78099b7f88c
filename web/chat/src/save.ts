/** save.ts -- gives the user a file. */

const KEPT_MS = 10_000; // the browser reads it after the click

export function save(name: string, content: Blob) {
  const url = URL.createObjectURL(content);
  const link = document.createElement("a");
  link.href = url;
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(url), KEPT_MS);
}
