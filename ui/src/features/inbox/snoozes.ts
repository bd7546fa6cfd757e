// SnoozeChoice is a time at which an item comes back.
export type SnoozeChoice = { label: string; when: string; at: number };

const hour = 3_600_000;

// morning returns nine o'clock, local time, so many days after a day.
function morning(now: Date, days: number): number {
  return new Date(now.getFullYear(), now.getMonth(), now.getDate() + days, 9).getTime();
}

// choicesUntil returns the times to offer: only those before the item expires, since
// nobody would see it again otherwise.
export function choicesUntil(now: number, expires: number | undefined): SnoozeChoice[] {
  const day = new Date(now);
  const toMonday = ((8 - day.getDay()) % 7) || 7;
  const all: [string, number][] = [
    ["In 15 minutes", now + hour / 4],
    ["In 1 hour", now + hour],
    ["In 4 hours", now + 4 * hour],
    ["Tomorrow", morning(day, 1)],
    ...(toMonday > 1 ? ([["Next Monday", morning(day, toMonday)]] as [string, number][]) : []),
  ];
  return all.filter(([, at]) => expires === undefined || at < expires).map(([label, at]) => ({ label, at, when: clock(at, now) }));
}

// clock is a time of the next days for people: "17:30", "Mon 09:00".
function clock(at: number, now: number): string {
  const [then, today] = [new Date(at), new Date(now)];
  const time = then.toLocaleTimeString(undefined, { hour: "2-digit", minute: "2-digit" });
  return then.toDateString() === today.toDateString() ? time : `${then.toLocaleDateString(undefined, { weekday: "short" })} ${time}`;
}

// localTime is a time as <input type="datetime-local"> has it.
export function localTime(at: number): string {
  const d = new Date(at);
  const two = (n: number) => String(n).padStart(2, "0");
  return `${d.getFullYear()}-${two(d.getMonth() + 1)}-${two(d.getDate())}T${two(d.getHours())}:${two(d.getMinutes())}`;
}

// untilBack returns after how many milliseconds a list is asked for again: when the next
// snoozed item comes back, and at least as often as most says.
export function untilBack(next: number | undefined, now: number, most: number): number {
  return next === undefined ? most : Math.min(most, Math.max(250, next - now + 50));
}
