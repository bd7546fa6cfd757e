import { useEffect } from "react";
import { Page } from "@/components/Page";
import { pass } from "./login";

// LoginCallback is the page to which a provider sends its code. It passes the code on
// to the page that began the login, and closes itself.
export function LoginCallback() {
  useEffect(() => {
    pass(location.search);
    // The code is not to stay in the history of the browser.
    history.replaceState(null, "", location.pathname);
    window.close();
  }, []);
  return (
    <Page title="Provider login">
      <p>You can close this window. The login goes on in the window in which you began it.</p>
    </Page>
  );
}
