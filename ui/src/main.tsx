import { TransportProvider } from "@connectrpc/connect-query";
import { QueryClientProvider } from "@tanstack/react-query";
import { RouterProvider } from "@tanstack/react-router";
import { StrictMode } from "react";
import { createRoot } from "react-dom/client";
import { newQueryClient } from "./api/query";
import { onSessionLost, transport } from "./api/transport";
import { keepShell } from "./app/chunks";
import { newRouter } from "./app/router";
import { startEarly } from "./app/early";
import { startComfort } from "./app/comfort";
import { startTheme } from "./app/theme";
import { startWorker } from "./features/push/subscription";
import { forgetSession } from "./features/session/queries";
import "./styles.css";

startTheme();
keepShell();
startComfort();
startWorker();
// A page of the cache for going back has no stream any more.
addEventListener("pageshow", (e) => e.persisted && location.reload());

const queries = newQueryClient();
const router = newRouter(queries);
startEarly(router, queries);
onSessionLost(() => {
  forgetSession(queries);
  if (!router.state.location.pathname.endsWith("/login")) {
    void router.navigate({ to: "/login", search: { next: router.state.location.href } });
  }
});

const root = document.getElementById("root");
if (!root) throw new Error("index.html has no #root");
createRoot(root).render(
  <StrictMode>
    <TransportProvider transport={transport}>
      <QueryClientProvider client={queries}>
        <RouterProvider router={router} />
      </QueryClientProvider>
    </TransportProvider>
  </StrictMode>,
);
