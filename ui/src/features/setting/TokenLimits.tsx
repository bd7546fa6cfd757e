import { useMutation, useQuery } from "@connectrpc/connect-query";
import { useState } from "react";
import { toast } from "sonner";
import { Button } from "@/components/Button";
import { Field, Input } from "@/components/Field";
import { Problem } from "@/components/Problem";
import { Section } from "@/components/Section";
import { Skeletons } from "@/components/Skeleton";
import { TokenService, type TokenLimits as Limits } from "@/gen/deckhand/v1/token_pb";

const day = 86_400;
// What the hub takes, in days.
const most = 3_650;

type Draft = { maxTtl: string; loginWithin: string };

const daysOf = (d: { seconds: bigint } | undefined) => (d ? String(Number(d.seconds) / day) : "");

// daysIn reads a number of days: undefined for none, and NaN for what is none.
export function daysIn(text: string): number | undefined {
  if (!text.trim()) return undefined;
  const n = Number(text);
  return n > 0 && n <= most ? n : NaN;
}

// TokenLimits is how long people's tokens may be used, and how often people of an identity
// provider log in there.
export function TokenLimits() {
  const { data, error, isPending, refetch } = useQuery(TokenService.method.getTokenLimits, {});
  return (
    <Section title="Tokens and logins">
      {isPending ? <Skeletons rows={2} /> : error ? <Problem error={error} retry={() => void refetch()} /> : <Form limits={data.limits} saved={() => void refetch()} />}
    </Section>
  );
}

function Form(props: { limits: Limits | undefined; saved: () => void }) {
  const stored: Draft = { maxTtl: daysOf(props.limits?.maxTtl), loginWithin: daysOf(props.limits?.loginWithin) };
  const [draft, setDraft] = useState(stored);
  const set = useMutation(TokenService.method.setTokenLimits, {
    onSuccess: () => {
      toast("Saved. It holds for the tokens that exist, too.");
      props.saved();
    },
  });
  const [ttl, within] = [daysIn(draft.maxTtl), daysIn(draft.loginWithin)];
  const wrong = (n: number | undefined) => (Number.isNaN(n) ? `Enter a number of days, at most ${most}.` : undefined);
  const seconds = (n: number | undefined) => (n === undefined ? undefined : { seconds: BigInt(Math.round(n * day)) });
  const changed = draft.maxTtl !== stored.maxTtl || draft.loginWithin !== stored.loginWithin;
  return (
    <form
      className="max-w-xl space-y-3 rounded-lg border bg-panel p-3"
      onSubmit={(e) => {
        e.preventDefault();
        set.mutate({ limits: { maxTtl: seconds(ttl), loginWithin: seconds(within) } });
      }}
    >
      <Field label="Maximum age of tokens (days)" hint="Every token of a person ends at this age. Leave empty for no limit." problem={wrong(ttl)}>
        <Input inputMode="decimal" value={draft.maxTtl} onChange={(e) => setDraft({ ...draft, maxTtl: e.target.value })} />
      </Field>
      <Field
        label="Log in at the identity provider every (days)"
        hint="Tokens and sessions of people who did not are refused until they do. Default: 30."
        problem={wrong(within)}
      >
        <Input inputMode="decimal" value={draft.loginWithin} onChange={(e) => setDraft({ ...draft, loginWithin: e.target.value })} />
      </Field>
      {set.error && <Problem error={set.error} />}
      <Button type="submit" disabled={!changed || Number.isNaN(ttl) || Number.isNaN(within)} busy={set.isPending}>
        Save
      </Button>
    </form>
  );
}
