import { BellRing, BookOpen, Bot, Boxes, Braces, Brain, ChartColumn, Cpu, Inbox, KeyRound, Lightbulb, LayoutGrid, ListChecks, MessageCircle, ScrollText, Search, Server, Settings, ShieldCheck, Sparkles, Users, Wallet, Workflow, Wrench, Zap, type LucideIcon } from "lucide-react";

// NavItem is a place in the navigation. One for which there is no route yet is
// left out, not shown as a promise.
export type NavItem = {
  to: string;
  label: string;
  icon: LucideIcon;
  // "g" and this letter go there.
  key: string;
  // Under which heading it stands.
  section: "Work" | "Fleet" | "Automation" | "Administration";
  // The least role that sees it; every one where unset.
  role?: "basic" | "advanced" | "admin";
};

// In the order in which they stand.
export const nav: NavItem[] = [
  { to: "/fleet", label: "Fleet", icon: LayoutGrid, key: "f", section: "Work" },
  { to: "/tasks", label: "Tasks", icon: ListChecks, key: "t", section: "Work" },
  { to: "/inbox", label: "Inbox", icon: Inbox, key: "i", section: "Work" },
  { to: "/chat", label: "Chat", icon: MessageCircle, key: "c", section: "Work" },
  { to: "/search", label: "Search", icon: Search, key: "h", section: "Work" },
  { to: "/knowledge", label: "Knowledge", icon: BookOpen, key: "k", section: "Work" },
  { to: "/statistics", label: "Statistics", icon: ChartColumn, key: "e", section: "Work" },
  { to: "/insights", label: "Insights", icon: Lightbulb, key: "j", section: "Work" },
  { to: "/patterns", label: "Patterns", icon: Sparkles, key: "q", section: "Work" },
  { to: "/graph", label: "Graph", icon: Workflow, key: "w", section: "Fleet" },
  { to: "/nodes", label: "Nodes", icon: Server, key: "n", section: "Fleet" },
  { to: "/images", label: "Images", icon: Boxes, key: "m", section: "Fleet" },
  { to: "/agents/new", label: "New agent", icon: Bot, key: "a", section: "Automation", role: "advanced" },
  { to: "/memory", label: "Memory", icon: Brain, key: "z", section: "Automation" },
  { to: "/triggers", label: "Triggers", icon: Zap, key: "r", section: "Automation" },
  { to: "/providers", label: "Providers", icon: Cpu, key: "p", section: "Administration" },
  { to: "/policy", label: "Policy", icon: ShieldCheck, key: "y", section: "Administration" },
  { to: "/tools", label: "Tools", icon: Wrench, key: "x", section: "Administration" },
  { to: "/credentials", label: "Credentials", icon: KeyRound, key: "d", section: "Administration" },
  { to: "/budgets", label: "Budgets", icon: Wallet, key: "b", section: "Administration" },
  { to: "/notifications", label: "Notifications", icon: BellRing, key: "o", section: "Administration", role: "admin" },
  { to: "/users", label: "Users", icon: Users, key: "u", section: "Administration" },
  { to: "/audit", label: "Audit", icon: ScrollText, key: "l", section: "Administration", role: "admin" },
  { to: "/api", label: "API reference", icon: Braces, key: "v", section: "Administration" },
  { to: "/settings", label: "Settings", icon: Settings, key: "s", section: "Administration" },
];
