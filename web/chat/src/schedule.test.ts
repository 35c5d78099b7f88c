import { expect, test, vi } from "vitest";

vi.mock("./gateway", () => ({ gateway: {} }));
const { inWords, timesOf } = await import("./schedule");

const when = { every: "day", at: "2026-12-01T08:00", time: "09:05", weekday: 3, day: 15, cron: "" } as const;
const times = (more: object) => timesOf({ ...when, ...more }, "Europe/Berlin");

test("a wish becomes five fields of cron in one's own time zone, or a time", () => {
  const time_zone = "Europe/Berlin";
  expect(times({})).toEqual({ cron: "5 9 * * *", time_zone });
  expect(times({ every: "weekdays" })).toEqual({ cron: "5 9 * * 1-5", time_zone });
  expect(times({ every: "week" })).toEqual({ cron: "5 9 * * 3", time_zone });
  expect(times({ every: "month" })).toEqual({ cron: "5 9 15 * *", time_zone });
  expect(times({ every: "cron", cron: " @hourly " })).toEqual({ cron: "@hourly", time_zone });
  expect(times({ every: "once" })).toEqual({ not_before: new Date("2026-12-01T08:00").getTime() });
});

test("an incomplete wish is none", () => {
  for (const more of [{ time: "" }, { every: "once", at: "" }, { every: "cron" }, { time: "9" }]) expect(times(more)).toBe(null);
});

test("what is due is said in words, and in its own zone", () => {
  const words = (more: object) => inWords({ schedule_id: "s", chat: { message: "" }, ...more }, "Europe/Berlin");
  for (const every of ["day", "weekdays", "week", "month"]) expect(words(times({ every })!)).toMatch(/ at 0?9:05(\sAM)?$/);
  expect(words({ cron: "5 9 * * 3", time_zone: "Asia/Tokyo" })).toMatch(/^every Wednesday at 0?9:05(\sAM)? \(Asia\/Tokyo\)$/);
  expect(words({ cron: "*/5 * * * *" })).toBe("*/5 * * * *");
  expect(words({ cron: "0 9 1 * 1" })).toBe("0 9 1 * 1");
  expect(words({ every_s: 7_200 })).toBe("every 2 h");
  expect(words({ every_s: 90 })).toBe("every 90 s");
  expect(words({ not_before: 1 })).toBe("once");
});
