// The client of Deckhand's API. The messages and enums of the API are in @deckhand/sdk/v1/…,
// a module for each file of proto/deckhand/v1: @deckhand/sdk/v1/task, for example.
export { Backoff, sleep } from "./backoff.js";
export { Client, type Service } from "./client.js";
export { DeckhandError, isError, type Action, type RpcCode } from "./error.js";
export { ErrorCode, errorCatalogue, type ErrorEntry } from "./gen/errors.js";
export { version } from "./gen/version.js";
export { newIdempotencyKey } from "./key.js";
export { pages, rows, type List, type RowOf } from "./list.js";
export { createTransport, type Options } from "./transport.js";
export { mayMend, watch, type WatchItem, type WatchOptions, type WatchRequest, type WatchStatus } from "./watch.js";
export { verifyWebhook, WebhookError, type CloudEvent, type WebhookRequest } from "./webhook.js";
