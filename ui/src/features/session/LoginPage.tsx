import { useQueryClient } from "@tanstack/react-query";
import { getRouteApi, useRouter } from "@tanstack/react-router";
import { Tabs } from "radix-ui";
import { useEffect, useRef, useState, type FormEvent } from "react";
import type { MessageInitShape } from "@bufbuild/protobuf";
import { basePath } from "@/api/base";
import { Button } from "@/components/Button";
import { Command } from "@/components/Command";
import { Field, Input } from "@/components/Field";
import { Problem } from "@/components/Problem";
import type { CreateSessionRequestSchema } from "@/gen/deckhand/v1/session_pb";
import { PasskeyLogin } from "@/features/passkey/PasskeyLogin";
import { OIDC } from "./OIDC";
import { fetchSession, isHubPage, sessions, setSession } from "./queries";

const route = getRouteApi("/login");

// LoginPage takes a token, a name and password, or the code in the link that
// `deckhand open` prints.
export function LoginPage() {
  const { next } = route.useSearch();
  const router = useRouter();
  const queries = useQueryClient();
  const [busy, setBusy] = useState(false);
  const [error, setError] = useState<unknown>();

  const login = async (request: MessageInitShape<typeof CreateSessionRequestSchema>) => {
    setBusy(true);
    setError(undefined);
    try {
      const { session } = await sessions.createSession(request);
      if (!session) throw new Error("The hub returned no session. Try again.");
      queries.clear();
      setSession(queries, session);
      if (isHubPage(next)) {
        location.assign(basePath + next);
        return;
      }
      await router.navigate({ to: next ?? "/fleet", replace: true });
    } catch (e) {
      setError(e);
      setBusy(false);
    }
  };

  // The code works once, and does not stay in the address.
  const taken = useRef(false);
  useEffect(() => {
    document.title = "Log in · Deckhand";
    const code = new URLSearchParams(location.hash.slice(1)).get("code");
    if (!code || taken.current) return;
    taken.current = true;
    history.replaceState(history.state, "", location.pathname + location.search);
    void login({ with: { case: "code", value: code } });
    // eslint-disable-next-line -- once, with what the address had
  }, []);

  // A browser does not send the session's cookie when another site leads to a page of the hub,
  // so that the hub leads here. From here it is sent.
  useEffect(() => {
    if (!isHubPage(next)) return;
    void fetchSession(queries).then(
      () => location.assign(basePath + next),
      () => undefined, // nobody is logged in
    );
  }, [next, queries]);

  const submit = (e: FormEvent<HTMLFormElement>) => {
    e.preventDefault();
    const form = new FormData(e.currentTarget);
    const value = (name: string) => String(form.get(name) ?? "").trim();
    if (form.has("token")) void login({ with: { case: "token", value: value("token") } });
    else {
      void login({
        with: { case: "password", value: { name: value("name"), password: String(form.get("password") ?? "") } },
      });
    }
  };

  return (
    <main className="flex min-h-full items-center justify-center p-4">
      <div className="w-full max-w-sm space-y-5 rounded-lg border bg-panel p-6">
        <div>
          <h1 className="text-xl font-semibold">Deckhand</h1>
          <p className="text-dim">Log in to this hub.</p>
        </div>
        <Tabs.Root defaultValue="token" className="space-y-4">
          <Tabs.List aria-label="Login method" className="flex gap-1 rounded-md bg-raised p-1">
            {[
              ["token", "Token"],
              ["password", "Password"],
            ].map(([value, label]) => (
              <Tabs.Trigger
                key={value}
                value={value!}
                className="min-h-7 flex-1 rounded text-sm data-[state=active]:bg-panel data-[state=active]:font-medium"
              >
                {label}
              </Tabs.Trigger>
            ))}
          </Tabs.List>
          <Tabs.Content value="token">
            <form onSubmit={submit} className="space-y-3">
              <Field label="API token" hint="Starts with dhu_.">
                <Input name="token" type="password" required autoComplete="off" autoFocus />
              </Field>
              <Button type="submit" look="primary" busy={busy} className="w-full">
                Log in
              </Button>
            </form>
          </Tabs.Content>
          <Tabs.Content value="password">
            <form onSubmit={submit} className="space-y-3">
              <Field label="Name">
                <Input name="name" required autoComplete="username" />
              </Field>
              <Field label="Password">
                <Input name="password" type="password" required autoComplete="current-password" />
              </Field>
              <Button type="submit" look="primary" busy={busy} className="w-full">
                Log in
              </Button>
            </form>
          </Tabs.Content>
        </Tabs.Root>
        <PasskeyLogin login={login} />
        <OIDC next={next} />
        {error !== undefined && <Problem error={error} />}
        <div className="space-y-1.5 text-sm text-dim">
          <p>On the hub&apos;s machine, this command prints a login link:</p>
          <Command text="deckhand open" />
        </div>
      </div>
    </main>
  );
}
