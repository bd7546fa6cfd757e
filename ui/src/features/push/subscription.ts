import { base } from "@/api/base";

// Which device of the hub this browser is; only this browser needs to know.
const key = "deckhand.device";

// pushSupported reports whether this browser can show notifications of the hub.
export const pushSupported = () => globalThis.isSecureContext && "serviceWorker" in navigator && "PushManager" in globalThis && "Notification" in globalThis;

// The worker answers no request: see public/sw.js.
const worker = async () => {
  await navigator.serviceWorker.register(new URL("sw.js", base), { scope: base.pathname, updateViaCache: "none" });
  return navigator.serviceWorker.ready;
};

const toBytes = (text: string) => Uint8Array.from(atob(text.replaceAll("-", "+").replaceAll("_", "/")), (c) => c.charCodeAt(0));

// subscribe asks the person for leave, and has the browser's push service carry messages.
export async function subscribe(publicKey: string): Promise<{ endpoint: string; p256dh: string; auth: string }> {
  if ((await Notification.requestPermission()) !== "granted") {
    throw new Error("The browser does not allow notifications of this page. Allow them in the page's settings, and try again.");
  }
  const registration = await worker();
  // One of another key, of a hub before, would be refused.
  await (await registration.pushManager.getSubscription())?.unsubscribe();
  const made = (await registration.pushManager.subscribe({ userVisibleOnly: true, applicationServerKey: toBytes(publicKey) })).toJSON();
  const { endpoint, keys } = made;
  if (!endpoint || !keys?.p256dh || !keys.auth) throw new Error("The browser made no subscription. Try again.");
  return { endpoint, p256dh: keys.p256dh, auth: keys.auth };
}

// subscribed returns which device this browser is, if it is one; id sets it.
export async function subscribed(id?: string): Promise<string | undefined> {
  try {
    if (id) localStorage.setItem(key, id);
    const registration = pushSupported() ? await navigator.serviceWorker.getRegistration(base.pathname) : undefined;
    const there = await registration?.pushManager.getSubscription();
    return there ? (localStorage.getItem(key) ?? undefined) : undefined;
  } catch {
    return undefined;
  }
}

export async function unsubscribe() {
  const registration = await navigator.serviceWorker.getRegistration(base.pathname);
  await (await registration?.pushManager.getSubscription())?.unsubscribe();
}

// startWorker lets the console be installed where it may be.
export function startWorker() {
  if (globalThis.isSecureContext && "serviceWorker" in navigator) void worker().catch(() => undefined);
}
