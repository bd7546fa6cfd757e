import { create } from "@bufbuild/protobuf";
import { createConnectRouter, type ConnectRouter } from "@connectrpc/connect";
import { createFetchHandler } from "@connectrpc/connect/protocol";
import { TransportProvider } from "@connectrpc/connect-query";
import { QueryClientProvider } from "@tanstack/react-query";
import { createMemoryHistory, createRouter, Outlet, RouterProvider, type AnyRoute } from "@tanstack/react-router";
import { render } from "@testing-library/react";
import { vi } from "vitest";
import { newQueryClient } from "@/api/query";
import { transport } from "@/api/transport";
import { rootRoute, shellRoute } from "@/app/root";
import { ShortcutsProvider } from "@/components/shortcuts";
import { SessionSchema, SessionService } from "@/gen/deckhand/v1/session_pb";

// showPage renders a feature's page at an address, as somebody with a role. What
// it asks for goes through the real transport and over the wire's format to the
// services that the test gives; nothing else is there.
export function showPage(path: string, routes: readonly AnyRoute[], services: (router: ConnectRouter) => void, role = "admin") {
  const hub = createConnectRouter();
  services(hub);
  hub.service(SessionService, {
    getSession: () => ({ session: create(SessionSchema, { userId: "user_1", userName: "ada", organisationName: "default", role }) }),
  });
  const handlers = new Map(hub.handlers.map((h) => [h.requestPath, createFetchHandler(h)]));
  vi.stubGlobal("fetch", async (input: RequestInfo | URL, init?: RequestInit) => {
    const request = new Request(input, init);
    const handler = handlers.get(new URL(request.url).pathname);
    return handler ? handler(request) : new Response(null, { status: 404 });
  });
  shellRoute.update({ component: Outlet });
  const queries = newQueryClient();
  const history = createMemoryHistory({ initialEntries: [path] });
  const routeTree = rootRoute.addChildren([shellRoute.addChildren(routes)]);
  const router = createRouter({ routeTree, history, context: { queries } });
  const shown = render(
    <TransportProvider transport={transport}>
      <QueryClientProvider client={queries}>
        <ShortcutsProvider>
          <RouterProvider router={router as never} />
        </ShortcutsProvider>
      </QueryClientProvider>
    </TransportProvider>,
  );
  return { ...shown, history, queries };
}
