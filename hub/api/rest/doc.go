// Package rest serves the API below /v1: REST with JSON for every unary procedure of
// people and programs, server-sent events, a WebSocket for the updates of a task, and logs,
// files and exports as they are.
//
// The paths are google.api.http annotations of the protos; Routes lists them. Handler
// finds a request's procedure and has [auth.Door] admit its caller before any of the body
// is read. Then vanguard turns the request into a Connect call of the same handlers that
// serve the other protocols, with the same interceptors, rights and limits. What streams is
// a client of those handlers: it makes calls in memory on behalf of its caller, who has to
// pass the same checks. Nothing here decides anything.
//
// Errors are application/problem+json (RFC 9457). Responses to GET have an ETag, and
// If-None-Match is honored. A reader who does not read is disconnected and holds no more
// than one batch of events.
package rest
