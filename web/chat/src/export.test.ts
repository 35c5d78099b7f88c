import type { Message } from "@holdfast/client";
import { expect, test, vi } from "vitest";

vi.mock("./gateway", () => ({ gateway: {} }));
vi.mock("./files", () => ({ token: async () => "" }));
const { asMarkdown, fileNameOf } = await import("./export");

const at = Date.UTC(2026, 10, 29, 8, 5);

test("a conversation as Markdown says who said what and when, and names the files", () => {
  const messages: Message[] = [
    { message_id: "1", role: "user", content: "How deep?", created_at: at, parts: [{ type: "text", text: "How deep?" }, { type: "file", file_id: "f", name: "map.png" }] },
    { message_id: "2", role: "assistant", content: "Very", created_at: at + 60_000, partial: true },
  ];
  expect(asMarkdown("The sea", messages)).toBe(
    "# The sea\n\n*2 messages*\n\n## Question, 2026-11-29 08:05 UTC\n\n- File: map.png\n\nHow deep?\n\n" +
      "## Answer, 2026-11-29 08:06 UTC\n\nVery\n\n*This is a part of the answer.*\n",
  );
});

test("a title becomes a name that any system takes", () => {
  expect(fileNameOf('a/b\\c: "d"?\n*')).toBe("a b c d");
  expect(fileNameOf("../..")).toBe("conversation");
  expect(fileNameOf("Tiefe – 深さ")).toBe("Tiefe 深さ");
  expect(fileNameOf("x".repeat(99))).toHaveLength(60);
});
