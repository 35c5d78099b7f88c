/** Timeline.tsx -- all events of a recording on one line of time, a lane for each kind. */

import type { TaskEvent } from "@holdfast/client";
import { useEffect, useRef } from "react";
import type { Recording } from "./recording";

export const lanes = ["life", "text", "thinking", "tools", "questions", "other"] as const;
export type Lane = (typeof lanes)[number];

const laneOfEvent: Partial<Record<TaskEvent["event"], Lane>> = {
  "task.created": "life",
  "task.started": "life",
  "task.resumed": "life",
  "task.completed": "life",
  "task.failed": "life",
  token: "text",
  final_answer: "text",
  thinking: "thinking",
  tool_call: "tools",
  tool_result: "tools",
  input_required: "questions",
  input_received: "questions",
};

export const laneOf = ({ event }: TaskEvent): Lane => laneOfEvent[event] ?? "other";

const LANE_PX = 18;

interface Props {
  recording: Recording;
  version: number;
  /** In ms after the first event. */
  at: number;
  seek(ms: number): void;
}

export function Timeline({ recording, version, at, seek }: Props) {
  const canvas = useRef<HTMLCanvasElement>(null);
  useEffect(() => {
    const draw = () => canvas.current && paint(canvas.current, recording, at);
    draw();
    const watcher = new ResizeObserver(draw);
    watcher.observe(canvas.current!);
    const look = matchMedia("(prefers-color-scheme: dark)"); // the page sets its colours
    look.addEventListener("change", draw);
    return () => {
      watcher.disconnect();
      look.removeEventListener("change", draw);
    };
  }, [recording, version, at]);
  return (
    <div className="timeline">
      <div className="lanes" aria-hidden="true">
        {lanes.map((lane) => (
          <span key={lane} data-lane={lane}>
            {lane}
          </span>
        ))}
      </div>
      <div className="track">
        <canvas ref={canvas} height={lanes.length * LANE_PX} aria-hidden="true" />
        <input
          id="scrub"
          type="range"
          min={0}
          max={Math.max(1, recording.duration)}
          step={1}
          value={at}
          aria-label="Place in time"
          aria-valuetext={`${(at / 1000).toFixed(2)} s`}
          onChange={(event) => seek(Number(event.target.value))}
        />
      </div>
    </div>
  );
}

function paint(canvas: HTMLCanvasElement, recording: Recording, at: number) {
  const scale = devicePixelRatio;
  const width = canvas.clientWidth;
  const height = lanes.length * LANE_PX;
  canvas.width = width * scale;
  canvas.height = height * scale;
  const pen = canvas.getContext("2d")!;
  pen.scale(scale, scale);
  const style = getComputedStyle(canvas);
  const labels = canvas.closest(".timeline")!.querySelectorAll<HTMLElement>(".lanes > *");
  const colours = [...labels].map((label) => getComputedStyle(label).color);
  const x = (ms: number) => (ms / Math.max(1, recording.duration)) * (width - 3);
  pen.fillStyle = style.borderTopColor;
  lanes.forEach((_, lane) => pen.fillRect(0, lane * LANE_PX + LANE_PX / 2, width, 1));
  for (const [index, event] of recording.events.entries()) {
    const ms = recording.timeOf(index);
    const lane = lanes.indexOf(laneOf(event));
    pen.globalAlpha = ms <= at ? 1 : 0.3;
    pen.fillStyle = colours[lane]!;
    pen.fillRect(x(ms), lane * LANE_PX + 4, 2.5, LANE_PX - 7);
  }
  pen.globalAlpha = 1;
  pen.fillStyle = style.color;
  pen.fillRect(x(at), 0, 1.5, height);
}
