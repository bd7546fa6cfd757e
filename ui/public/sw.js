// The service worker of the console. It shows notifications, and opens what they are
// about. It answers no request: pages, files and calls always come from the hub, so that
// an update of the hub is an update of the console.

self.addEventListener("install", () => self.skipWaiting());
self.addEventListener("activate", (event) => event.waitUntil(self.clients.claim()));

self.addEventListener("push", (event) => {
  let about = {};
  try {
    about = event.data.json();
  } catch {
    // Something waits, whatever it is.
  }
  const title = typeof about.title === "string" ? about.title : "Deckhand";
  const shown = self.registration.showNotification(title, {
    body: typeof about.body === "string" ? about.body : "Open the console.",
    icon: "icon-192.png",
    badge: "badge-96.png",
    // A repeated message replaces the one before.
    tag: typeof about.tag === "string" ? about.tag : undefined,
    data: { path: typeof about.path === "string" ? about.path : "inbox" },
  });
  event.waitUntil(shown);
});

self.addEventListener("notificationclick", (event) => {
  event.notification.close();
  const scope = new URL(self.registration.scope);
  const url = new URL(event.notification.data?.path ?? "inbox", scope);
  // A message never leads out of the console.
  const target = url.origin === scope.origin && url.pathname.startsWith(scope.pathname) ? url : new URL("inbox", scope);
  event.waitUntil(
    (async () => {
      const windows = await self.clients.matchAll({ type: "window", includeUncontrolled: true });
      for (const client of windows) {
        if (!new URL(client.url).pathname.startsWith(scope.pathname)) continue;
        try {
          await client.focus();
          await client.navigate(target.href);
          return;
        } catch {
          // A window that this worker does not control: another one, or a new one.
        }
      }
      await self.clients.openWindow(target.href);
    })(),
  );
});
