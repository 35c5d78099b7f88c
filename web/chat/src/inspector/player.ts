/** player.ts -- the current time in a recording, and how it advances at some speed. */

import { useCallback, useEffect, useState } from "react";

export interface Player {
  /** In ms after the first event; at the end, it follows a growing recording. */
  at: number;
  playing: boolean;
  speed: number;
  seek(ms: number): void;
  play(speed: number): void;
  pause(): void;
}

export function usePlayer(duration: number): Player {
  const [place, setPlace] = useState(Infinity);
  const [speed, setSpeed] = useState(0);
  const playing = speed > 0;
  useEffect(() => {
    if (!playing) return;
    let last = performance.now();
    let frame = requestAnimationFrame(function step(now) {
      const passed = Math.max(0, now - last) * speed; // a frame's time may be earlier than ours
      last = now;
      setPlace((was) => was + passed);
      frame = requestAnimationFrame(step);
    });
    return () => cancelAnimationFrame(frame);
  }, [playing, speed]);
  useEffect(() => {
    if (playing && place >= duration) setSpeed(0);
  }, [playing, place, duration]);

  const at = Math.min(place, duration);
  const seek = useCallback((ms: number) => {
    setSpeed(0);
    setPlace(ms);
  }, []);
  const play = (wanted: number) => {
    if (at >= duration) setPlace(0);
    setSpeed(wanted);
  };
  return { at, playing, speed, seek, play, pause: () => seek(at) };
}
