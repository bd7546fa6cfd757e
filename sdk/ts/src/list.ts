import type { CallOptions } from "@connectrpc/connect";
import { DeckhandError } from "./error.js";
import { rowsOf } from "./gen/procedures.js";

type Page = { $typeName: string; nextPageToken: string };

/** RowOf is what a list has, by the type of its pages. */
export type RowOf<Res> = Res extends { $typeName: infer Name extends keyof typeof rowsOf }
  ? (typeof rowsOf)[Name] extends infer Field extends keyof Res
    ? Res[Field] extends (infer Row)[]
      ? Row
      : never
    : never
  : never;

/**
 * List is what a call returns that lists something. It is a promise of one page, and an async
 * iterable of all rows, which reads page after page as they are needed:
 *
 * ```ts
 * const { tasks, nextPageToken } = await client.tasks.listTasks({ pageSize: 20 });
 * for await (const task of client.tasks.listTasks({})) console.log(task.id);
 * ```
 */
export interface List<Res, Row> extends Promise<Res>, AsyncIterable<Row> {
  /** pages returns the pages instead of the rows. */
  pages(): AsyncGenerator<Res, void, void>;
}

type Call<Req, Res> = (request: Req, options?: CallOptions) => Promise<Res>;

/** list returns a call whose response is a page as one that returns a List. */
export function list<Req extends object, Res extends Page>(call: Call<Req, Res>): (request: Req, options?: CallOptions) => List<Res, RowOf<Res>> {
  return (request, options) => {
    const first = call(request, options);
    return Object.assign(first, {
      pages: () => pages(call, request, options, first),
      [Symbol.asyncIterator]: () => rowsIn(pages(call, request, options, first)),
    });
  };
}

/**
 * pages returns the pages of a list, one after another: call is a call of a client that
 * createClient of Connect has made.
 */
export async function* pages<Req extends object, Res extends Page>(
  call: Call<Req, Res>,
  request: Req,
  options?: CallOptions,
  first: Promise<Res> = call(request, options),
): AsyncGenerator<Res, void, void> {
  let page = await first;
  for (let token = ""; ; ) {
    yield page;
    if (page.nextPageToken === "") return;
    if (page.nextPageToken === token) throw new DeckhandError("internal", "The hub sent the same page of a list twice.");
    token = page.nextPageToken;
    options?.signal?.throwIfAborted();
    page = await call({ ...request, pageToken: token }, options);
  }
}

/** rows returns the rows of all pages of a list. */
export function rows<Req extends object, Res extends Page>(call: Call<Req, Res>, request: Req, options?: CallOptions): AsyncGenerator<RowOf<Res>, void, void> {
  return rowsIn(pages(call, request, options));
}

async function* rowsIn<Res extends Page>(read: AsyncGenerator<Res, void, void>): AsyncGenerator<RowOf<Res>, void, void> {
  for await (const page of read) {
    const field = rowsOf[page.$typeName as keyof typeof rowsOf];
    yield* page[field as unknown as keyof Res] as RowOf<Res>[];
  }
}
