/** schedule.ts -- messages that are sent later: the gateway's schedules, and how people say when. */

import { gateway } from "./gateway";
import { timeOfDay } from "./words";

export interface Schedule {
  schedule_id: string;
  chat: { message: string | readonly { type: string; text?: string }[]; agent?: string };
  conversation_id?: string;
  not_before?: number;
  cron?: string;
  time_zone?: string;
  every_s?: number;
  paused?: boolean;
  /** Missing when it is due no more. */
  next_at?: number;
  error?: { code: string; message: string };
}

/** The requests of PROTOCOL.md 3; a new schedule is sent once, so that a cut makes no second one. */
const ask = <T>(verb: string, fields: object, kept = true) =>
  gateway.request(verb as "ping", fields, { kept }) as unknown as Promise<T>;

export const schedules = async () => (await ask<{ schedules: Schedule[] }>("schedules", { limit: 100 })).schedules;
export const makeSchedule = (its: Omit<Schedule, "schedule_id">) => ask("schedule", its, false);
export const changeSchedule = (schedule_id: string, more: Partial<Schedule>) => ask("reschedule", { schedule_id, ...more });
export const removeSchedule = (schedule_id: string) => ask("unschedule", { schedule_id });

export const textOf = ({ chat: { message } }: Schedule): string =>
  typeof message === "string" ? message : message.map(({ text = "" }) => text).join(" ");

export type Every = "once" | "day" | "weekdays" | "week" | "month" | "cron";

/** A wish as the form has it; of each kind only some members count. */
export interface When {
  every: Every;
  /** As `datetime-local` has it. */
  at: string;
  /** `HH:MM` */
  time: string;
  /** 0 is Sunday. */
  weekday: number;
  /** The day of the month. */
  day: number;
  cron: string;
}

/** Turns a wish into what the gateway is asked for; null while the wish is incomplete. */
export function timesOf(when: When, time_zone: string): Partial<Schedule> | null {
  if (when.every === "once") {
    const not_before = new Date(when.at).getTime();
    return Number.isNaN(not_before) ? null : { not_before };
  }
  if (when.every === "cron") return when.cron.trim() === "" ? null : { cron: when.cron.trim(), time_zone };
  const [hours, minutes] = when.time.split(":").map(Number);
  if (hours === undefined || minutes === undefined || Number.isNaN(hours + minutes)) return null;
  const days = { day: "* * *", weekdays: "* * 1-5", week: `* * ${when.weekday}`, month: `${when.day} * *` }[when.every];
  return { cron: `${minutes} ${hours} ${days}`, time_zone };
}

export const WEEKDAYS = ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"];

const FORM = /^(\d{1,2}) (\d{1,2}) (\*|\d{1,2}) \* (\*|1-5|[0-6])$/;

/** When it is due, for people; what has no simple words stands as it is. */
export function inWords({ cron, every_s, not_before, time_zone }: Schedule, own: string): string {
  const elsewhere = time_zone && time_zone !== own ? ` (${time_zone})` : "";
  if (every_s) return every_s % 3_600 === 0 ? `every ${every_s / 3_600} h` : every_s % 60 === 0 ? `every ${every_s / 60} min` : `every ${every_s} s`;
  if (!cron) return not_before ? "once" : "";
  const [, minutes = "", hours = "", day = "", weekday = ""] = FORM.exec(cron) ?? [];
  if (minutes === "" || (day !== "*" && weekday !== "*")) return `${cron}${elsewhere}`;
  const time = timeOfDay(new Date(2000, 0, 1, Number(hours), Number(minutes)).getTime());
  if (day !== "*") return `on day ${day} of each month at ${time}${elsewhere}`;
  const on = weekday === "*" ? "every day" : weekday === "1-5" ? "on weekdays" : `every ${WEEKDAYS[Number(weekday)]}`;
  return `${on} at ${time}${elsewhere}`;
}
