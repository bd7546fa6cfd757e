import { useEffect, useRef, useState } from "react";
import { base } from "@/api/base";
import { Page } from "@/components/Page";
import { Problem } from "@/components/Problem";

// ReferencePage shows the OpenAPI document of the hub. What draws it is large, and is
// fetched when the page is opened.
export function ReferencePage() {
  const place = useRef<HTMLDivElement>(null);
  const [error, setError] = useState<Error>();
  useEffect(() => {
    let left = false;
    const draw = async () => {
      const [{ default: SwaggerUI }] = await Promise.all([
        import("swagger-ui-dist/swagger-ui-es-bundle.js"),
        import("swagger-ui-dist/swagger-ui.css"),
      ]);
      if (left || !place.current) return;
      SwaggerUI({
        domNode: place.current,
        url: new URL("openapi.json", base).href,
        docExpansion: "none",
        deepLinking: false,
        defaultModelsExpandDepth: 0,
        filter: true,
        validatorUrl: null, // nothing is sent to another site
        // A person tries what reads. What changes something has its own place in the console.
        supportedSubmitMethods: ["get"],
      });
    };
    draw().catch((e: unknown) => setError(e instanceof Error ? e : new Error(String(e))));
    return () => {
      left = true;
    };
  }, []);
  return (
    <Page title="API reference">
      {error && <Problem error={error} />}
      <div ref={place} className="rounded-md bg-white text-black" />
    </Page>
  );
}
