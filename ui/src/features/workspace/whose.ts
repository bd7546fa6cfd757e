// Workspace is whose files are shown: a task's, or those of a jail on a node.
export type Workspace = { case: "taskId"; value: string } | { case: "jail"; value: { nodeId: string; jailId: string } };
