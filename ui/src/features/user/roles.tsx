import { Select } from "@/components/Field";
import type { ComponentProps } from "react";

// roles are from the least to the most, with what each may.
export const roles = [
  ["viewer", "read only"],
  ["basic", "run agents and answer them"],
  ["advanced", "manage agents, triggers and nodes"],
  ["admin", "full access including users and billing"],
] as const;

// RoleSelect picks a role. none is what stands for no role, where that can be.
export function RoleSelect({ none, ...rest }: ComponentProps<"select"> & { none?: string }) {
  return (
    <Select {...rest}>
      {none !== undefined && <option value="">{none}</option>}
      {roles.map(([role, may]) => (
        <option key={role} value={role}>
          {role}: {may}
        </option>
      ))}
    </Select>
  );
}
