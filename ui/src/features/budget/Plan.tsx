import { createClient } from "@connectrpc/connect";
import { useInfiniteQuery, useQuery } from "@connectrpc/connect-query";
import { useState, type ReactNode } from "react";
import { toast } from "sonner";
import { byToken, useRest } from "@/api/pages";
import { useRefresh } from "@/api/refresh";
import { transport } from "@/api/transport";
import { useSession } from "@/app/session";
import { Badge } from "@/components/Badge";
import { Button } from "@/components/Button";
import { Field, Input, Select, TextArea } from "@/components/Field";
import { FormDialog } from "@/components/FormDialog";
import { line } from "@/components/marks";
import { Problem } from "@/components/Problem";
import { Facts, Section } from "@/components/Section";
import { Skeletons } from "@/components/Skeleton";
import { duration, Time } from "@/components/Time";
import { quotaShare, quotaWord, Upgrade } from "@/features/history/Quotas";
import { may } from "@/features/session/queries";
import { PlanService, type Plan as Message, type QuotaUsage } from "@/gen/deckhand/v1/plan_pb";
import { UserService } from "@/gen/deckhand/v1/user_pb";

const plans = createClient(PlanService, transport);

// What each plan gives, as people are told of it before they choose.
const words: Record<string, string> = {
  free: "free: 50 runs of 5 minutes, safe tools",
  starter: "starter: 500 runs of 10 minutes, safe and moderate tools",
  professional: "professional: 2,500 runs of 15 minutes, all tools",
  enterprise: "enterprise: unlimited runs of 30 minutes, all tools",
  "self-hosted": "self-hosted: unlimited",
};

// Plan is what the organisation may have in a billing period, and what of it is used.
export function Plan() {
  const admin = may(useSession(), "admin");
  const [changing, setChanging] = useState<"plan" | "models" | "quotas">();
  const got = useQuery(PlanService.method.getPlan);
  const plan = got.data?.plan;
  return (
    <Section
      title="Plan"
      actions={
        admin &&
        plan && (
          <>
            <Button onClick={() => setChanging("models")}>Models</Button>
            <Button onClick={() => setChanging("quotas")}>Quotas</Button>
            <Button onClick={() => setChanging("plan")}>Change plan</Button>
          </>
        )
      }
    >
      {got.isPending ? (
        <Skeletons rows={1} className="h-20 w-full" />
      ) : plan === undefined ? (
        <Problem error={got.error} retry={() => void got.refetch()} />
      ) : (
        <Facts
          of={[
            ["Plan", plan.name],
            [`Runs in ${plan.period}`, <Runs key="runs" of={plan} />],
            ...plan.quotas.map((q): [string, ReactNode] => [
              `${q.scope === "user" ? "Your " : "All "}${quotaWord(q.metric)}`,
              <Used key={q.scope + q.metric} of={q} />,
            ]),
            ["Billing period", <Billing key="billing" of={plan} />],
            ["When used up", plan.hardBlock ? "new tasks are refused" : "tasks wait in the queue"],
            ["Max run time", plan.activeTime ? duration(Number(plan.activeTime.seconds) * 1000) : "set by the persona"],
            ["Tools", plan.tools === "dangerous" ? "all" : plan.tools === "moderate" ? "safe and moderate" : plan.tools],
            ["Models", plan.models.length === 0 ? "all" : plan.models.join(", ")],
            [
              "Calls per minute",
              Object.entries(plan.callsPerMinute)
                .map(([name, n]) => `${name} ${n}`)
                .join(", ") || "unlimited",
            ],
          ]}
        />
      )}
      {plan && changing === "plan" && <ChangePlan of={plan} onClose={() => setChanging(undefined)} />}
      {plan && changing === "quotas" && <ChangeQuotas of={plan} onClose={() => setChanging(undefined)} />}
      {plan && changing === "models" && <ChangeModels of={plan} onClose={() => setChanging(undefined)} />}
    </Section>
  );
}

function Runs({ of: plan }: { of: Message }) {
  if (plan.runs === undefined) return <>{plan.used.toString()}</>;
  const all = plan.runs + plan.carried;
  return (
    <span className="inline-flex flex-wrap items-center gap-2">
      {plan.used.toString()} of {all.toString()}
      {plan.left === 0n ? (
        <>
          <Badge tone="bad">used up</Badge>
          <span className="text-xs text-dim">
            {plan.hardBlock ? "new tasks are refused; resets " : "tasks wait; resets "}
            <Time at={plan.resetsAt} />
            <Upgrade url={plan.upgradeUrl} />
          </span>
        </>
      ) : (
        plan.used * 5n >= all * 4n && (
          <>
            <Badge tone="warn">over 80 %</Badge>
            <Upgrade url={plan.upgradeUrl} />
          </>
        )
      )}
    </span>
  );
}

// Billing says when the current billing period ends.
function Billing({ of: plan }: { of: Message }) {
  return (
    <>
      ends <Time at={plan.resetsAt} />; begins on day {plan.cycleDay || 1} of each month
    </>
  );
}

// Used shows what is used of a quota, and what runs have reserved.
function Used({ of: q }: { of: QuotaUsage }) {
  const share = quotaShare(q);
  return (
    <span className="inline-flex flex-wrap items-center gap-2">
      {q.used.toLocaleString("en")} of {q.limit.toLocaleString("en")}
      {q.reserved > 0n && <span className="text-xs text-dim">and {q.reserved.toLocaleString("en")} reserved by runs</span>}
      {share >= 1 ? <Badge tone="bad">used up</Badge> : share >= 0.8 && <Badge tone="warn">over 80 %</Badge>}
    </span>
  );
}

function ChangePlan({ of: plan, onClose }: { of: Message; onClose: () => void }) {
  const refresh = useRefresh(PlanService);
  const [name, setName] = useState(plan.name);
  const [day, setDay] = useState(String(plan.cycleDay || 1));
  const [hard, setHard] = useState(plan.hardBlock);
  const [runs, setRuns] = useState(plan.name === "enterprise" ? (plan.runs?.toString() ?? "") : "");
  const count = /^[1-9]\d{0,8}$/.test(runs) ? BigInt(runs) : undefined;
  const wrong = name === "enterprise" && runs !== "" && count === undefined;
  return (
    <FormDialog
      title="Change plan"
      action="Save"
      ready={!wrong}
      onClose={onClose}
      run={async () => {
        await plans.setPlan({ name, runs: name === "enterprise" ? count : undefined, cycleDay: Number(day), hardBlock: hard });
        await refresh();
      }}
    >
      <Field label="Plan">
        <Select className="w-full" value={name} onChange={(e) => setName(e.target.value)}>
          {Object.entries(words).map(([value, label]) => (
            <option key={value} value={value}>
              {label}
            </option>
          ))}
        </Select>
      </Field>
      <Field label="Billing period begins on day" hint="Of each month, at midnight in UTC.">
        <Select className="w-full" value={day} onChange={(e) => setDay(e.target.value)}>
          {Array.from({ length: 28 }, (_, i) => (
            <option key={i} value={i + 1}>
              {i + 1}
            </option>
          ))}
        </Select>
      </Field>
      <Field label="When no run is left">
        <Select className="w-full" value={hard ? "refuse" : "wait"} onChange={(e) => setHard(e.target.value === "refuse")}>
          <option value="wait">tasks wait in the queue</option>
          <option value="refuse">new tasks are refused</option>
        </Select>
      </Field>
      {name === "enterprise" && (
        <Field label="Runs per month (leave empty for unlimited)" problem={wrong ? "Enter a whole number, such as 10000." : undefined}>
          <Input inputMode="numeric" value={runs} onChange={(e) => setRuns(e.target.value)} autoComplete="off" />
        </Field>
      )}
    </FormDialog>
  );
}

const metrics = ["runs", "iterations", "tokens", "toolCalls"] as const;
type Metric = (typeof metrics)[number];
const metricLabels: Record<Metric, string> = { runs: "Runs", iterations: "Iterations", tokens: "Tokens", toolCalls: "Tool calls" };

// ChangeQuotas sets what the organisation, each user or one user may use.
function ChangeQuotas({ of: plan, onClose }: { of: Message; onClose: () => void }) {
  const refresh = useRefresh(PlanService);
  const [whose, setWhose] = useState<"" | "*" | "user">("");
  const [user, setUser] = useState("");
  const name = whose === "user" ? user.trim() : whose;
  const people = useInfiniteQuery(UserService.method.listUsers, { pageSize: 500, pageToken: "" }, { ...byToken, enabled: whose === "user" });
  useRest(people);
  const now = plan.limits.find((l) => l.userName === name);
  const [typed, setTyped] = useState<Partial<Record<Metric, string>>>({});
  const value = (m: Metric) => typed[m] ?? now?.[m]?.toString() ?? "";
  const wrong = metrics.filter((m) => value(m) !== "" && !/^[1-9]\d{0,11}$/.test(value(m)));
  const pick = (to: "" | "*" | "user") => {
    setWhose(to);
    setTyped({});
  };
  return (
    <FormDialog
      title="Quotas per billing period"
      action="Save"
      ready={wrong.length === 0 && (whose !== "user" || user.trim() !== "") && Object.keys(typed).length > 0}
      onClose={onClose}
      run={async () => {
        const changed = Object.fromEntries(metrics.filter((m) => typed[m] !== undefined).map((m) => [m, BigInt(typed[m] || "0")]));
        await plans.setQuota({ quota: { userName: name, ...changed } });
        await refresh();
        toast(whose === "" ? "Quotas of the organisation saved" : whose === "*" ? "Quotas of each user saved" : `Quotas of ${line(name)} saved`);
      }}
    >
      <Field label="For">
        <Select className="w-full" value={whose} onChange={(e) => pick(e.target.value as "" | "*" | "user")}>
          <option value="">the organisation</option>
          <option value="*">each user without quotas of their own</option>
          <option value="user">one user</option>
        </Select>
      </Field>
      {whose === "user" && (
        <>
          <Field label="User">
            <Input value={user} list="quota-users" maxLength={128} autoComplete="off" onChange={(e) => setUser(e.target.value)} />
          </Field>
          <datalist id="quota-users">
            {people.data?.pages.flatMap((page) => page.users).map((u) => <option key={u.id} value={u.name} />)}
          </datalist>
        </>
      )}
      <p className="text-dim">Leave a field empty for unlimited. When a quota is used up, {plan.hardBlock ? "new tasks are refused" : "tasks wait in the queue"} until the next billing period.</p>
      <div className="grid gap-3 sm:grid-cols-2">
        {metrics.map((m) => (
          <Field key={m} label={metricLabels[m]} problem={wrong.includes(m) ? "Enter a whole number above 0, or leave it empty." : undefined}>
            <Input inputMode="numeric" placeholder="unlimited" value={value(m)} autoComplete="off" onChange={(e) => setTyped({ ...typed, [m]: e.target.value.trim() })} />
          </Field>
        ))}
      </div>
    </FormDialog>
  );
}

function ChangeModels({ of: plan, onClose }: { of: Message; onClose: () => void }) {
  const refresh = useRefresh(PlanService);
  const [text, setText] = useState(plan.models.join("\n"));
  return (
    <FormDialog
      title="Allowed models"
      action="Save"
      onClose={onClose}
      run={async () => {
        await plans.setAllowedModels({ models: [...new Set(text.split(/\s+/).filter(Boolean))] });
        await refresh();
      }}
    >
      <Field label="One PROVIDER/MODEL per line. Use * as a wildcard. Leave empty to allow all.">
        <TextArea rows={6} className="font-mono" value={text} onChange={(e) => setText(e.target.value)} spellCheck={false} />
      </Field>
    </FormDialog>
  );
}
