"use strict";

// The row of the error code that the URL names, if it names one: `/docs#overloaded`.
const row = document.getElementById(location.hash.slice(1));

// Show /openapi.json with Swagger UI. "Execute" sends requests to this service with the key entered here.
SwaggerUIBundle({
  url: "/openapi.json",
  dom_id: "#viewer",
  deepLinking: row === null, // it would change the hash
  docExpansion: "list",
  defaultModelsExpandDepth: 0,
  displayRequestDuration: true,
  persistAuthorization: false, // an API key must not stay in the browser's storage
  tryItOutEnabled: true,
  validatorUrl: null, // the default asks a public validator
});

// The viewer grows above the row: scroll to the row again, until the reader acts.
if (row) {
  const growth = new ResizeObserver(() => row.scrollIntoView());
  growth.observe(document.getElementById("viewer"));
  for (const action of ["wheel", "pointerdown", "keydown"]) {
    addEventListener(action, () => growth.disconnect(), { once: true });
  }
}
