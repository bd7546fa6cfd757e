// tabs are the parts of the users page.
export const tabs = ["users", "teams", "tokens"] as const;
export type Tab = (typeof tabs)[number];
