/** usage.ts -- what an answer has used: agents and models tell it in several forms. */

export interface Usage {
  tokens: number;
  dollars: number;
}

const members = (value: unknown) => (typeof value === "object" && value !== null ? (value as Record<string, unknown>) : {});

/** The first of these members that is a number. */
const numberIn = (of: Record<string, unknown>, ...names: string[]): number | undefined =>
  names.map((name) => of[name]).find((value) => typeof value === "number" && Number.isFinite(value)) as number | undefined;

/** Zero: it is not told. */
export function usageIn(result: unknown): Usage {
  const all = members(result);
  const usage = members(all.usage);
  const read = numberIn(usage, "prompt_tokens", "input_tokens", "inputTokens") ?? 0;
  const said = numberIn(usage, "completion_tokens", "output_tokens", "outputTokens") ?? 0;
  return {
    tokens: numberIn(usage, "total_tokens", "totalTokens") ?? read + said,
    dollars: numberIn(all, "total_cost_usd") ?? numberIn(usage, "cost_usd", "cost") ?? 0,
  };
}
