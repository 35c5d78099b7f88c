/** clock.ts -- elapsed time in milliseconds, because the time of day may be set, even back. */

export const now = (): number => performance.now();
