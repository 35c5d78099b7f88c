/** clock.ts -- time that passes, in milliseconds: the time of day may be set, also back. */

export const now = (): number => performance.now();
