import { expect, test } from "vitest";
import { passwordProblem } from "./passwords";
import { servicesOf } from "./Tokens";
import { browserOf } from "../setting/browser";

test("O1: a password that the hub would refuse is refused before it is sent", () => {
  expect(passwordProblem("")).toBe("");
  expect(passwordProblem("short")).toMatch(/12 characters/);
  expect(passwordProblem("twelve chars")).toBe("");
  expect(passwordProblem("ü".repeat(36))).toBe("");
  expect(passwordProblem("ü".repeat(37))).toMatch(/72 bytes/);
  expect(passwordProblem("😀".repeat(11))).toMatch(/12 characters/);
});

test("a token's services are read from words", () => {
  expect(servicesOf(" TaskService, InboxService\nTaskService ")).toEqual(["TaskService", "InboxService"]);
  expect(servicesOf("")).toEqual([]);
});

test("a browser is named by what it says of itself", () => {
  expect(browserOf("Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0")).toBe("Firefox 140 on Linux");
  expect(browserOf("Mozilla/5.0 (Windows NT 10.0) AppleWebKit/537.36 Chrome/139.0.0.0 Safari/537.36 Edg/139.0")).toBe("Edge 139 on Windows");
  expect(browserOf("something else")).toBe("something else");
  expect(browserOf("")).toBe("unknown");
});
