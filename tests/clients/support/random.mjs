// random.mjs -- numbers that repeat: a failing test prints its seed, and HOLDFAST_SEED gives it again.

export function random(seed = Number(process.env.HOLDFAST_SEED ?? Date.now() % 1_000_000)) {
  console.log(`HOLDFAST_SEED=${seed}`);
  let state = seed >>> 0;
  return (below) => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return Math.floor((state / 2 ** 32) * below);
  };
}
