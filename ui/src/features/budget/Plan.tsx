import { createClient } from "@connectrpc/connect";
import { useQuery } from "@connectrpc/connect-query";
import { useState } from "react";
import { useRefresh } from "@/api/refresh";
import { transport } from "@/api/transport";
import { useSession } from "@/app/session";
import { Badge } from "@/components/Badge";
import { Button } from "@/components/Button";
import { Field, Input, Select, TextArea } from "@/components/Field";
import { FormDialog } from "@/components/FormDialog";
import { Problem } from "@/components/Problem";
import { Facts, Section } from "@/components/Section";
import { Skeletons } from "@/components/Skeleton";
import { duration, Time } from "@/components/Time";
import { may } from "@/features/session/queries";
import { PlanService, type Plan as Message } from "@/gen/deckhand/v1/plan_pb";

const plans = createClient(PlanService, transport);

// What each plan gives, as people are told of it before they choose.
const words: Record<string, string> = {
  free: "free: 50 runs of 5 minutes, safe tools",
  starter: "starter: 500 runs of 10 minutes, safe and moderate tools",
  professional: "professional: 2,500 runs of 15 minutes, all tools",
  enterprise: "enterprise: unlimited runs of 30 minutes, all tools",
  "self-hosted": "self-hosted: unlimited",
};

// Plan is what the organisation may have in a month, and what of it is used.
export function Plan() {
  const admin = may(useSession(), "admin");
  const [changing, setChanging] = useState<"plan" | "models">();
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
            tasks wait until <Time at={plan.resetsAt} />
          </span>
        </>
      ) : (
        plan.used * 5n >= all * 4n && <Badge tone="warn">over 80 %</Badge>
      )}
    </span>
  );
}

function ChangePlan({ of: plan, onClose }: { of: Message; onClose: () => void }) {
  const refresh = useRefresh(PlanService);
  const [name, setName] = useState(plan.name);
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
        await plans.setPlan({ name, runs: name === "enterprise" ? count : undefined });
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
      {name === "enterprise" && (
        <Field label="Runs per month (leave empty for unlimited)" problem={wrong ? "Enter a whole number, such as 10000." : undefined}>
          <Input inputMode="numeric" value={runs} onChange={(e) => setRuns(e.target.value)} autoComplete="off" />
        </Field>
      )}
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
