import { useQuery } from "@connectrpc/connect-query";
import { cx } from "@/components/cx";
import { PlanService, type Plan, type QuotaUsage } from "@/gen/deckhand/v1/plan_pb";

const units: Record<string, string> = { runs: "runs", iterations: "iterations", tokens: "tokens", tool_calls: "tool calls" };

// quotaWord names what a quota is of.
export const quotaWord = (metric: string) => units[metric] ?? metric;

// quotaShare is how much of a quota is used or reserved: 1 is all of it.
export const quotaShare = (q: QuotaUsage) => (q.limit > 0n ? Math.min(1, Number(q.used + q.reserved) / Number(q.limit)) : 0);

// quotaLine describes what is left of a quota.
export function quotaLine(q: QuotaUsage): string {
  const left = q.limit - q.used - q.reserved;
  return `${(left > 0n ? left : 0n).toLocaleString("en")} of ${q.limit.toLocaleString("en")} ${quotaWord(q.metric)}${q.scope === "user" ? " of yours" : ""}`;
}

// Quotas says what is left of the quotas that a run draws on, and where a larger plan can be
// had when nearly nothing is. It says nothing where nothing has a quota.
export function Quotas(props: { of: readonly QuotaUsage[]; runsLeft?: bigint; upgradeUrl: string }) {
  const near = props.runsLeft === 0n || props.of.some((q) => quotaShare(q) >= 0.8);
  if (props.of.length === 0 && props.runsLeft === undefined) return null;
  return (
    <span className={cx(near && "text-warn")} data-testid="quotas">
      {" "}
      Left this billing period: {[...(props.runsLeft === undefined ? [] : [`${props.runsLeft.toLocaleString("en")} runs of the plan`]), ...props.of.map(quotaLine)].join(", ")}.
      {near && <Upgrade url={props.upgradeUrl} />}
    </span>
  );
}

// Upgrade links to where a person can get a larger plan.
export function Upgrade({ url }: { url: string }) {
  if (!/^(https?:\/\/|mailto:)/.test(url)) return null;
  return (
    <>
      {" "}
      <a className="text-accent underline" href={url} target="_blank" rel="noreferrer noopener">
        Get a larger plan
      </a>
    </>
  );
}

// useQuotaHint returns what is left, in one line; undefined where nothing has a quota.
export function useQuotaHint(): { text: string; usedUp: boolean } | undefined {
  const { data } = useQuery(PlanService.method.getPlan, {}, { staleTime: 30_000 });
  return data?.plan && hintOf(data.plan);
}

// hintOf is useQuotaHint of a plan.
export function hintOf(plan: Plan): { text: string; usedUp: boolean } | undefined {
  if (plan.left === undefined && plan.quotas.length === 0) return undefined;
  const parts = [...(plan.left === undefined ? [] : [`${plan.left.toLocaleString("en")} runs of the plan`]), ...plan.quotas.map(quotaLine)];
  return { text: `Left this billing period: ${parts.join(", ")}`, usedUp: plan.left === 0n || plan.quotas.some((q) => quotaShare(q) >= 1) };
}
