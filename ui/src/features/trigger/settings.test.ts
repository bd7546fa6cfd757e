import { clone, create } from "@bufbuild/protobuf";
import { describe, expect, it } from "vitest";
import { TriggerSchema, TriggerSpecSchema } from "@/gen/deckhand/v1/trigger_pb";
import { change, settingProblems, settingsOf } from "./settings";

const trigger = (spec: Parameters<typeof create<typeof TriggerSpecSchema>>[1]) => create(TriggerSchema, { spec });

describe("the settings of a trigger", () => {
  it("return what nobody changed", () => {
    for (const spec of [
      { filter: "true", mapping: { a: "payload.b" }, overlap: "queue", cron: { schedule: "0 6 * * *", timeZone: "Europe/Berlin", missed: "skip", maxMissed: 3 } },
      { loop: { pause: { seconds: 5400n }, maxRuns: 7n, budgetMicros: 2_500_000n }, attended: true },
      { webhook: { verify: "hmac", signatureHeader: "X-Sig", signaturePrefix: "v1=", tolerance: { seconds: 90n }, ratePerMinute: 60, maxBytes: 9n } },
    ]) {
      const t = trigger(spec);
      expect(settingProblems(settingsOf(t), t)).toEqual({});
      expect(change(clone(TriggerSpecSchema, t.spec!), settingsOf(t))).toEqual(t.spec);
    }
  });
  it("say what the hub would not take", () => {
    const cron = trigger({ cron: { schedule: "@daily" } });
    expect(settingProblems({ ...settingsOf(cron), schedule: "* *" }, cron)).toHaveProperty("schedule");
    const hook = trigger({ webhook: { verify: "github" } });
    expect(Object.keys(settingProblems({ ...settingsOf(hook), tolerance: "soon", rate: "-1", dedupeHeader: "a b" }, hook))).toEqual(["tolerance", "dedupeHeader", "rate"]);
  });
});
