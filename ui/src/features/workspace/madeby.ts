// madeBy is the id of the step or job that made some changes.
export const madeBy = (s: { stepId: string; jobId: string }) => s.jobId || s.stepId;
