import { toast } from "sonner";
import { problemOf } from "@/api/error";

// showError shows the error of a user's action in a toast.
export function showError(error: unknown) {
  const { code, message, fix } = problemOf(error);
  toast.error(message, { description: [fix, code].filter(Boolean).join(" · ") });
}
