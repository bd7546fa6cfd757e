import { describe, expect, it } from "vitest";
import { asPersona, overrideOf, problemsOf } from "./override";

// What one run has in the place of what its persona says.
describe("the choices of a run", () => {
  it("are nothing where nothing was chosen", () => {
    expect(overrideOf(asPersona)).toBeUndefined();
    expect(problemsOf(asPersona)).toEqual({});
  });
  it("are sent as they are chosen", () => {
    expect(overrideOf({ ...asPersona, mode: "review", dollars: "2.50", iterations: "30" })).toEqual({
      mode: "review",
      provider: "",
      model: "",
      limits: { costMicros: 2_500_000n, iterations: 30 },
    });
    expect(overrideOf({ ...asPersona, provider: " openai ", model: "gpt-5" })).toEqual({ mode: "", provider: "openai", model: "gpt-5" });
  });
  it("say what is wrong with them", () => {
    expect(problemsOf({ ...asPersona, provider: "openai" }).model).toContain("both provider and model");
    expect(problemsOf({ ...asPersona, dollars: "0" }).dollars).toContain("above 0");
    expect(problemsOf({ ...asPersona, dollars: "two" }).dollars).toContain("above 0");
    for (const bad of ["0", "1001", "1.5", "x"]) expect(problemsOf({ ...asPersona, iterations: bad }).iterations).toContain("1 to 1000");
  });
});
