import type { Page } from "playwright-core";
import { expect, it } from "vitest";
import { accessible, cli, enrol, image, inBothThemes, json, leave, newest, persona, poll, state, steps, task, tell, url } from "./world";

// Where a Command or an Id is shown, what it would copy.
async function copied(page: Page, within: string): Promise<string> {
  const title = await page.locator(within).getByRole("button").first().getAttribute("title");
  return title!.replace(/ \(copy\)$/, "");
}

// A page that is loaded again forgets this.
const mark = (page: Page) => page.evaluate(() => ((window as unknown as { stays: boolean }).stays = true));
const stays = (page: Page) => page.evaluate(() => (window as unknown as { stays?: boolean }).stays);

// What the node is called that runs from the beginning.
const nodeName = async () => (await json<{ name: string; status: string }[]>("node", "list")).find((n) => n.status === "connected")!.name;

// work tells the stories of daily work.
export function work(now: () => Page) {
  it("makes an agent that a webhook wakes, from nothing, and shows its run as it happens (L7)", async () => {
    const page = now();
    await page.goto(`${url}/agents/new`);
    await page.getByRole("link", { name: /log-triage/ }).first().waitFor();
    await page.goto(`${url}/agents/new?from=log-triage`);
    const settings = page.getByRole("region", { name: "Settings" });
    await settings.getByLabel("Name", { exact: true }).fill("Wrong Name");
    await page.getByRole("region", { name: "Problems" }).getByText(/problem/).first().waitFor(); // live validation
    await settings.getByLabel("Name", { exact: true }).fill("listener");
    await settings.getByRole("checkbox", { name: await nodeName() }).check();
    await settings.getByRole("combobox", { name: "Trigger" }).selectOption("webhook");
    await settings.getByLabel("Goal").fill("Look after {{ payload.text }}");
    await page.getByLabel("Script", { exact: true }).fill(`
turns:
  - text: I heard it.
    calls: [{tool: complete_task, arguments: {summary: "the hook was heard"}}]
`);
    await page.getByText("Valid: creates a new agent").waitFor();
    await page.getByRole("button", { name: "Deploy" }).click();
    await page.getByRole("dialog").getByText("Its triggers are active.").waitFor();
    const hook = await copied(page, "[data-testid=webhook-url]");
    const secret = await copied(page, "[data-testid=webhook-secret]");
    expect(hook).toContain(url);
    await accessible(page, "deployed");
    await page.getByRole("button", { name: "Done" }).click();
    await page.getByText("No changes").waitFor();
    await page.setViewportSize({ width: 400, height: 800 });
    await inBothThemes(page, "edit-agent-narrow");
    await page.setViewportSize({ width: 1440, height: 900 });

    await page.goto(`${url}/agents/listener`);
    await page.getByText("No runs yet").waitFor();
    await mark(page);
    const call = (token: string) =>
      fetch(hook, {
        method: "POST",
        headers: { "X-Deckhand-Token": token, "Content-Type": "application/json" },
        body: JSON.stringify({ text: "the door" }),
      });
    expect((await call("wrong")).status).toBeGreaterThanOrEqual(400);
    const res = await call(secret);
    expect(res.status, await res.text()).toBeLessThan(300);
    await page.getByText("the hook was heard").first().waitFor();
    expect((await task(await newest())).goal).toMatch(/Look after .*the door/);
    expect(await stays(page)).toBe(true);
    await page.goto(`${url}/triggers`);
    await page.getByRole("link", { name: "listener-webhook" }).click();
    await page.getByRole("heading", { level: 1, name: /listener-webhook/ }).waitFor();
    await inBothThemes(page, "trigger");
  });

  it("answers an approval with another way, another plan and a question (E2)", async () => {
    const page = now();
    await persona(
      "asker",
      `
turns:
  - text: One.
    calls: [{tool: shell_exec, arguments: {command: "echo one >> done"}}]
  - text: Two.
    calls: [{tool: shell_exec, arguments: {command: "echo two >> done"}}]
  - text: Three.
    calls: [{tool: shell_exec, arguments: {command: "echo three >> done"}}]
  - text: Done.
    calls: [{tool: complete_task, arguments: {summary: "all were answered"}}]
`,
      ["workspace: {scope: task}", "approvals: {tools: [shell_exec]}"],
    );
    await tell(page, "asker", "Ask me thrice");
    const id = await newest();
    await page.goto(`${url}/inbox`);
    for (const [command, button, field, words] of [
      ["echo one", "Suggest an alternative", "Alternative", "use the attic"],
      ["echo two", "Replace the plan", "Message to the agent", "begin with the cellar"],
      ["echo three", "Ask the agent first", "Your question", "why thrice"],
    ] as const) {
      await page.getByLabel("Command", { exact: true }).getByText(command).waitFor();
      await page.getByRole("button", { name: "More answers" }).click();
      await page.getByRole("button", { name: button }).click();
      if (command === "echo two") {
        await page.getByLabel("New item").fill("Search the cellar");
        await page.getByRole("button", { name: "Add item" }).click();
      }
      await page.getByLabel(field).fill(words);
      await accessible(page, button);
      await page.getByRole("button", { name: button }).click();
      // The card stays until one goes on: the next one takes no click meant for it.
      await page.getByText(/^Answered with/).waitFor();
      if (command !== "echo three") await page.getByRole("button", { name: /^Next/ }).click();
    }
    await page.getByText("Inbox zero").waitFor();
    await poll(() => state(id)).toBe("TASK_STATE_SUCCEEDED");
    const calls = (await steps(id)).filter((s) => s.tool === "shell_exec");
    expect(calls.map((s) => s.state === "STEP_STATE_SUCCEEDED"), "none of the calls ran").toEqual([false, false, false]);
    for (const [i, words] of ["use the attic", "begin with the cellar", "why thrice"].entries()) {
      expect(JSON.stringify(calls[i]), "the agent was told").toContain(words);
    }
  });

  it("shows what an approval would run as it is, and approves only what was shown", async () => {
    const page = now();
    const command = "echo one > hidden #\recho two\u202e\u200b";
    await persona(
      "trickster",
      `
turns:
  - text: One.
    calls: [{tool: shell_exec, arguments: {command: ${JSON.stringify(command)}}}]
  - text: Two.
    calls: [{tool: shell_exec, arguments: {command: "echo three > other"}}]
  - text: Done.
    calls: [{tool: complete_task, arguments: {summary: "both were approved"}}]
`,
      ["workspace: {scope: task}", "approvals: {tools: [shell_exec]}"],
    );
    await tell(page, "trickster", "Trick me");
    const id = await newest();
    await page.goto(`${url}/inbox`);
    const box = page.getByLabel("Command", { exact: true });
    await box.waitFor();
    expect(await box.textContent()).toBe(command);
    const marks = await box.locator("[data-mark]").evaluateAll((all) =>
      all.map((c) => [(c as HTMLElement).dataset.mark, getComputedStyle(c, "::before").content, c.getBoundingClientRect().width > 8]),
    );
    expect(marks).toEqual(
      ["CR", "U+202E RIGHT-TO-LEFT OVERRIDE", "U+200B ZERO WIDTH SPACE"].map((name) => [name, JSON.stringify(name), true]),
    );
    await page.getByText("This text contains 3 characters that are invisible").waitFor();
    // What is copied is what runs.
    const copied = await box.evaluate((el) => {
      getSelection()!.selectAllChildren(el);
      const data = new DataTransfer();
      el.dispatchEvent(new ClipboardEvent("copy", { clipboardData: data, bubbles: true, cancelable: true }));
      return data.getData("text/plain");
    });
    expect(copied).toBe(command);
    await inBothThemes(page, "inbox-literal");
    // Two clicks are one answer: what comes next is not under the pointer.
    await page.getByRole("button", { name: "Approve", exact: true }).dblclick();
    await page.getByText(/^Approved by/).waitFor();
    await poll(async () => (await steps(id)).length).toBe(2);
    expect((await steps(id)).map((s) => s.state)).toEqual(["STEP_STATE_SUCCEEDED", "STEP_STATE_WAITING"]);
    expect(await box.textContent()).toBe(command);
    await page.getByRole("button", { name: /^Next/ }).click();
    await box.getByText("echo three > other").waitFor();
    await page.getByRole("button", { name: "Approve", exact: true }).click();
    await poll(() => state(id)).toBe("TASK_STATE_SUCCEEDED");
    expect(await cli("task", "files", "cat", id, "hidden")).toBe("one\n");
  });

  it("snoozes an approval, shows its change side by side, and writes the part that was approved", async () => {
    const page = now();
    const before = Array.from({ length: 20 }, (_, i) => `line ${i + 1}`);
    const after = before.with(1, "line two").with(17, "line eighteen");
    await persona(
      "editor",
      `
turns:
  - calls: [{tool: shell_exec, arguments: {command: "seq -f 'line %g' 20 > list.txt"}}]
  - text: Two of the lines need words.
    calls: [{tool: file_write, arguments: {path: list.txt, content: ${JSON.stringify(`${after.join("\n")}\n`)}}}]
  - text: Done.
    calls: [{tool: complete_task, arguments: {summary: "the list has words"}}]
`,
      ["workspace: {scope: task}", "approvals: {tools: [file_write], timeout: 3h}"],
    );
    await tell(page, "editor", "Put words into the list");
    const id = await newest();
    await page.goto(`${url}/inbox`);
    await page.getByText("Overwrites list.txt").waitFor();

    await page.keyboard.press("z");
    await page.getByRole("menuitem", { name: /^In 1 hour/ }).click();
    await page.getByText("Inbox zero").first().waitFor();
    expect((await json<unknown[]>("inbox", "list", "--snoozed")).length).toBe(1);
    await page.getByLabel("State").selectOption("snoozed");
    await page.getByRole("button", { name: "Put back now" }).click();
    await poll(async () => (await json<unknown[]>("inbox", "list")).length).toBe(1);

    await page.goto(`${url}/inbox`);
    await page.getByText("Overwrites list.txt").waitFor();
    await page.getByRole("button", { name: "Side by side" }).click();
    const diff = page.locator("[data-testid=diff][data-split]");
    expect(await diff.locator("[data-side=before]").getByText("line 2", { exact: true }).count()).toBe(1);
    expect(await diff.locator("[data-side=after]").getByText("line two", { exact: true }).count()).toBe(1);
    await inBothThemes(page, "inbox-side-by-side");
    await page.getByRole("button", { name: "Side by side" }).click();

    await page.getByRole("button", { name: "More answers" }).click();
    await page.getByRole("button", { name: "Approve some changes" }).click();
    await page.getByRole("checkbox", { name: "Change at line 18" }).uncheck();
    const approve = page.getByRole("button", { name: "Approve 1 of 2 changes" });
    await page.getByText("Your call:").waitFor();
    await inBothThemes(page, "inbox-some-changes");
    await approve.click();
    await poll(() => state(id)).toBe("TASK_STATE_SUCCEEDED");
    expect(await cli("task", "files", "cat", id, "list.txt")).toBe(`${before.with(1, "line two").join("\n")}\n`);
  });

  it("accepts a part of a run's work: a file that is left out is as it was before", async () => {
    const page = now();
    await persona(
      "halver",
      `
turns:
  - text: I write.
    calls:
      - {tool: file_write, arguments: {path: kept.txt, content: "kept\\n"}}
      - {tool: file_write, arguments: {path: docs/left.txt, content: "left out\\n"}}
  - text: Done.
    calls: [{tool: complete_task, arguments: {summary: "two files"}}]
`,
      ["workspace: {scope: task}", "mode: review"],
    );
    await tell(page, "halver", "Write two files");
    const id = await newest();
    await poll(() => state(id)).toBe("TASK_STATE_REVIEW_NEEDED");
    await page.goto(`${url}/inbox`);
    await page.getByLabel("Keep docs/left.txt").uncheck();
    await page.getByText("The others are restored to what they were before the task.").waitFor();
    await inBothThemes(page, "inbox-review-in-part");
    await page.getByRole("button", { name: "Accept: 1 of 2 files stay, nothing is sent" }).click();
    await poll(() => state(id)).toBe("TASK_STATE_SUCCEEDED");
    expect(await cli("task", "files", "cat", id, "kept.txt")).toBe("kept\n");
    await expect(cli("task", "files", "cat", id, "docs/left.txt")).rejects.toThrow();
  });

  it("uploads files, attaches one to a message, and stops a command to have it read", async () => {
    const page = now();
    await persona(
      "deaf",
      `
turns:
  - text: I am busy.
    calls: [{tool: shell_exec, arguments: {command: "echo begun > begun; sleep 3600"}}]
  - text: Done.
    calls: [{tool: complete_task, arguments: {summary: "I was stopped"}}]
`,
      ["workspace: {scope: task}"],
    );
    await tell(page, "deaf", "Be busy");
    const id = await newest();
    await page.goto(`${url}/tasks/${id}?tab=files`);
    await page.getByRole("button", { name: /^begun/ }).waitFor();
    await page.getByLabel("Files to upload").setInputFiles({ name: "up.txt", mimeType: "text/plain", buffer: Buffer.from("uploaded\n") });
    await page.getByRole("button", { name: /^up.txt/ }).waitFor();
    expect(await cli("task", "files", "cat", id, "up.txt")).toBe("uploaded\n");
    await page.goto(`${url}/tasks/${id}`);
    await page.getByLabel("Files to attach").setInputFiles({ name: "plan.txt", mimeType: "text/plain", buffer: Buffer.from("the plan\n") });
    await page.getByRole("list", { name: "Attached files" }).getByText("plan.txt").waitFor();
    await page.getByLabel("Message the agent").fill("Read this now");
    await page.getByRole("button", { name: "Stop and do this now" }).click();
    await poll(() => state(id)).toBe("TASK_STATE_SUCCEEDED");
    const [first] = await steps(id);
    expect(first!.state, "the command was killed").toBe("STEP_STATE_FAILED");
    await page.goto(`${url}/tasks/${id}`);
    const path = /\S*plan\.txt/.exec(await page.getByText(/Read this now/).first().textContent() ?? "")![0];
    expect(await cli("task", "files", "cat", id, path)).toBe("the plan\n");
  });

  it("opens a terminal in a jail and on the machine, unmistakably, and is not fooled by what they print (H4, H10, L2)", async () => {
    const page = now();
    await persona(
      "sleeper",
      `
turns:
  - text: I wait.
    calls: [{tool: shell_exec, arguments: {command: "sleep 3600"}}]
`,
      ["workspace: {scope: task}"],
    );
    await tell(page, "sleeper", "Wait");
    const id = await newest();
    await page.locator("[data-step='1'][data-state=started]").waitFor();
    await page.getByRole("button", { name: "Terminal", exact: true }).click();
    const jail = page.getByRole("region", { name: "Terminal in the jail of sleeper" });
    await jail.getByText("In the jail of sleeper").waitFor();
    const says = async (terminal: typeof jail, command: string, words: string) => {
      await terminal.getByLabel("Terminal input").focus();
      await page.keyboard.type(`${command}\n`);
      await terminal.getByText(words).first().waitFor();
    };
    await says(jail, "echo jail-$((40+2))", "jail-42");
    // A title, the clipboard, and a link to an odd scheme.
    await says(
      jail,
      `printf '\\033]0;owned\\007\\033]52;c;b3duZWQ=\\007\\033]8;;javascript:alert(1)\\007link\\033]8;;\\007 said-%d\\n' 7`,
      "said-7",
    );
    expect(await page.title()).not.toContain("owned");
    expect(await page.locator("a[href^=javascript]").count()).toBe(0);
    const edge = (terminal: typeof jail) => terminal.evaluate((el) => getComputedStyle(el).borderTopColor);
    const inside = await edge(jail);
    await inBothThemes(page, "terminal-jail");
    await jail.getByRole("button", { name: "Close terminal" }).click();
    await cli("task", "cancel", id);
    await poll(() => state(id)).toBe("TASK_STATE_CANCELLED");

    const node = await nodeName();
    await page.goto(`${url}/nodes/${node}`);
    await page.getByRole("button", { name: "Host terminal" }).click();
    await accessible(page, "before a terminal on the machine");
    await page.getByRole("button", { name: "Open host terminal" }).click();
    const host = page.getByRole("region", { name: "Host terminal" });
    await host.getByText("Host shell on").waitFor();
    await says(host, "echo host-$((40+2))", "host-42");
    expect(await edge(host), "one sees where one is").not.toBe(inside);
    await inBothThemes(page, "terminal-host");
    await host.getByRole("button", { name: "Close terminal" }).click();
    await host.waitFor({ state: "detached" });
    await poll(() => json<unknown[]>("node", "locks")).toEqual([]);
  });

  it("chats without acting, makes a task of it, and keeps its mode (L4)", async () => {
    const page = now();
    await persona(
      "talker",
      `
turns:
  - text: I look.
    calls: [{tool: shell_exec, arguments: {command: "echo acted > acted"}}]
  - text: Done.
    calls: [{tool: complete_task, arguments: {summary: "It is a quiet day."}}]
`,
      ["workspace: {scope: task}"],
    );
    await page.goto(`${url}/chat?agent=talker`);
    await page.getByText("Chat: the agent answers without using tools.").waitFor();
    await page.getByLabel("Your question").fill("How is the day?");
    await page.getByRole("button", { name: "Ask", exact: true }).click();
    const said = page.getByRole("log", { name: "Conversation" });
    await said.getByText("It is a quiet day.").waitFor();
    const chat = new URL(page.url()).searchParams.get("chat")!;
    const acted = (await steps(chat)).filter((s) => s.tool === "shell_exec").map((s) => s.state);
    expect(acted, "what it wanted to do").not.toContain("STEP_STATE_SUCCEEDED");
    await inBothThemes(page, "chat-full");
    await said.getByText("Start a task from this conversation").click();
    await page.getByLabel("Goal").fill("Now do it");
    await page.getByRole("button", { name: "Run", exact: true }).click();
    await page.getByText("Agent mode: each message starts a task").waitFor();
    await page.getByText("It is a quiet day.").first().waitFor();
    const id = new URL(page.url()).searchParams.get("task")!;
    await poll(() => state(id)).toBe("TASK_STATE_SUCCEEDED");
    expect(await cli("task", "files", "cat", id, "acted")).toBe("acted\n");
    await page.reload();
    await page.getByText("Agent mode: each message starts a task").waitFor();
    await page.getByText("Chat", { exact: true }).locator("xpath=ancestor-or-self::label").click();
    await page.getByLabel("Your question").waitFor();
    await page.getByRole("navigation", { name: "Conversations" }).getByText("How is the day?").waitFor();
  });

  it("holds an agent and a task from the agent's page, and takes that back by a toast (L1, L2, L5)", async () => {
    const page = now();
    await persona(
      "beater",
      `
turns:
  - name: again
    text: Once more.
    calls: [{tool: shell_exec, arguments: {command: "sleep 2; date +%s%N >> beats"}}]
    next: again
`,
      ["workspace: {scope: task}"],
    );
    await tell(page, "beater", "Go on while I hold you");
    const id = await newest();
    await page.locator("[data-step='2']").waitFor();
    const control = page.getByRole("group", { name: /^Control/ });
    const toast = (words: string) => page.locator("[data-sonner-toast]").filter({ hasText: words });
    await control.getByRole("button", { name: /^Pause(:|$)/ }).click();
    await poll(() => state(id)).toBe("TASK_STATE_PAUSED");
    await toast("Paused beater").getByRole("button", { name: "Undo" }).click();
    await poll(() => state(id)).not.toBe("TASK_STATE_PAUSED");
    await control.getByRole("button", { name: /^Pause(:|$)/ }).waitFor();
    await page.getByRole("button", { name: "Pause scheduling of beater" }).click();
    await page.getByRole("button", { name: "Resume scheduling of beater" }).waitFor();
    await toast("beater is paused: new tasks will queue").getByRole("button", { name: "Undo" }).click();
    await page.getByRole("button", { name: "Pause scheduling of beater" }).waitFor();
    // What it changes stands beside what it does.
    await page.getByRole("tab", { name: "changes" }).click();
    await page.getByRole("button", { name: "By step" }).click();
    await page.getByRole("button", { name: /Step 1/ }).first().click();
    await page.locator(".diff-row[data-sign='+']").getByText(/^\d+/).first().waitFor();
    await inBothThemes(page, "agent-changes");
    await cli("task", "cancel", id);
    await poll(() => state(id)).toBe("TASK_STATE_CANCELLED");
  });

  it("pulls an image to a node, and says which images agents may use", async () => {
    const page = now();
    const node = await nodeName();
    await page.goto(`${url}/images`);
    await page.getByRole("button", { name: "Pull image" }).click();
    const pull = page.getByRole("dialog");
    await pull.getByLabel("Image", { exact: true }).fill(image);
    await accessible(page, "pull image");
    await pull.getByRole("button", { name: "Pull image" }).click();
    await page.getByRole("group", { name: `Images on ${node}` }).getByText("team/tools").first().waitFor();
    await page.getByRole("button", { name: "Change rules" }).click();
    const repositories = image.replace(/tools:1$/, "*");
    await page.getByLabel("Allowed repositories").fill(repositories);
    await accessible(page, "change rules");
    await page.getByRole("button", { name: "Save" }).click();
    await page.getByRole("region", { name: "Rules", exact: true }).getByText(repositories).waitFor();
    expect(await cli("registry", "rules")).toContain(repositories);
  });

  it("enrols a machine by the one command that it shows (L3)", async () => {
    const page = now();
    await page.goto(`${url}/nodes`);
    await mark(page);
    await page.getByRole("button", { name: "Enrol a node" }).click();
    const dialog = page.getByRole("dialog");
    await dialog.getByLabel("Labels").fill("site=attic");
    await dialog.getByRole("button", { name: "Create command" }).click();
    await dialog.getByText("Waiting for the machine").waitFor();
    await accessible(page, "enrol");
    const command = await copied(page, "[role=dialog] code");
    expect(command).toContain("DECKHAND_JOIN_TOKEN=");
    expect(command).toContain(`curl -fsSL ${url}/install/node | `);
    expect(command).toContain(`DECKHAND_HUB_URL=${url} `);
    await enrol(command, "attic");
    await dialog.getByRole("link", { name: "attic" }).waitFor();
    await dialog.getByText("is enrolled.").waitFor();
    await dialog.getByRole("button", { name: "Done" }).click();
    await page.getByRole("row", { name: /attic/ }).getByText("connected").waitFor();
    await page.getByRole("row", { name: /attic/ }).getByText("site=attic").waitFor();
    expect(await stays(page)).toBe(true);
    await cli("node", "revoke", "attic");
    await page.getByRole("row", { name: /attic/ }).getByText("revoked").waitFor();
    await leave();
  });
}
