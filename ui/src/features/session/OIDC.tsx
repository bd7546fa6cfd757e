import { useQuery } from "@tanstack/react-query";
import { base } from "@/api/base";
import { isHubPage } from "./queries";

// OIDC leads to the organisation's OpenID Connect provider, where the hub has one.
// It is a page of the hub's own, not a call: the browser goes there and returns
// logged in. It returns to the page next, if that is one of the hub's own.
export function OIDC({ next }: { next?: string }) {
  const { data } = useQuery({
    queryKey: ["oidc"],
    retry: false,
    queryFn: async ({ signal }) => {
      const res = await fetch(new URL("oidc/status", base), { signal });
      const answer: unknown = res.ok ? await res.json() : undefined;
      return typeof answer === "object" && answer !== null && "enabled" in answer && answer.enabled === true;
    },
  });
  if (!data) return null;
  const href = new URL("oidc/login", base);
  if (isHubPage(next)) href.searchParams.set("next", next);
  return (
    <a
      href={href.href}
      className="flex min-h-8 w-full items-center justify-center rounded-md border bg-raised px-3 font-medium hover:bg-page"
    >
      Log in with your organisation
    </a>
  );
}
