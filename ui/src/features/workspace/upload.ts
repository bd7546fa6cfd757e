import { createClient } from "@connectrpc/connect";
import { transport } from "@/api/transport";
import { bytes } from "@/components/money";
import { FileService } from "@/gen/deckhand/v1/file_pb";

const files = createClient(FileService, transport);

// The largest file that a browser can upload, in bytes; larger ones take the command line.
export const mostUpload = 16 * 1024 * 1024;

// upload writes a file of the person into the workspace of a task.
export async function upload(taskId: string, path: string, file: File): Promise<void> {
  if (file.size > mostUpload) throw new Error(`${file.name} has ${bytes(file.size)}. At most ${bytes(mostUpload)} can be uploaded here: use deckhand task files put.`);
  await files.writeFile({ workspace: { case: "taskId", value: taskId }, path, content: new Uint8Array(await file.arrayBuffer()) });
}

// nameOf is the name of an uploaded file in a workspace: no folder, and no character that
// a shell or a reader would take for something else.
export const nameOf = (file: Pick<File, "name">) =>
  file.name.replace(/^.*[/\\]/, "").replace(/[\p{C}\p{Z}"'`$&|;<>*?\\]+/gu, "-").replace(/^[-.]+/, "").slice(-120) || "file";

// attachmentPath is where a file that is attached to a message lies: a folder for each
// time, so that one with the same name does not take the place of an earlier one.
export function attachmentPath(file: Pick<File, "name">, now: Date): string {
  const stamp = now.toISOString().replace(/[-:]/g, "").replace("T", "-").slice(0, 15);
  return `attachments/${stamp}/${nameOf(file)}`;
}

// withAttachments is a message that says which files come with it.
export const withAttachments = (text: string, attached: readonly { path: string; size: number }[]) =>
  attached.length === 0 ? text : `${text}\n\nAttached, in the workspace:\n${attached.map((a) => `- ${a.path} (${bytes(a.size)})`).join("\n")}`.trim();
